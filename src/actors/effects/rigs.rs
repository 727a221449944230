//! Work on the rigs: their repositories, sandboxes and set-up commands, each within the budget of its rig.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{NotBegun, Owner, WorkKind, budgeted};
use crate::actors::claims::ClaimKey;
use crate::actors::directory::Directory;
use crate::actors::mail::{DispatcherMsg, WitnessMsg};
use crate::actors::world::World;
use crate::domain::ids::RigName;
use crate::domain::nuke::NukePermit;
use crate::ports::repo::{Repo, RepoError};
use crate::ports::tasks::TaskError;

/// The limit of waiting for short work on a rig: longer than that of a git command.
const FILES_LIMIT: Duration = Duration::from_secs(150);

/// Runs short work on a rig's repository. Work that does not end in time is given up; it only reads, or has no effect
/// that comes too late.
///
/// # Errors
/// Those of [`repo_for`], and [`RepoError::Timeout`].
pub async fn repo<T: Send + 'static>(
    world: &World,
    rig: &RigName,
    work: impl FnOnce(&dyn Repo) -> Result<T, RepoError> + Send + 'static,
) -> Result<T, RepoError> {
    let done = tokio::time::timeout(FILES_LIMIT, repo_for(world, rig, WorkKind::Files, work));
    done.await.map_err(|_| late(rig))?
}

fn not_begun(refused: NotBegun) -> RepoError {
    match refused {
        NotBegun::Spent(spent) => RepoError::Unseen(spent.to_string()),
        NotBegun::Displaced(why) => RepoError::Held(why),
    }
}

fn late(rig: &RigName) -> RepoError {
    RepoError::Timeout {
        what: format!("reading the files of rig {rig}"),
        limit: FILES_LIMIT,
    }
}

/// Runs work of a kind on a rig's repository.
///
/// # Errors
/// The work's own error; [`RepoError::Held`] while the rig is held, because its repository cannot be made ready, or once
/// the city's directory is not at its path any more;
/// [`RepoError::Unseen`] while earlier work of this kind hangs; [`RepoError::NotFound`] when the rig is not configured;
/// [`RepoError::Failed`] when the work panicked.
pub async fn repo_for<T: Send + 'static>(
    world: &World,
    rig: &RigName,
    kind: WorkKind,
    work: impl FnOnce(&dyn Repo) -> Result<T, RepoError> + Send + 'static,
) -> Result<T, RepoError> {
    let done = unreported(world, rig, kind, work).await;
    if matches!(done, Err(RepoError::Held(_))) {
        report_held(world, rig);
    }
    done
}

/// As [`repo_for`], by the look that reports held rigs.
async fn unreported<T: Send + 'static>(
    world: &World,
    rig: &RigName,
    kind: WorkKind,
    work: impl FnOnce(&dyn Repo) -> Result<T, RepoError> + Send + 'static,
) -> Result<T, RepoError> {
    let Some(repo) = world.repo(rig) else {
        return Err(RepoError::NotFound(format!("rig {rig}")));
    };
    let broken = || RepoError::Failed("an operation on the repository panicked".into());
    let ready = move || {
        repo.ready()?;
        work(&*repo)
    };
    let done = budgeted(world, Owner::Rig(rig.clone()), kind, ready).await;
    done.map_err(not_begun)?.ok_or_else(broken)?
}

/// Requests the report that a rig is held, unless it is reported already: the next patrol may be long after.
fn report_held(world: &World, rig: &RigName) {
    let newest = world.directory.newest();
    let world = newest.as_deref().unwrap_or(world);
    let ground = &world.directory.ground;
    if is_held(world, rig) && !ground.has_rig(&world.city.rig_dir(rig)) {
        ground.look_soon();
    }
}

/// Returns the mail address of the rig's user, also while the rig is held.
///
/// # Errors
/// [`RepoError::Unseen`] or [`RepoError::Timeout`] while the rig does not answer.
pub async fn user_email(world: &World, rig: &RigName) -> Result<Option<String>, RepoError> {
    let Some(repo) = world.repo(rig) else {
        return Ok(None);
    };
    let owner = Owner::Rig(rig.clone());
    let asked = budgeted(world, owner, WorkKind::Files, move || repo.user_email());
    let asked = tokio::time::timeout(FILES_LIMIT, asked).await;
    let asked = asked.map_err(|_| late(rig))?.map_err(not_begun)?;
    Ok(asked.flatten())
}

/// The time that a reload waits for a rig.
const PREPARE_LIMIT: Duration = Duration::from_secs(120);

/// Prepares a rig for a reload, in one thread at a time. None when it is not prepared in time: the thread goes on, and
/// until it ends no other is begun. The inner value is none after a panic.
pub async fn prepare<T: Send + 'static>(
    world: &World,
    rig: &RigName,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<Option<T>> {
    let prepared = budgeted(world, Owner::Rig(rig.clone()), WorkKind::Prepare, work);
    let prepared = tokio::time::timeout(PREPARE_LIMIT, prepared).await;
    prepared.ok()?.ok()
}

/// Returns the rigs that do not answer, each with the reason.
pub fn unseen_rigs(world: &World) -> Vec<(RigName, String)> {
    let rigs = world.city.rigs.iter();
    let unseen =
        rigs.filter_map(|rig| Some((rig.name.clone(), world.thread_budgets.unseen(&rig.name)?)));
    unseen.collect()
}

/// Returns true while the rig is held. That has its own report, and is the cause of what fails in the rig meanwhile.
pub fn is_held(world: &World, rig: &RigName) -> bool {
    world.repo(rig).is_some_and(|repo| repo.held().is_some())
}

/// The time that a look at the repository of a rig waits for its turn and its end.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
/// The time that a patrol waits for these looks: longer than a disk that answers takes.
const LOOKS_LIMIT: Duration = Duration::from_secs(1);

/// Looks whether each rig's repository is still there; a rig whose repository is gone is held from then on. A rig that
/// does not answer has its own report, and does not delay that of the others: its look goes on beside it, and no other
/// is begun there meanwhile.
pub async fn look_at_repositories(world: &Arc<World>) {
    let mut looks = tokio::task::JoinSet::new();
    for rig in world.repos.keys() {
        let Some(claim) = world.claims.claim(ClaimKey::Ground(rig.clone())) else {
            continue;
        };
        let (world, rig) = (Arc::clone(world), rig.clone());
        // Held by the thread, which may hang longer than the look waits.
        let done = move |_: &dyn Repo| {
            drop(claim);
            Ok(())
        };
        looks.spawn(async move {
            let look = unreported(&world, &rig, WorkKind::Files, done);
            let _late_or_held = tokio::time::timeout(LOOK_LIMIT, look).await;
        });
    }
    let all = async { while looks.join_next().await.is_some() {} };
    let _some_are_late = tokio::time::timeout(LOOKS_LIMIT, all).await;
    looks.detach_all();
}

/// Returns the held rigs, each with the reason.
pub fn held(world: &World) -> BTreeMap<RigName, String> {
    let rigs = world.repos.iter();
    rigs.filter_map(|(rig, repo)| Some((rig.clone(), repo.held()?)))
        .collect()
}

/// Tells the actors that a rig is held no longer. Its sandboxes are watched from their next look on, and completions that sessions
/// saved meanwhile are handled before their sessions are started again.
pub fn go_on(directory: &Directory, rig: &RigName) {
    tracing::info!(%rig, "the held rig was prepared; its work continues");
    directory.ground.look_soon();
    directory.tell_dispatcher(DispatcherMsg::Outbox);
    directory.tell_witness(rig, WitnessMsg::Patrol);
}

/// Retries the preparation of held rigs, each in one thread at a time. Returns these rigs, with the reason.
pub fn prepare_held(world: &World) -> BTreeMap<RigName, String> {
    let held = held(world);
    for (rig, repo) in world
        .repos
        .iter()
        .filter(|(rig, _)| held.contains_key(*rig))
    {
        // A first fetch may take an hour.
        if let Some(claim) = world.claims.claim(ClaimKey::Prepare(rig.clone())) {
            let (rig, repo) = (rig.clone(), Arc::clone(repo));
            let displaced = Arc::clone(&world.displaced);
            let directory = Arc::clone(&world.directory);
            let _task = tokio::task::spawn_blocking(move || {
                if displaced().is_some() {
                    return;
                }
                match repo.prepare() {
                    Ok(()) => go_on(&directory, &rig),
                    Err(why) => tracing::debug!(
                        %rig,
                        %why,
                        "the held rig still cannot be prepared; it is retried"
                    ),
                }
                drop(claim);
            });
        }
    }
    held
}

/// Removes the permit's sandbox, unless a session came to it after the permit was given, up to the instant of the
/// removal.
///
/// # Errors
/// [`RepoError::PermitStale`] when anything changed since the permit was given.
pub async fn discard(world: &World, permit: NukePermit) -> Result<(), RepoError> {
    let (trash, rig) = (world.city.trash_dir(), permit.raider().rig.clone());
    let provider = Arc::clone(&world.sessions);
    repo_for(world, &rig, WorkKind::Sandbox, move |repo| {
        let id = permit.raider().session_id();
        let still = || {
            let seen = provider.facts(&id);
            let seen = seen.map_err(|error| RepoError::PermitStale(error.to_string()))?;
            // If the provider no longer knows the session, it has ended.
            match seen.as_ref().is_none_or(|seen| permit.is_for(seen)) {
                true => Ok(()),
                false => Err(RepoError::PermitStale("it has a newer session".into())),
            }
        };
        // Checked first, to spare git a useless measurement.
        still()?;
        repo.discard_sandbox(&permit, &trash, &still)
    })
    .await
}

/// Runs the set-up commands of a fresh sandbox.
///
/// # Errors
/// A command failed, or earlier commands of the rig hang.
pub async fn set_up(
    world: &World,
    rig: &RigName,
    (sandbox, commands): (PathBuf, Vec<String>),
    env: BTreeMap<String, String>,
) -> Result<(), TaskError> {
    let (tasks, dir) = (Arc::clone(&world.tasks), sandbox.clone());
    let run = move || tasks.set_up(&dir, &commands, &env);
    let done = budgeted(world, Owner::Rig(rig.clone()), WorkKind::Commands, run).await;
    let failed = |why: String| TaskError { path: sandbox, why };
    match done {
        Ok(Some(done)) => done,
        Ok(None) => Err(failed("a set-up panicked".into())),
        Err(refused) => Err(failed(refused.to_string())),
    }
}
