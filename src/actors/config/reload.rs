//! One look at the files: read, validated, its rigs made ready, and handed to the root.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::mail::{Applied, Outcome};
use crate::actors::mail::{Reload, RootMail};
use crate::actors::records::standing;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::actors::{ask, conditions, effects};
use crate::domain::city::City;
use crate::domain::ids::{ChildId, RigName};
use crate::domain::relic::Hook;
use crate::domain::reload::{in_force, raiders, refused, rigs};
use crate::ports::config::{ConfigSource, Loaded};
use crate::ports::repo::Repo;

/// The root only takes it over; nothing slow.
const TAKE_OVER: Duration = Duration::from_secs(60);

/// Looks, and has the configuration taken over unless only what would be done is asked.
pub(super) async fn read(
    world: &Arc<World>,
    source: Arc<dyn ConfigSource>,
    dry_run: bool,
    is_asked: bool,
) -> Outcome {
    let look = attempt(world, Arc::clone(&source), dry_run).await;
    let look = match look {
        // The user's own configuration of git may have changed, and no file of the city tells.
        Ok(Outcome::Same) if is_asked && !dry_run => refreshed(world, source).await,
        look => look,
    };
    match look {
        Ok(outcome) => outcome,
        Err(refusal) => Outcome::Failed(refusal),
    }
}

/// Has each rig take its settings over anew, where nothing of the city changed.
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
    let loaded = match effects::blocking(move || reading.load()).await {
        Some(Ok(loaded)) => loaded,
        Some(Err(wrong)) => return Ok(Outcome::Rejected(wrong)),
        None => return Err(Refusal::internal("reading the configuration panicked")),
    };
    let old = &world.city;
    let draining = old.rigs.iter().any(|rig| rig.draining);
    // A rehearsal says what would be done now, not what was done last.
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

/// Rigs with a raider, an open operation or a merge request, which cannot go yet; all hooks; and whom
/// persons suspended.
async fn holding_work(
    world: &World,
) -> Result<(BTreeSet<RigName>, Vec<Hook>, BTreeSet<ChildId>), Refusal> {
    let read = world.store.run(|txn| {
        let mut rigs: BTreeSet<RigName> = BTreeSet::new();
        let hooks = txn.hooks(None)?;
        rigs.extend(hooks.iter().map(|hook| hook.raider.rig.clone()));
        rigs.extend(txn.sagas(None)?.into_iter().map(|saga| saga.rig));
        rigs.extend(txn.mrs(None, true)?.into_iter().map(|mr| mr.rig));
        Ok((rigs, hooks, standing::read(txn)?.suspended))
    });
    Ok(read.await?)
}

/// The git of every rig: new ones are made ready, those that were there take their settings over
/// anew (`4-rules.md`, repositories). One that cannot be worked on keeps the whole from being
/// applied.
async fn repos(
    world: &World,
    source: Arc<dyn ConfigSource>,
    city: &City,
) -> Result<Result<BTreeMap<RigName, Arc<dyn Repo>>, String>, Refusal> {
    let (known, city) = (world.repos.clone(), city.clone());
    let opened = effects::blocking(move || {
        let mut repos = BTreeMap::new();
        for rig in &city.rigs {
            let repo = match known.get(&rig.name) {
                // What it is left with is worked off with the settings that it has.
                Some(repo) if rig.draining => Ok(Arc::clone(repo)),
                Some(repo) => match repo.prepare() {
                    // It is held, and keeps no change from the others.
                    Err(_) if repo.held().is_some() => Ok(Arc::clone(repo)),
                    refreshed => refreshed
                        .map(|()| Arc::clone(repo))
                        .map_err(|error| error.to_string()),
                },
                None => source.open_rig(&city, rig),
            };
            let repo = repo.map_err(|why| format!("rig {}: {why}", rig.name))?;
            repos.insert(rig.name.clone(), repo);
        }
        Ok(repos)
    });
    let panicked = || Refusal::internal("making the rigs ready panicked");
    opened.await.ok_or_else(panicked)
}

/// Sessions can be started where the configuration says, or could be.
async fn make_ready(
    world: &World,
    city: &City,
    dry_run: bool,
) -> Result<Result<(), String>, Refusal> {
    let (sessions, provider) = (Arc::clone(&world.sessions), city.session.provider);
    let ready = effects::blocking(move || match dry_run {
        true => sessions.check(provider),
        false => sessions.make_ready(provider),
    })
    .await;
    ready.ok_or_else(|| Refusal::internal("the provider panicked"))
}
