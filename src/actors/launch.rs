//! From a child's spec to a running session: adopt what runs, else build command, prompt and
//! environment from ground truth and start.
//!
//! ```text
//!  running, same incarnation ──► adopted
//!  running, an earlier one   ──► ended first ─┐
//!  running, a later one      ──► not at all   │
//!  not seen for sure         ──► not now      ├─► handoff note? ──► handed over
//!  ended before              ──► ─────────────┤   same incarnation before? ──► respawned
//!  nothing                   ──► ─────────────┘   else ──► fresh
//! ```

mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::child::ChildArgs;
use super::refusal::Refusal;
use super::root::Work;
use super::world::World;
use super::{effects, endings};
use crate::domain::cause::Cause;
use crate::domain::city::{Agent, Rig};
use crate::domain::facts::{RunState, SessionExit, SessionFacts};
use crate::domain::harness;
use crate::domain::ids::{ChildId, Generation, Incarnation};
use crate::domain::message::{Body, Handoff};
use crate::domain::prompt::{self, Problem};
use crate::domain::relic::{Hook, Relic};
use crate::domain::session_env::SessionEnv;
use crate::ports::repo::Signature;
use crate::ports::sessions::{SessionSpec, StartError, Started};
use crate::ports::tasks::TaskError;

use self::words::brief;
pub use self::words::{nudge_text, task_text};

/// How a session came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was running.
    Adopted,
    /// The first of its incarnation.
    Fresh,
    /// After one that died.
    Respawned,
    /// After one that handed off.
    HandedOver,
}

/// A session that is up.
#[derive(Debug)]
pub struct Opened {
    /// As the provider says.
    pub started: Started,
    /// Since when.
    pub since: Timestamp,
    /// How it came up.
    pub how: How,
    /// What it was started from, where that is on record.
    pub fingerprint: Option<String>,
}

/// The fact of a session that says what it was started from (`4-rules.md`, drift hash).
const FINGERPRINT: &str = "fingerprint";

/// Why no session is up.
#[derive(Debug)]
pub enum OpenFailure {
    /// None is wanted: the raider is finished.
    Finished,
    /// Whether it runs cannot be seen; nothing is concluded from that.
    Unseen(String),
    /// What it is started from cannot be written, for the disk is full or read-only; no death.
    Unwritable(String),
    /// It could not be started; a death.
    Failed(String),
    /// Its sandbox is gone or broken, and how; no death.
    Homeless(String),
    /// It died while no supervisor ran; a death that was not counted yet.
    Died {
        /// How, where on record.
        exit: Option<SessionExit>,
        /// The end of its terminal.
        tail: String,
    },
}

impl From<Refusal> for OpenFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal.to_string())
    }
}

/// What the next session gets.
struct Start {
    argv: Vec<String>,
    first_input: Option<String>,
    env: BTreeMap<String, String>,
    cwd: std::path::PathBuf,
    incarnation: Incarnation,
    how: How,
    /// Handoff notes that this session will have read.
    notes: Vec<u64>,
}

/// Opens the child's session.
pub async fn open(args: &ChildArgs) -> Result<Opened, OpenFailure> {
    let ChildArgs { world, spec, .. } = args;
    let failed = |why: String| OpenFailure::Failed(why);
    let incarnation = match &spec.work {
        Work::Raider { hook, .. } => hook.incarnation,
        Work::Agent(_) => Incarnation(0),
    };
    let seen = effects::facts(world, &spec.session)
        .await
        .map_err(|e| OpenFailure::Unseen(e.to_string()))?;
    if let Some(facts) = &seen {
        match &facts.state {
            RunState::Running if facts.incarnation == incarnation => {
                return adopt(world, facts).await;
            }
            RunState::Running if facts.incarnation > incarnation => {
                return Err(failed("a later incarnation has its name".into()));
            }
            RunState::Running => {
                let stopped = effects::stop_seen(world, facts.clone(), spec.grace).await;
                stopped.map_err(|e| failed(e.to_string()))?;
            }
            RunState::Unknown { why } => return Err(OpenFailure::Unseen(why.clone())),
            RunState::Exited(_) | RunState::Lost { .. } => {}
        }
    }
    let before = seen.filter(|facts| facts.incarnation == incarnation);
    let start = match &spec.work {
        Work::Raider { hook, problem } => {
            raider(world, hook, problem.as_ref(), args.cause, before.is_some()).await?
        }
        Work::Agent(agent) => agent_start(world, agent, &spec.id, before.is_some()),
    };
    if args.unattended {
        let exit = before.and_then(|facts| match facts.state {
            RunState::Exited(exit) => Some(exit),
            RunState::Running | RunState::Lost { .. } | RunState::Unknown { .. } => None,
        });
        let tail = effects::tail(world, &spec.session).await;
        return Err(OpenFailure::Died { exit, tail });
    }
    let last = before.map_or(0, |facts| facts.generation.0);
    start_session(args, start, Generation(args.generation.0.max(last + 1))).await
}

async fn adopt(world: &World, facts: &SessionFacts) -> Result<Opened, OpenFailure> {
    let id = facts.id.clone();
    let started = effects::sessions(world, &facts.id, move |provider| provider.adopt(&id)).await;
    // It ended between the two looks: the restart policy answers, as for any death.
    let started = started.map_err(|error| OpenFailure::Failed(error.to_string()))?;
    let id = facts.id.clone();
    let meta = effects::sessions(world, &facts.id, move |p| p.get_meta(&id, FINGERPRINT)).await;
    let fingerprint = meta.unwrap_or_else(|error| {
        tracing::warn!(%error, "what a session was started from cannot be read");
        None
    });
    Ok(Opened {
        started,
        since: facts.started_at,
        how: How::Adopted,
        fingerprint,
    })
}

/// Adopts a session that came up between the look and the start, if it is of this incarnation.
async fn adopt_own(
    args: &ChildArgs,
    incarnation: Incarnation,
    error: StartError,
) -> Result<Opened, OpenFailure> {
    match effects::facts(&args.world, &args.spec.session).await {
        Ok(Some(facts)) if facts.incarnation == incarnation => adopt(&args.world, &facts).await,
        Ok(_) | Err(_) => Err(OpenFailure::Failed(error.to_string())),
    }
}

async fn start_session(
    args: &ChildArgs,
    start: Start,
    generation: Generation,
) -> Result<Opened, OpenFailure> {
    let ChildArgs { world, spec, .. } = args;
    let fingerprint = match &spec.work {
        Work::Agent(agent) => Some(agent.fingerprint.clone()),
        // For raiders drift waits for the next session anyway.
        Work::Raider { .. } => None,
    };
    let session = SessionSpec {
        id: spec.session.clone(),
        generation,
        incarnation: start.incarnation,
        argv: start.argv,
        env: start.env,
        cwd: start.cwd,
        first_input: start.first_input,
        output_limit: world.city.session.output_limit,
        meta: fingerprint
            .iter()
            .map(|hash| (FINGERPRINT.to_owned(), hash.clone()))
            .collect(),
    };
    if let Some(mut written) = args.written.clone() {
        // It only ever ends.
        let _over = written.changed().await;
    }
    let incarnation = start.incarnation;
    let started = match start_patiently(world, session).await {
        Ok(started) => started,
        // The start of a predecessor that was killed came through.
        Err(error @ StartError::Exists(_)) => return adopt_own(args, incarnation, error).await,
        // Whoever removed the sandbox knows; no agent failed.
        Err(error @ StartError::NoCwd(_)) if matches!(spec.id, ChildId::Raider(_)) => {
            return Err(OpenFailure::Homeless(format!(
                "its sandbox is gone: {error}"
            )));
        }
        Err(error @ StartError::Unwritable(_)) => {
            return Err(OpenFailure::Unwritable(error.to_string()));
        }
        Err(error) => return Err(OpenFailure::Failed(error.to_string())),
    };
    if !start.notes.is_empty() {
        let read = world.store.run(move |txn| {
            for id in &start.notes {
                txn.handled(*id)?;
            }
            Ok(())
        });
        if let Err(error) = read.await {
            tracing::warn!(%error, "a handoff note will be told again");
        }
    }
    Ok(Opened {
        started,
        since: world.clock.now(),
        how: start.how,
        fingerprint,
    })
}

/// Starts a session. One that an earlier daemon had half started when it was killed may take a
/// moment to be gone: that is no failure of this start.
async fn start_patiently(world: &Arc<World>, session: SessionSpec) -> Result<Started, StartError> {
    const PAUSE: Duration = Duration::from_millis(200);
    const TRIES: u32 = 5;
    let limit: Duration = world.city.session.startup_timeout;
    for left in (0..TRIES).rev() {
        match effects::start(world, session.clone(), limit).await {
            Err(StartError::Stragglers(id)) if left > 0 => {
                tracing::warn!(session = %id, left, "an earlier session is not gone yet");
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
    Err(StartError::Stragglers(session.id))
}

fn cannot(why: impl ToString) -> OpenFailure {
    OpenFailure::Failed(why.to_string())
}

async fn raider(
    world: &World,
    cached: &Arc<Hook>,
    problem: Option<&Problem>,
    cause: Cause,
    before: bool,
) -> Result<Start, OpenFailure> {
    let hook: &Hook = cached;
    let asked = match problem {
        None if cause == Cause::Operator => endings::problem(world, hook).await,
        None | Some(_) => None,
    };
    // Whoever is started for its problem is started in spite of its outcome file.
    let problem = problem.or(asked.as_ref());
    let finished = match problem {
        Some(_) => Ok(endings::is_over(world, hook).await == Some(true)),
        None => endings::is_finished(world, hook).await,
    };
    if finished.map_err(|error| OpenFailure::Unseen(error.to_string()))? {
        return Err(OpenFailure::Finished);
    }
    let city = &world.city;
    let rig = city.rig(&hook.raider.rig);
    let rig = rig.ok_or_else(|| cannot(format!("rig {} is not configured", hook.raider.rig)))?;
    let harness = city.harnesses.get(&hook.harness);
    let harness = harness.ok_or_else(|| cannot(format!("no harness named {}", hook.harness)))?;
    let (relic, notes) = assignment(world, hook).await?;
    let sandbox = habitable(world, hook).await?;
    let brief = brief(world, rig, hook, &relic, world.tasks.task_file(&sandbox));
    let crashed = matches!(
        cause,
        Cause::SessionDied | Cause::SessionLost | Cause::AgentDead | Cause::WindowPassed
    );
    let less = crashed && rig.raiders.respawn_reduced && !harness.reduced.is_empty();
    let (text, how) = match notes.last() {
        // A note that nobody read is for this session, whatever ended the last one.
        Some((_, note)) if problem.is_none() => (
            prompt::handoff(&brief, note.note.as_deref()),
            How::HandedOver,
        ),
        _ if !before && cause == Cause::Charged => (prompt::first(&brief), How::Fresh),
        _ => {
            let text = prompt::respawn(&brief, cause, problem, less);
            (text, How::Respawned)
        }
    };
    let reduced = how == How::Respawned && less;
    let dir = city.task_dir(&rig.name, &hook.relic, hook.incarnation);
    let told = text.clone();
    let written = effects::tasks(world, move |tasks| {
        tasks.watch(&dir);
        tasks.write_prompt(&dir, &told)
    });
    let unwritable = |error: TaskError| OpenFailure::Unwritable(error.to_string());
    let prompt_file = written.await.map_err(unwritable)?;
    let launch = harness::launch(harness, &text, &prompt_file, reduced);
    Ok(Start {
        argv: launch.argv,
        first_input: launch.first_input,
        env: raider_env(world, rig, hook),
        cwd: sandbox,
        incarnation: hook.incarnation,
        how,
        notes: notes.into_iter().map(|(id, _)| id).collect(),
    })
}

/// The sandbox, if work can go on in it. It is asked at each patrol, and costs no process then: half a
/// work tree, or one that git cannot use, is a person's to mend, and an agent would make it worse.
async fn habitable(world: &World, hook: &Hook) -> Result<PathBuf, OpenFailure> {
    let sandbox = world.city.sandbox(&hook.raider);
    let path = sandbox.clone();
    let seen = effects::repo(world, &hook.raider.rig, move |repo| repo.ailment(&path)).await;
    match seen.map_err(|error| OpenFailure::Unseen(error.to_string()))? {
        None => Ok(sandbox),
        Some(what) => Err(OpenFailure::Homeless(format!(
            "{}: {}",
            what.problem(),
            what.says(&sandbox)
        ))),
    }
}

/// The relic, and the handoff notes that wait for the next session.
async fn assignment(
    world: &World,
    hook: &Hook,
) -> Result<(Relic, Vec<(u64, Handoff)>), OpenFailure> {
    let (relic, address) = (hook.relic.clone(), hook.raider.to_string());
    let read = world.store.run(move |txn| {
        let notes = txn
            .inbox(&address)?
            .into_iter()
            .filter_map(|message| match message.body {
                // A slot's next incarnation works on something else.
                Body::Handoff(note) if note.relic.as_ref() == Some(&relic) => {
                    Some((message.id, note))
                }
                _ => None,
            });
        let notes = notes.collect::<Vec<_>>();
        Ok((txn.relic(&relic)?, notes))
    });
    read.await
        .map_err(|error| OpenFailure::Failed(error.to_string()))
}

fn agent_start(world: &World, agent: &Agent, id: &ChildId, before: bool) -> Start {
    let session = id.session_id(&world.city.name);
    let env = SessionEnv {
        own: &world.env,
        bin: &world.bin_dir,
        city: &world.city.root,
        workspace: &world.city.name,
        socket: &world.socket,
        child: id,
        session: &session,
        hook: None,
        email: None,
        pass: &agent.env_pass,
        configured: &agent.env,
    };
    Start {
        argv: agent.command.clone(),
        first_input: agent.first_input.clone(),
        env: env.build(),
        cwd: agent.dir.clone(),
        incarnation: Incarnation(0),
        how: if before { How::Respawned } else { How::Fresh },
        notes: Vec::new(),
    }
}

/// The environment of a raider's sessions, and of the set-up commands of its sandbox.
#[must_use]
pub fn raider_env(world: &World, rig: &Rig, hook: &Hook) -> BTreeMap<String, String> {
    let child = ChildId::Raider(hook.raider.clone());
    let harness = world.city.harnesses.get(&hook.harness);
    let email = world.repo(&rig.name).and_then(|repo| repo.user_email());
    let nothing = BTreeMap::new();
    SessionEnv {
        own: &world.env,
        bin: &world.bin_dir,
        city: &world.city.root,
        workspace: &world.city.name,
        socket: &world.socket,
        child: &child,
        session: &hook.raider.session_id(),
        hook: Some((&hook.relic, hook.incarnation)),
        email: email.as_deref(),
        pass: harness.map_or(&[], |harness| harness.env_pass.as_slice()),
        configured: harness.map_or(&nothing, |harness| &harness.env),
    }
    .build()
}

/// The environment of gates: neither `SSH_AUTH_SOCK` nor harness keys unless named
/// (`2-contract.md`, `gate_env_pass`).
#[must_use]
pub fn gate_env(world: &World, rig: &Rig) -> BTreeMap<String, String> {
    const INHERITED: &[&str] = &["PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TMPDIR"];
    let passed = |name: &str| {
        let named = rig.forge.gate_env_pass.iter().any(|pass| pass == name);
        INHERITED.contains(&name) || name.starts_with("LC_") || named
    };
    let own = world.env.iter().filter(|(name, _)| passed(name));
    own.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Who commits what lands.
#[must_use]
pub fn forge_signature(world: &World, rig: &Rig) -> Signature {
    let email = world.repo(&rig.name).and_then(|repo| repo.user_email());
    Signature {
        name: format!("{}/forge", rig.name),
        email: email.unwrap_or_else(|| format!("forge@{}.invalid", world.city.name)),
    }
}

/// The branch that a rig's work lands on.
///
/// # Errors
/// It is not configured and cannot be discovered.
pub async fn target(world: &World, rig: &Rig) -> Result<String, Refusal> {
    if let Some(target) = rig
        .forge
        .target
        .clone()
        .or_else(|| rig.default_branch.clone())
    {
        return Ok(target);
    }
    Ok(effects::repo(world, &rig.name, |repo| repo.default_branch()).await?)
}
