//! From a child's spec to a running session: adopts what runs, or builds command, prompt and environment from observed
//! facts and starts.
//!
//! ```text
//!  running, same incarnation ──► adopted
//!  running, an earlier one   ──► ended first ─┐
//!  running, a later one      ──► not at all   │
//!  not seen for sure         ──► not now      ├─► handoff note? ──► handed over
//!  ended before              ──► ─────────────┤   same incarnation before? ──► respawned
//!  nothing                   ──► ─────────────┘   else ──► fresh
//! ```
//!
//! How the last session ended is decided once (`domain/last_end.rs`), for the prompt and for `hd rally`. After a crash a
//! session is respawned, also with an unread note: it gets the note, and the permissions of a session after a crash.

mod agent;
mod api_key;
mod driven;
mod moved;
mod raider;

use crate::actors::mail::How;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::actors::mail::Work;
use crate::actors::refusal::Refusal;
use crate::actors::session::child::ChildArgs;
use crate::actors::session::endings;
use crate::actors::world::World;
use crate::actors::{conversation, effects, last_end, prompting, sandbox_links};
use crate::domain::cause::Cause;
use crate::domain::child::{ChildExit, is_crash};
use crate::domain::facts::{RunState, SessionExit, SessionFacts};
use crate::domain::ids::{ChildId, Generation, HarnessName, Incarnation};
use crate::domain::last_end::LastEnd;
use crate::ports::sessions::{SessionSpec, StartError, Started};

pub(in crate::actors) use self::moved::move_on;

/// A session that is up.
#[derive(Debug)]
pub struct Opened {
    /// The provider's record.
    pub started: Started,
    /// When it started.
    pub since: Timestamp,
    /// Adopted, or how it was started.
    pub how: How,
    /// The fingerprint of the configuration that it was started from, if recorded.
    pub fingerprint: Option<String>,
}

/// The session fact that holds the fingerprint of its configuration (`rules.md`, drift hash).
const FINGERPRINT: &str = "fingerprint";

impl From<Refusal> for ChildExit {
    fn from(refusal: Refusal) -> Self {
        Self::StartFailed(refusal.to_string())
    }
}

/// The parts of the next session.
struct Start {
    argv: Vec<String>,
    /// The text that is typed when the program waits for input.
    first_prompt: Option<String>,
    env: BTreeMap<String, String>,
    cwd: std::path::PathBuf,
    incarnation: Incarnation,
    how: How,
    /// The end of the session before; none for a first session.
    last_end: Option<LastEnd>,
    /// Handoff notes that this session will have read.
    notes: Vec<u64>,
    /// The conversation that it resumes.
    resumes: Option<String>,
    /// The harness that drives it.
    harness: Option<String>,
}

/// Watches the task files of a raider, and puts the links of its sandbox back.
async fn attend(args: &ChildArgs) {
    if let Work::Raider { hook, .. } = &args.spec.work {
        sandbox_links::attend(&args.world, hook).await;
    }
}

/// Opens the child's session.
pub async fn open(args: &ChildArgs) -> Result<Opened, ChildExit> {
    let ChildArgs { world, spec, .. } = args;
    let failed = |why: String| ChildExit::StartFailed(why);
    let incarnation = match &spec.work {
        Work::Raider { hook, .. } => hook.incarnation,
        Work::Agent(_) => Incarnation(0),
    };
    let seen = effects::facts(world, &spec.session)
        .await
        .map_err(|error| unknown(&error.to_string()))?;
    if let Some(facts) = &seen {
        match &facts.state {
            RunState::Running if facts.incarnation == incarnation => {
                attend(args).await;
                return adopt(world, facts).await;
            }
            RunState::Running if facts.incarnation > incarnation => {
                return Err(failed("a later incarnation uses its name".into()));
            }
            RunState::Running => {
                let stopped = effects::stop_seen(world, facts.clone(), spec.grace).await;
                stopped.map_err(|e| failed(e.to_string()))?;
            }
            RunState::Unknown { why } => return Err(unknown(why)),
            RunState::Exited(_) | RunState::Lost { .. } => {}
        }
    }
    let before = seen.filter(|facts| facts.incarnation == incarnation);
    attend(args).await;
    if endings::settled_before(args, before.as_ref()).await {
        return Err(ChildExit::Finished);
    }
    let start = match &spec.work {
        Work::Raider { hook, problem } => {
            let why = raider::Why {
                problem: problem.as_ref(),
                cause: args.cause,
                crashed: args.crashed || is_crash(args.cause),
            };
            raider::start(world, hook, why, before.as_ref()).await?
        }
        Work::Agent(agent) => {
            let why = agent::Why {
                cause: args.cause,
                crashed: args.crashed || is_crash(args.cause),
            };
            agent::start(world, agent, &spec.id, why, before.as_ref()).await?
        }
    };
    if args.unattended && is_uncounted(args, before.as_ref()) {
        let exit = before.and_then(|facts| match facts.state {
            RunState::Exited(exit) => Some(exit),
            RunState::Running | RunState::Lost { .. } | RunState::Unknown { .. } => None,
        });
        let tail = effects::tail(world, &spec.session).await;
        let cause = exit.as_ref().map_or(Cause::SessionLost, SessionExit::cause);
        return Err(ChildExit::Died { cause, exit, tail });
    }
    let last = before.map_or(0, |facts| facts.generation.0);
    start_session(args, start, Generation(args.generation.0.max(last + 1))).await
}

/// Returns true if the death of the last session is in no stored history. A persistent history is open from the order to
/// start: its supervisor may have been killed before there was a session, or after the death of the last one was counted.
fn is_uncounted(args: &ChildArgs, before: Option<&SessionFacts>) -> bool {
    match before {
        // The time of a start that is not known is that of the epoch.
        Some(facts) if facts.started_at == Timestamp::UNIX_EPOCH => true,
        Some(facts) => args.counted.is_none_or(|at| facts.started_at >= at),
        // The generation is greater once this supervisor has had a session up.
        None => args.generation.0 > 1 || !args.world.city.daemon.restart.outlives(),
    }
}

async fn adopt(world: &World, facts: &SessionFacts) -> Result<Opened, ChildExit> {
    let id = facts.id.clone();
    let started = effects::sessions(world, &facts.id, move |provider| provider.adopt(&id)).await;
    // It ended between observation and adoption: the restart policy answers, as for any death.
    let started = started.map_err(|error| ChildExit::StartFailed(error.to_string()))?;
    let id = facts.id.clone();
    let meta = effects::sessions(world, &facts.id, move |p| p.get_meta(&id, FINGERPRINT)).await;
    let fingerprint = meta.unwrap_or_else(|error| {
        tracing::warn!(
            session = %facts.id,
            %error,
            "the fingerprint of an adopted session cannot be read; drift of its configuration is \
            not detected"
        );
        None
    });
    Ok(Opened {
        started,
        since: facts.started_at,
        how: How::Adopted,
        fingerprint,
    })
}

/// Adopts a session that came up between observation and start, if it is of this incarnation.
async fn adopt_own(
    args: &ChildArgs,
    incarnation: Incarnation,
    error: StartError,
) -> Result<Opened, ChildExit> {
    match effects::facts(&args.world, &args.spec.session).await {
        Ok(Some(facts)) if facts.incarnation == incarnation => adopt(&args.world, &facts).await,
        Ok(_) | Err(_) => Err(ChildExit::StartFailed(error.to_string())),
    }
}

async fn start_session(
    args: &ChildArgs,
    start: Start,
    generation: Generation,
) -> Result<Opened, ChildExit> {
    let ChildArgs { world, spec, .. } = args;
    let fingerprint = match &spec.work {
        Work::Agent(agent) => Some(agent.fingerprint.clone()),
        // For raiders drift waits for the next session anyway.
        Work::Raider { .. } => None,
    };
    let last_end = last_end::fact(start.last_end);
    let session = SessionSpec {
        id: spec.session.clone(),
        generation,
        incarnation: start.incarnation,
        argv: start.argv,
        env: start.env,
        cwd: start.cwd,
        output_limit: world.city.session.output_limit,
        meta: facts_of([
            (FINGERPRINT, fingerprint.as_ref()),
            (conversation::RESUMES, start.resumes.as_ref()),
            (conversation::HARNESS, start.harness.as_ref()),
            (prompting::OWED, start.first_prompt.as_ref()),
            (last_end::LAST_END, Some(&last_end)),
        ]),
    };
    if let Some(mut written) = args.written.clone() {
        // An error means that the write has ended, too.
        let _over = written.changed().await;
    }
    let incarnation = start.incarnation;
    let started = match start_patiently(world, session).await {
        Ok(started) => started,
        // The start of a killed predecessor succeeded.
        Err(error @ StartError::Exists(_)) => return adopt_own(args, incarnation, error).await,
        // The task that removed the sandbox handles the rest; the agent did not fail.
        Err(error @ StartError::NoCwd(_)) if matches!(spec.id, ChildId::Raider(_)) => {
            return Err(ChildExit::NoSandbox(format!(
                "its sandbox is gone: {error}"
            )));
        }
        Err(error @ StartError::Unwritable(_)) => {
            return Err(ChildExit::Unwritable(error.to_string()));
        }
        Err(error) => return Err(ChildExit::StartFailed(error.to_string())),
    };
    if !start.notes.is_empty() {
        let read = world.store.run(move |txn| {
            for id in &start.notes {
                txn.handled(*id)?;
            }
            Ok(())
        });
        or_warn!(
            read.await,
            child = %spec.id,
            "a handoff note could not be marked as read; the next session gets it again"
        );
    }
    Ok(Opened {
        started,
        since: world.clock.now(),
        how: start.how,
        fingerprint,
    })
}

/// Returns the facts that are stored with a session from its start.
fn facts_of<const N: usize>(facts: [(&str, Option<&String>); N]) -> BTreeMap<String, String> {
    let known = facts
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    known
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}

/// Starts a session. A session that an earlier daemon had half started when it was killed may take a moment to be gone:
/// that is retried, and no failure.
async fn start_patiently(world: &Arc<World>, session: SessionSpec) -> Result<Started, StartError> {
    const PAUSE: Duration = Duration::from_millis(200);
    const TRIES: u32 = 5;
    let limit: Duration = world.city.session.startup_timeout;
    for left in (0..TRIES).rev() {
        match effects::start(world, session.clone(), limit).await {
            Err(StartError::Stragglers(id)) if left > 0 => {
                tracing::warn!(
                    session = %id,
                    left,
                    "an earlier session of this name is still ending; the start is retried"
                );
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
    Err(StartError::Stragglers(session.id))
}

/// Returns true when a session that follows this one can resume its conversation.
pub async fn can_go_on(world: &World, harness: &HarnessName, facts: &SessionFacts) -> bool {
    let Some(harness) = world.city.harnesses.get(harness) else {
        return false;
    };
    let conversation = conversation::to_resume(world, harness, Cause::RateLimit, Some(facts)).await;
    conversation.is_ok_and(|id| id.is_some())
}

/// Puts a start off while the state of its session cannot be observed.
fn unknown(why: &str) -> ChildExit {
    ChildExit::Unseen(format!("the state of its session is not known: {why}"))
}
