//! Stalled sessions: seen, told, replaced, and at last brought before a person
//! (`raider-lifecycle.md`, stalled; `domain::stall` decides).
//!
//! ```text
//!  every look ──► pass: what is cheap to see, of all ──► nothing due ──► timer for the first that may be
//!                                                   └──► each that is due, in a task of its own:
//!                  everything anew, of this one ──► signal ─► tell ─► replace ─► escalate ──► look again
//! ```
//!
//! What was done stands in the store, and what was seen in [`Silences`], which outlives the witness but
//! not the process: a new one begins to measure silence when it starts, and goes on with the steps.

mod rows;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub use self::rows::{declare, steps, wait};

use super::super::questions::{self, Asker};
use super::super::refusal::Refusal;
use super::super::root::Meant;
use super::super::sagas::repair;
use super::super::{ask, effects};
use super::inbox::escalate;
use super::{WitnessArgs, WitnessMsg};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::domain::prompt;
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::restart::Mono;
use crate::domain::stall::{Depth, Marks, Policy, Progress, Steps, Verdict, Wait, Watch};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::sessions::{Input, SessionError, SessionHandle};

/// Deeper looks at once, in all rigs: each costs a `git status`.
const DEEP: usize = 2;

/// What is remembered of sessions from look to look.
pub struct Silences {
    rigs: Mutex<BTreeMap<RigName, Watched>>,
    deep: Semaphore,
}

impl Default for Silences {
    fn default() -> Self {
        Self {
            rigs: Mutex::default(),
            deep: Semaphore::new(DEEP),
        }
    }
}

#[derive(Default)]
struct Watched {
    raiders: BTreeMap<RaiderId, Watch>,
    /// No pass before: many events may ask for a look at once.
    not_before: Mono,
    /// When the next look is due, and who asks for it then.
    timer: Option<(Mono, JoinHandle<()>)>,
}

impl Silences {
    fn rigs(&self) -> MutexGuard<'_, BTreeMap<RigName, Watched>> {
        // At worst a silence begins anew.
        self.rigs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A raider that works, and what was seen of it.
struct Seen {
    hook: Hook,
    facts: SessionFacts,
    /// A person is at its terminal, or is asked to come.
    attended: bool,
    marks: Marks,
    steps: Option<Steps>,
    wait: Option<Wait>,
}

/// A raider that works, as the store knows it.
struct Candidate {
    hook: Hook,
    relic: String,
    steps: Option<Steps>,
    wait: Option<Wait>,
}

fn policy(args: &WitnessArgs) -> Option<Policy> {
    let raiders = &args.world.city.rig(&args.rig)?.raiders;
    Some(Policy {
        after: raiders.stall_after?,
        nudges: raiders.nudges,
    })
}

/// Looks for stalled sessions beside everything else.
pub fn set_out(args: &WitnessArgs) {
    let key = format!("stalls/{}", args.rig);
    let Some(mut claim) = args.world.claims.claim_or_repeat(key) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        loop {
            if let Err(error) = pass(&args).await {
                tracing::warn!(rig = %args.rig, %error, "whether sessions stall cannot be seen");
            }
            match claim.give_back() {
                Some(again) => claim = again,
                None => return,
            }
        }
    });
}

/// One look at all, as far as it is cheap.
async fn pass(args: &WitnessArgs) -> Result<(), Refusal> {
    let world = &args.world;
    let Some(policy) = policy(args) else {
        world.directory.silences.rigs().remove(&args.rig);
        return Ok(());
    };
    let now = world.clock.mono();
    let not_before = {
        let mut rigs = world.directory.silences.rigs();
        let watched = rigs.entry(args.rig.clone()).or_default();
        let due = watched.not_before;
        if due <= now {
            let pause = (world.city.daemon.patrol_interval / 2).min(policy.after / 4);
            watched.not_before = now + pause;
        }
        due
    };
    if not_before > now {
        arm(args, not_before);
        return Ok(());
    }
    let seen = see(args, None).await?;
    let mut first: Option<Mono> = None;
    let held: Vec<RaiderId> = seen.iter().map(|seen| seen.hook.raider.clone()).collect();
    for seen in seen {
        match note(args, &policy, &seen, None).await? {
            Verdict::Fresh { until } => {
                first = Some(first.map_or(until, |first| first.min(until)));
            }
            Verdict::Deeper
            | Verdict::Nudge(_)
            | Verdict::Restart
            | Verdict::Escalate
            | Verdict::Called => attend(args, policy, seen.hook.raider),
        }
    }
    let mut rigs = world.directory.silences.rigs();
    if let Some(watched) = rigs.get_mut(&args.rig) {
        watched.raiders.retain(|raider, _| held.contains(raider));
    }
    drop(rigs);
    if let Some(first) = first {
        arm(args, first);
    }
    Ok(())
}

/// Has the witness, or the successor that it has by then, look at that time.
fn arm(args: &WitnessArgs, due: Mono) {
    let now = args.world.clock.mono();
    let mut rigs = args.world.directory.silences.rigs();
    let watched = rigs.entry(args.rig.clone()).or_default();
    if let Some((at, timer)) = &watched.timer {
        if *at > now && *at <= due {
            return;
        }
        timer.abort();
    }
    let (directory, rig) = (Arc::clone(&args.world.directory), args.rig.clone());
    let wait = due.saturating_sub(now);
    let timer = tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        directory.tell_witness(&rig, WitnessMsg::Look);
    });
    watched.timer = Some((due, timer));
}

/// Raiders that own work and do not say that it is done; nobody else is at them.
fn candidates(
    txn: &mut dyn Txn,
    rig: &RigName,
    only: Option<&RaiderId>,
) -> Result<Vec<Candidate>, StoreError> {
    let sagas = txn.sagas(Some(rig))?;
    let mut found = Vec::new();
    for hook in txn.hooks(Some(rig))? {
        let subject = hook.raider.to_string();
        let busy = sagas.iter().any(|saga| saga.subject == subject);
        let wanted = only.is_none_or(|only| *only == hook.raider);
        if busy || !wanted || hook.done.is_some() {
            continue;
        }
        let relic = txn.relic(&hook.relic)?;
        if relic.status == RelicStatus::Hooked {
            found.push(Candidate {
                relic: serde_json::to_string(&relic).unwrap_or_default(),
                steps: steps(txn, &hook)?,
                wait: wait(txn, &hook.raider)?,
                hook,
            });
        }
    }
    Ok(found)
}

/// What is cheap to see of all of them, or of one. Who cannot be seen is left out: nothing is concluded
/// from that.
async fn see(args: &WitnessArgs, only: Option<RaiderId>) -> Result<Vec<Seen>, Refusal> {
    let world = &args.world;
    let (rig, wanted) = (args.rig.clone(), only.clone());
    let read = move |txn: &mut dyn Txn| candidates(txn, &rig, wanted.as_ref());
    let mut candidates = world.store.run(read).await?;
    candidates.retain(|candidate| {
        let raider = &candidate.hook.raider;
        let child = ChildId::Raider(raider.clone());
        !world.city.suspends(&child) && !world.claims.is_claimed(&repair::mending(raider))
    });
    if candidates.is_empty() || world.is_stopping() {
        return Ok(Vec::new());
    }
    let sessions = match &only {
        None => effects::list(world).await?,
        Some(raider) => effects::facts(world, &raider.session_id())
            .await?
            .into_iter()
            .collect(),
    };
    let sandboxes = candidates
        .iter()
        .map(|one| world.city.sandbox(&one.hook.raider));
    let sandboxes: Vec<_> = sandboxes.collect();
    let git = effects::repo(world, &args.rig, move |repo| {
        let marks = sandboxes.iter().map(|sandbox| repo.progress(sandbox));
        Ok(marks.collect::<Vec<_>>())
    });
    let asking = questions::look(world, &askers(&candidates, &sessions)).await;
    let mut seen = Vec::new();
    for (candidate, git) in candidates.into_iter().zip(git.await?) {
        let hook = candidate.hook;
        let own = hook.raider.session_id();
        let runs = |facts: &&SessionFacts| {
            let same = facts.id == own && facts.incarnation == hook.incarnation;
            same && facts.state == RunState::Running
        };
        match (sessions.iter().find(runs), git) {
            (Some(facts), Ok(git)) => seen.push(Seen {
                marks: Marks {
                    session: facts.token.clone(),
                    output: facts.last_output,
                    git,
                    relic: candidate.relic,
                },
                attended: facts.attached || asking.contains(&facts.id),
                facts: facts.clone(),
                steps: candidate.steps,
                wait: candidate.wait,
                hook,
            }),
            (Some(_), Err(error)) => {
                tracing::warn!(raider = %hook.raider, %error, "whether it gets on cannot be seen");
            }
            (None, _) => {}
        }
    }
    Ok(seen)
}

/// Those with a session, which may ask something.
fn askers(candidates: &[Candidate], sessions: &[SessionFacts]) -> Vec<Asker> {
    let asker = |Candidate { hook, .. }: &Candidate| {
        let own = hook.raider.session_id();
        let facts = sessions.iter().find(|facts| facts.id == own)?;
        Some(Asker {
            child: ChildId::Raider(hook.raider.clone()),
            harness: hook.harness.clone(),
            facts: facts.clone(),
        })
    };
    candidates.iter().filter_map(asker).collect()
}

/// Takes in what was seen, and judges. A stalled raider that goes on is set free.
async fn note(
    args: &WitnessArgs,
    policy: &Policy,
    seen: &Seen,
    depth: Option<Depth>,
) -> Result<Verdict, Refusal> {
    let world = &args.world;
    let (recovers, verdict) = {
        let (now, wall) = (world.clock.mono(), world.clock.now());
        let mut rigs = world.directory.silences.rigs();
        let raiders = &mut rigs.entry(args.rig.clone()).or_default().raiders;
        let marks = seen.marks.clone();
        let watch = raiders
            .entry(seen.hook.raider.clone())
            .or_insert_with(|| Watch::new(marks.clone(), now));
        if watch.session() != marks.session {
            *watch = Watch::new(marks.clone(), now);
        }
        let mut progress = watch.look(marks, seen.attended, now);
        watch.waits(seen.wait.as_ref(), wall, now);
        if let Some(depth) = depth.filter(|_| progress == Progress::None) {
            progress = watch.look_deeper(depth, now);
        }
        let recovers = seen.steps.is_some() && watch.recovers(progress, policy, now);
        let steps = seen.steps.as_ref().filter(|_| !recovers);
        (recovers, watch.judge(policy, steps, now))
    };
    if recovers {
        let hook = seen.hook.clone();
        let free = move |txn: &mut dyn Txn| rows::recover(txn, &hook);
        world.store.run(free).await?;
    }
    Ok(verdict)
}

/// Changes what is remembered of a raider, if it is watched.
fn remember<T>(
    args: &WitnessArgs,
    raider: &RaiderId,
    change: impl FnOnce(&mut Watch, Mono) -> T,
) -> Option<T> {
    let now = args.world.clock.mono();
    let mut rigs = args.world.directory.silences.rigs();
    let watch = rigs.get_mut(&args.rig)?.raiders.get_mut(raider)?;
    Some(change(watch, now))
}

/// Deals with one that may be stalled, in a task of its own: what hangs holds up nothing but itself.
fn attend(args: &WitnessArgs, policy: Policy, raider: RaiderId) {
    let Some(claim) = args.world.claims.claim(format!("stall/{raider}")) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        let done = act(&args, &policy, &raider).await;
        drop(claim);
        match done {
            // The next step has its time.
            Ok(()) => args
                .world
                .directory
                .tell_witness(&args.rig, WitnessMsg::Look),
            // The patrol looks again.
            Err(error) => {
                tracing::warn!(%raider, %error, "a session that may be stalled was left alone");
            }
        }
    });
}

/// Looks at everything of this one anew, and takes the next step where it is silent still.
async fn act(args: &WitnessArgs, policy: &Policy, raider: &RaiderId) -> Result<(), Refusal> {
    let Some(seen) = see(args, Some(raider.clone())).await?.pop() else {
        return Ok(());
    };
    if note(args, policy, &seen, None).await? != Verdict::Deeper {
        return Ok(());
    }
    let depth = sound(args, &seen).await?;
    match note(args, policy, &seen, Some(depth)).await? {
        Verdict::Fresh { .. } | Verdict::Deeper => {}
        Verdict::Nudge(count) => nudge(args, policy, &seen, count).await?,
        Verdict::Restart => restart(args, seen).await?,
        Verdict::Escalate => call(args, policy, &seen).await?,
        Verdict::Called => {
            remember(args, raider, Watch::again);
        }
    }
    Ok(())
}

/// What is costly to see.
async fn sound(args: &WitnessArgs, seen: &Seen) -> Result<Depth, Refusal> {
    let world = &args.world;
    let deep = world.directory.silences.deep.acquire().await;
    // It is never closed; were it, nothing would have to wait.
    let _turn = deep.ok();
    let sandbox = world.city.sandbox(&seen.hook.raider);
    let changes = effects::repo(world, &args.rig, move |repo| repo.changes(&sandbox)).await?;
    let id = seen.facts.id.clone();
    let cpu = effects::sessions(world, &seen.facts.id, move |provider| {
        let why = "what its processes use cannot be seen".to_owned();
        provider.cpu(&id).ok_or(SessionError::Failed { id, why })
    });
    let cpu = cpu.await?;
    Ok(Depth { changes, cpu })
}

/// Records a step; false when the raider's work is another matter by now.
async fn take(
    args: &WitnessArgs,
    hook: &Hook,
    change: impl Fn(&mut Steps) + Send + Sync + 'static,
    event: Option<NewEvent>,
) -> Result<bool, Refusal> {
    let silence = remember(args, &hook.raider, |watch, now| watch.silence(now));
    let (hook, silence) = (hook.clone(), silence.unwrap_or_default());
    let step = move |txn: &mut dyn Txn| rows::take(txn, &hook, silence, &change, event.as_ref());
    Ok(args.world.store.run(step).await?)
}

/// Tells it. Only what its terminal took counts.
async fn nudge(
    args: &WitnessArgs,
    policy: &Policy,
    seen: &Seen,
    count: u32,
) -> Result<(), Refusal> {
    let (world, hook) = (&args.world, &seen.hook);
    if !take(args, hook, |_| {}, None).await? {
        return Ok(());
    }
    let handle = SessionHandle {
        id: seen.facts.id.clone(),
        token: seen.facts.token.clone(),
    };
    let text = prompt::silent(&hook.relic, policy.after);
    let sent = effects::sessions(world, &seen.facts.id, move |provider| {
        provider.send(&handle, &Input::Submit(text))
    });
    match sent.await {
        Ok(()) => {}
        // Its end is looked at for itself.
        Err(SessionError::Gone(_)) => return Ok(()),
        Err(error @ SessionError::Failed { .. }) => {
            remember(args, &hook.raider, Watch::again);
            let problem = "it is stalled, and cannot be told";
            return escalate(args, hook, problem, error.to_string()).await;
        }
    }
    remember(args, &hook.raider, Watch::stepped);
    let data = serde_json::json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "nudge": count,
        "generation": seen.facts.generation,
    });
    let nudged = NewEvent::new(EventType::RaiderNudged, &hook.raider, Cause::Stalled).with(data);
    take(args, hook, move |steps| steps.nudges = count, Some(nudged)).await?;
    Ok(())
}

/// Replaces the session by a fresh one, which is told why. A planned cycle, and no death.
async fn restart(args: &WitnessArgs, seen: Seen) -> Result<(), Refusal> {
    let (hook, ended) = (seen.hook, seen.facts.token);
    let meant = Meant::raider(&hook.raider, hook.incarnation).only(ended.clone());
    let replaced = move |steps: &mut Steps| steps.ended = Some(ended.clone());
    if !take(args, &hook, replaced, None).await? {
        return Ok(());
    }
    remember(args, &hook.raider, Watch::stepped);
    ask::cycle_meant(&args.world, meant, Cause::Stalled).await
}

/// Calls a person.
async fn call(args: &WitnessArgs, policy: &Policy, seen: &Seen) -> Result<(), Refusal> {
    let hook = &seen.hook;
    let tail = effects::tail(&args.world, &seen.facts.id).await;
    let evidence = format!(
        "no progress for {:?}, although it was told {} times and given a fresh session; `hd attach \
         {}` shows what it does. The end of its terminal:\n{tail}",
        policy.after,
        seen.steps.as_ref().map_or(0, |steps| steps.nudges),
        hook.raider
    );
    escalate(args, hook, "it is stalled, and nothing helps", evidence).await?;
    take(args, hook, |steps| steps.called = true, None).await?;
    remember(args, &hook.raider, Watch::stepped);
    Ok(())
}
