//! A check of the files: read, validated, their rigs prepared, and handed to the root.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::look_timer::{NoLook, watched};
use crate::actors::mail::{Applied, HeldRigs, Outcome};
use crate::actors::mail::{Reload, RootMail};
use crate::actors::records::operator_orders;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::actors::{ask, conditions, effects};
use crate::domain::answers::HeldRig;
use crate::domain::city::{City, Rig};
use crate::domain::ids::{ChildId, RigName};
use crate::domain::relic::Hook;
use crate::domain::reload::{in_force, raiders, refused, rigs};
use crate::ports::config::{ConfigSource, Loaded};
use crate::ports::repo::Repo;

/// Timeout of the root's take-over, which does nothing slow.
const TAKE_OVER: Duration = Duration::from_secs(60);

/// The time that a reload waits until what it changed at the held rigs is reported.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// Checks the files, and applies the configuration unless this is a dry run. Returns the outcome, and the rigs that it left held or
/// made ready: their new state is in the status, and reported, before the caller is answered, unless that takes longer than the limit.
pub(super) async fn read(
    world: &Arc<World>,
    source: Arc<dyn ConfigSource>,
    dry_run: bool,
    is_asked: bool,
) -> (Outcome, HeldRigs) {
    let before = effects::held(world);
    let outcome = look(world, source, dry_run, is_asked).await;
    let newest = world.newest();
    let held = effects::held(&newest);
    if before != held {
        world.directory.ground.look_now(REPORT_LIMIT).await;
    }
    let is_over = |rig: &RigName| newest.repos.contains_key(rig) && !held.contains_key(rig);
    let over = before.into_keys().filter(is_over);
    let rigs = HeldRigs {
        prepared: over.filter(|_| !dry_run).collect(),
        held: held
            .into_iter()
            .map(|(rig, why)| HeldRig { rig, why })
            .collect(),
    };
    (outcome, rigs)
}

async fn look(
    world: &Arc<World>,
    source: Arc<dyn ConfigSource>,
    dry_run: bool,
    is_asked: bool,
) -> Outcome {
    let look = attempt(world, Arc::clone(&source), dry_run).await;
    let look = match look {
        // The user's own git configuration may have changed, which no file of the city shows.
        Ok(Outcome::Same) if is_asked && !dry_run => refreshed(world, source).await,
        look => look,
    };
    match look {
        Ok(outcome) => outcome,
        Err(refusal) => Outcome::Failed(refusal),
    }
}

/// Has each rig apply its settings again, when the city's files are unchanged.
async fn refreshed(world: &World, source: Arc<dyn ConfigSource>) -> Result<Outcome, Refusal> {
    let repos = repos(world, source, &world.city).await?;
    Ok(repos.map_or_else(Outcome::Rejected, |_| Outcome::Same))
}

async fn attempt(
    world: &Arc<World>,
    source: Arc<dyn ConfigSource>,
    dry_run: bool,
) -> Result<Outcome, Refusal> {
    let reading = Arc::clone(&source);
    let read = limited(world, "the configuration files", move || reading.load());
    let loaded = match read.await? {
        Ok(loaded) => loaded,
        Err(wrong) => return Ok(Outcome::Rejected(wrong)),
    };
    let old = &world.city;
    let draining = old.rigs.iter().any(|rig| rig.draining);
    // A dry run always reports the changes from the configuration in force.
    if loaded.city.revision == old.revision && !draining && !dry_run {
        return Ok(Outcome::Same);
    }
    if let Some(why) = refused(old, &loaded.city) {
        return Ok(Outcome::Rejected(why));
    }
    let (busy, hooks, held) = holding_work(world).await?;
    let Loaded { city, shown } = loaded;
    let (city, pending) = in_force(old, city, &|rig| busy.contains(rig));
    if city.revision == old.revision && city.rigs == old.rigs && !dry_run {
        return Ok(Outcome::Same);
    }
    let repos = match dry_run {
        true => world.repos.clone(),
        false => match repos(world, source, &city).await? {
            Ok(repos) => repos,
            Err(why) => return Ok(Outcome::Rejected(why)),
        },
    };
    if let Err(why) = make_ready(world, &city, dry_run).await? {
        return Ok(Outcome::Rejected(why));
    }
    let revision = city.revision.clone();
    let rigs = rigs(old, &city, [&world.shown, &shown]);
    let raiders = raiders(old, &city, &hooks, &held);
    let undisturbed = conditions::undisturbed(world).await?;
    let message = |reply| {
        RootMail::Reload(Box::new(Reload {
            city: Arc::new(city),
            shown: Arc::new(shown),
            repos,
            undisturbed,
            dry_run,
            reply,
        }))
    };
    let changes = ask::ask(world.directory.root(), message, TAKE_OVER).await?;
    Ok(Outcome::Applied(Applied {
        revision,
        changes,
        rigs,
        raiders,
        pending,
    }))
}

/// Does one thing of a reload in a thread of its own, with a limit: a disk that does not answer must not end all
/// reloads. While the thread hangs, no other is begun.
async fn limited<T: Send + 'static>(
    world: &Arc<World>,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let own = Arc::clone(world);
    let done = async move { effects::configuration(&own, work).await };
    let late = |why: &str| {
        let message = format!("{what}: {why}");
        Refusal::new(RefusalKind::Timeout, message)
            .hint("check for a disk or a network mount that does not answer")
    };
    match watched(world, "config", done).await {
        Ok(Ok(Some(done))) => Ok(done),
        Ok(Err(why)) => Err(late(&why)),
        Err(NoLook::Hangs) => Err(late("no answer in time")),
        Ok(Ok(None)) | Err(NoLook::Panicked) => {
            Err(Refusal::internal(format!("{what}: reading panicked")))
        }
    }
}

/// Returns the rigs with a raider, an open saga or a merge request, which cannot be removed yet; all hooks; and the
/// suspended children.
async fn holding_work(
    world: &World,
) -> Result<(BTreeSet<RigName>, Vec<Hook>, BTreeSet<ChildId>), Refusal> {
    let read = world.store.run(|txn| {
        let mut rigs: BTreeSet<RigName> = BTreeSet::new();
        let hooks = txn.hooks(None)?;
        rigs.extend(hooks.iter().map(|hook| hook.raider.rig.clone()));
        rigs.extend(txn.sagas(None)?.into_iter().map(|saga| saga.rig));
        rigs.extend(txn.mrs(None, true)?.into_iter().map(|mr| mr.rig));
        Ok((rigs, hooks, operator_orders::read(txn)?.suspended))
    });
    Ok(read.await?)
}

/// Prepares the git of every rig: new rigs are set up, the others apply their settings again (`rules.md`,
/// repositories). All are made before the first is prepared, which must know the places of the others. A rig that cannot be prepared
/// keeps the whole configuration from being applied; one that is held or does not answer keeps its present settings.
async fn repos(
    world: &World,
    source: Arc<dyn ConfigSource>,
    city: &City,
) -> Result<Result<BTreeMap<RigName, Arc<dyn Repo>>, String>, Refusal> {
    let city = Arc::new(city.clone());
    let making = city.rigs.iter().map(|rig| {
        let (source, city, rig) = (Arc::clone(&source), Arc::clone(&city), rig.clone());
        async move {
            let made = made(world, source, city, &rig).await;
            made.map(|made| (rig, made))
        }
    });
    let (mut preparing, mut refused) = (Vec::new(), Vec::new());
    for made in futures_util::future::join_all(making).await {
        match made? {
            (rig, Ok(repo)) => preparing.push(async move {
                let prepared = prepared(world, &rig, repo).await;
                (rig.name, prepared)
            }),
            (rig, Err(why)) => refused.push(format!("rig {}: {why}", rig.name)),
        }
    }
    let mut repos = BTreeMap::new();
    for (rig, prepared) in futures_util::future::join_all(preparing).await {
        match prepared? {
            Ok(repo) => {
                repos.insert(rig, repo);
            }
            Err(why) => refused.push(format!("rig {rig}: {why}")),
        }
    }
    Ok(match refused.is_empty() {
        true => Ok(repos),
        false => Err(refused.join("\n")),
    })
}

const STILL: &str = "it is still being prepared; reload again when it is";

fn panicked() -> Refusal {
    Refusal::internal("making the rigs ready panicked")
}

/// Returns the git of one rig, made if the rig is new.
async fn made(
    world: &World,
    source: Arc<dyn ConfigSource>,
    city: Arc<City>,
    rig: &Rig,
) -> Result<Result<Arc<dyn Repo>, String>, Refusal> {
    if let Some(known) = world.repos.get(&rig.name) {
        return Ok(Ok(Arc::clone(known)));
    }
    let own = rig.clone();
    let make = move || source.rig(&city, &own);
    match effects::prepare(world, &rig.name, make).await {
        Some(made) => Ok(Ok(made.ok_or_else(panicked)?)),
        None => Ok(Err(STILL.to_owned())),
    }
}

/// Prepares the git of one rig.
async fn prepared(
    world: &World,
    rig: &Rig,
    repo: Arc<dyn Repo>,
) -> Result<Result<Arc<dyn Repo>, String>, Refusal> {
    // A draining rig finishes its work with its present settings.
    if rig.draining {
        return Ok(Ok(repo));
    }
    let is_new = !world.repos.contains_key(&rig.name);
    let (own, directory, name) = (
        Arc::clone(&repo),
        Arc::clone(&world.directory),
        rig.name.clone(),
    );
    let prepare = move || {
        let was_held = !is_new && own.held().is_some();
        match own.prepare() {
            Ok(()) if was_held => {
                effects::go_on(&directory, &name);
                Ok(())
            }
            // A held rig does not keep changes from the others.
            Err(_) if !is_new && own.held().is_some() => Ok(()),
            refreshed => refreshed.map_err(|error| error.to_string()),
        }
    };
    match effects::prepare(world, &rig.name, prepare).await {
        Some(prepared) => Ok(prepared.ok_or_else(panicked)?.map(|()| repo)),
        None if is_new => Ok(Err(STILL.to_owned())),
        None => {
            tracing::warn!(rig = %rig.name, "the rig does not answer; it keeps its present settings until the next reload");
            Ok(Ok(repo))
        }
    }
}

/// Prepares the session providers that the configuration uses or may use.
async fn make_ready(
    world: &Arc<World>,
    city: &City,
    dry_run: bool,
) -> Result<Result<(), String>, Refusal> {
    let (sessions, provider) = (Arc::clone(&world.sessions), city.session.provider);
    let ready = move || match dry_run {
        true => sessions.check(provider),
        false => sessions.make_ready(provider),
    };
    limited(world, "the session provider", ready).await
}
