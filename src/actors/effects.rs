//! The only place where actors touch the world. Slow work runs on a blocking thread and comes back as a value; nothing
//! here decides.

mod commands;
mod rigs;

use crate::actors::mail::ShamanMsg;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;

pub use self::commands::{command, command_noting, end_leftovers, errand_env, pool_size};
pub use self::rigs::{
    discard, go_on, held, is_held, look_at_repositories, prepare, prepare_held, repo, repo_for,
    set_up, unseen_rigs, user_email,
};
use super::claims::ClaimKey;
use super::thread_budgets::Spent;
pub use super::thread_budgets::{Owner, WorkKind};
use super::world::World;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::SessionId;
use crate::domain::terminal_log::of_last_session;
use crate::domain::terminal_text;
use crate::ports::runner::Runner;
use crate::ports::sessions::{
    SessionError, SessionHandle, SessionSpec, Sessions, StartError, Started, Stopped,
};
use crate::ports::tasks::{TaskError, TaskFiles};

/// Runs blocking work; `None` when it panicked (the hook logs the panic).
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// The refusal of blocking work, which was not begun.
#[derive(Debug, thiserror::Error)]
enum NotBegun {
    /// Earlier work hangs.
    #[error("{0}")]
    Spent(Spent),
    /// The paths of the city lead to another directory.
    #[error("{0}")]
    Displaced(String),
}

/// Runs blocking work within the budget of its owner; `None` when it panicked. The thread keeps its place until the
/// work ends, even if the caller stops waiting. Refused once the city's directory is not at its path any more.
async fn budgeted<T: Send + 'static>(
    world: &World,
    owner: Owner,
    kind: WorkKind,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, NotBegun> {
    let place = world.thread_budgets.take(&owner, kind).await;
    let place = place.map_err(NotBegun::Spent)?;
    let displaced = Arc::clone(&world.displaced);
    let placed = move || {
        let _until_it_ends = place;
        // Asked here: on a disk that hangs this look hangs, too.
        match displaced() {
            Some(why) => Err(NotBegun::Displaced(why)),
            None => Ok(work()),
        }
    };
    blocking(placed).await.transpose()
}

/// Reads files of no rig and no session. None when that panicked, or earlier reading of such files hangs.
pub async fn city_files<T: Send + 'static>(
    world: &World,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let read = budgeted(world, Owner::City, WorkKind::Files, work).await;
    read.ok().flatten()
}

/// Reads the configuration or prepares for it, in one thread at a time. None when that panicked.
///
/// # Errors
/// Why it was not begun.
pub async fn configuration<T: Send + 'static>(
    world: &World,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, String> {
    let done = budgeted(world, Owner::City, WorkKind::Config, work).await;
    done.map_err(|refused| refused.to_string())
}

/// The limit of reading a caller's process.
const CALLER_LIMIT: Duration = Duration::from_secs(10);

/// Reads from the process of a caller. None when that does not end in time: a process may keep its readers waiting.
pub async fn caller<T: Send + 'static>(
    world: &World,
    pid: u32,
    read: impl FnOnce(&dyn Sessions, &dyn Runner) -> T + Send + 'static,
) -> Option<T> {
    let (sessions, runner) = (Arc::clone(&world.sessions), Arc::clone(&world.runner));
    let reading = async move {
        // Its own place first: a process that keeps its readers waiting must not take the places of others.
        let own = world
            .thread_budgets
            .take(&Owner::Caller(pid), WorkKind::Caller)
            .await;
        let all = world.thread_budgets.take(&Owner::City, WorkKind::Callers);
        let places = (own.ok()?, all.await.ok()?);
        let placed = move || {
            let _until_it_ends = places;
            read(&*sessions, &*runner)
        };
        blocking(placed).await
    };
    tokio::time::timeout(CALLER_LIMIT, reading).await.ok()?
}

/// Runs work on task files.
///
/// # Errors
/// The work's own error, or that earlier work on files of this owner hangs.
pub async fn tasks<T: Send + 'static>(
    world: &World,
    owner: Owner,
    work: impl FnOnce(&dyn TaskFiles) -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    let tasks = Arc::clone(&world.tasks);
    let failed = |why: String| TaskError {
        path: world.city.state_dir(),
        why,
    };
    let done = budgeted(world, owner, WorkKind::Tasks, move || work(&*tasks)).await;
    done.map_err(|refused| failed(refused.to_string()))?
        .ok_or_else(|| failed("an operation on task files panicked".into()))?
}

/// Empties the trash in the background, in one thread at a time. Nothing waits for it, not even the end of the process:
/// the rest is removed after the next start.
pub fn empty_trash(world: &World) {
    let Some(mut claim) = world.claims.claim_or_repeat(ClaimKey::Trash) else {
        return;
    };
    let (tasks, displaced) = (Arc::clone(&world.tasks), Arc::clone(&world.displaced));
    let empty = move || loop {
        if displaced().is_some() {
            return;
        }
        or_warn!(
            tasks.empty_trash(),
            "the trash could not be emptied; the next run retries"
        );
        match claim.give_back() {
            // More was put into the trash meanwhile.
            Some(again) => claim = again,
            None => return,
        }
    };
    let thread = std::thread::Builder::new().name("trash".to_owned());
    or_warn!(
        thread.spawn(empty),
        "no thread could be started to empty the trash; the next run retries"
    );
}

/// Runs work on a session.
///
/// # Errors
/// The work's own error; [`SessionError::Failed`] when it panicked, or earlier work on this session hangs.
pub async fn sessions<T: Send + 'static>(
    world: &World,
    id: &SessionId,
    work: impl FnOnce(&dyn Sessions) -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    sessions_for(world, id, WorkKind::Session, work).await
}

async fn sessions_for<T: Send + 'static>(
    world: &World,
    id: &SessionId,
    kind: WorkKind,
    work: impl FnOnce(&dyn Sessions) -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    let provider = Arc::clone(&world.sessions);
    let failed = |why: String| SessionError::Failed {
        id: id.clone(),
        why,
    };
    let owner = Owner::Session(id.clone());
    let done = budgeted(world, owner, kind, move || work(&*provider)).await;
    done.map_err(|refused| failed(refused.to_string()))?
        .ok_or_else(|| failed("the provider panicked".into()))?
}

/// The right to start a session, one of `start_concurrency`. It ends with the start, or with the time that a start has:
/// a start that hangs keeps no other session waiting.
#[derive(Clone)]
struct Turn(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Turn {
    fn end(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Starts a session. A start that outlives the limit counts as failed, and is ended if it still succeeds, so that no
/// unknown session runs.
///
/// # Errors
/// [`StartError`].
pub async fn start(
    world: &Arc<World>,
    spec: SessionSpec,
    limit: Duration,
) -> Result<Started, StartError> {
    let broken = || StartError::Provider("the provider panicked".into());
    // Closed when all sessions are being ended for good.
    let Ok(permit) = Arc::clone(&world.starts).acquire_owned().await else {
        return Err(StartError::Provider("the supervisor is stopping".into()));
    };
    let turn = Turn(Arc::new(Mutex::new(Some(permit))));
    let owner = Owner::Session(spec.id.clone());
    let place = world.thread_budgets.take(&owner, WorkKind::Life).await;
    let place = place.map_err(|spent| StartError::Provider(spent.to_string()))?;
    let (provider, starts) = (Arc::clone(&world.sessions), Arc::clone(&world.starts));
    let (own, displaced) = (turn.clone(), Arc::clone(&world.displaced));
    let mut work = tokio::task::spawn_blocking(move || {
        let _until_it_ends = place;
        if let Some(why) = displaced() {
            return Err(StartError::Provider(why));
        }
        let started = provider.start(&spec);
        own.end();
        match started {
            // Ended here, because the caller may be gone.
            Ok(late) if starts.is_closed() => {
                let why = match provider.stop(&late.handle, Duration::ZERO) {
                    Ok(_) => "the supervisor is stopping".to_owned(),
                    Err(error) => error.to_string(),
                };
                Err(StartError::Provider(why))
            }
            other => other,
        }
    });
    if let Ok(done) = tokio::time::timeout(limit, &mut work).await {
        turn.end();
        return done.map_err(|_| broken())?;
    }
    turn.end();
    let provider = Arc::clone(&world.sessions);
    tokio::spawn(async move {
        if let Ok(Ok(late)) = work.await {
            let session = late.handle.id.clone();
            let stop = move || provider.stop(&late.handle, Duration::ZERO);
            if !matches!(blocking(stop).await, Some(Ok(_))) {
                tracing::error!(
                    %session,
                    "a session that started after its timeout could not be ended; it runs on as \
                    an orphan"
                );
            }
        }
    });
    Err(StartError::Provider(format!("no session after {limit:?}")))
}

/// Ends a session: interrupt, TERM, KILL, with a grace before the last.
///
/// # Errors
/// [`SessionError`].
pub async fn stop(
    world: &World,
    handle: SessionHandle,
    grace: Duration,
) -> Result<Stopped, SessionError> {
    let id = handle.id.clone();
    let stopped = sessions_for(world, &id, WorkKind::Life, move |provider| {
        // An agent that cannot be interrupted is terminated all the same.
        let heard = !grace.is_zero() && provider.interrupt(&handle).is_ok();
        match provider.stop(&handle, grace) {
            // The interrupt was enough.
            Ok(Stopped::Already) | Err(SessionError::Gone(_)) if heard => Ok(Stopped::Gracefully),
            Err(SessionError::Gone(_)) => Ok(Stopped::Already),
            other => other,
        }
    });
    let stopped = stopped.await;
    if let Err(SessionError::Failed { id, why }) = &stopped {
        let (session, why) = (id.clone(), why.clone());
        let unkillable = ShamanMsg::Unkillable { session, why };
        world.directory.tell_shaman(unkillable);
    }
    stopped
}

/// Ends the observed session, and no later one of its id.
///
/// # Errors
/// [`SessionError`]; also when its run state is unknown.
pub async fn stop_seen(
    world: &World,
    facts: SessionFacts,
    grace: Duration,
) -> Result<Stopped, SessionError> {
    let SessionFacts { id, token, .. } = facts;
    match facts.state {
        RunState::Exited(_) => Ok(Stopped::Already),
        RunState::Running | RunState::Lost { .. } => {
            stop(world, SessionHandle { id, token }, grace).await
        }
        RunState::Unknown { why } => Err(SessionError::Failed { id, why }),
    }
}

/// Observes one session.
///
/// # Errors
/// [`SessionError`].
pub async fn facts(world: &World, id: &SessionId) -> Result<Option<SessionFacts>, SessionError> {
    let wanted = id.clone();
    sessions(world, id, move |provider| provider.facts(&wanted)).await
}

/// Lists every session that the provider knows.
///
/// # Errors
/// The sessions cannot be listed.
pub async fn list(world: &World) -> Result<Vec<SessionFacts>, SessionError> {
    let provider = Arc::clone(&world.sessions);
    let failed = |why: String| SessionError::Failed {
        // No single session to name: the whole list failed.
        id: SessionId::new("all").expect("a valid id"),
        why,
    };
    let listed = budgeted(world, Owner::City, WorkKind::List, move || provider.list()).await;
    listed
        .map_err(|refused| failed(refused.to_string()))?
        .ok_or_else(|| failed("the provider panicked".into()))?
}

/// Returns, for each session, whether one of these programs is among its processes; none where unknown.
pub async fn agents_live(world: &World, asked: Vec<(SessionId, Vec<String>)>) -> Vec<Option<bool>> {
    let (provider, unknown) = (Arc::clone(&world.sessions), vec![None; asked.len()]);
    let look = move || provider.agents_live(&asked);
    let lives = budgeted(world, Owner::City, WorkKind::List, look).await;
    lives.ok().flatten().unwrap_or(unknown)
}

/// Removes the logs of sessions that ended before that time.
///
/// # Errors
/// The error of the first log that could not be removed.
pub async fn prune_logs(world: &World, ended_before: Timestamp) -> Result<usize, SessionError> {
    // Only a panic needs an id, and names none.
    let all = SessionId::new("all").expect("a valid id");
    sessions(world, &all, move |provider| {
        provider.prune_logs(ended_before)
    })
    .await
}

/// Returns the last visible lines of a session, for forensics; empty when it has no readable output.
pub async fn tail(world: &World, id: &SessionId) -> String {
    /// Enough for a stack trace and a prompt.
    const TAIL: usize = 4096;
    /// Enough of the log to contain a whole screen.
    const READ: u64 = 512 * 1024;
    let wanted = id.clone();
    let text = sessions(world, id, move |provider| {
        let log = provider.logs(&wanted, READ)?;
        let last = of_last_session(&log);
        let is_cut = last.len() as u64 >= READ;
        Ok(terminal_text::text(last, is_cut, TAIL))
    });
    text.await.unwrap_or_default()
}

#[cfg(test)]
mod tests;
