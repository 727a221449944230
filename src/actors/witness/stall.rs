//! Stalled sessions: detected, nudged, replaced, and finally escalated to a person (`raider-lifecycle.md`, stalled;
//! `domain::stall` decides).
//!
//! ```text
//!  every look ──► pass: cheap observation of all ──► nothing due ──► timer for the first that may be
//!                                               └──► each that is due, in a task of its own:
//!                  full observation of this one ──► signal ─► nudge ─► replace ─► escalate ──► look again
//! ```
//!
//! The store holds the steps taken; [`Silences`] holds the observations, and outlives the witness but not the process:
//! a new process measures silence from its start, and goes on with the steps.

mod observe;
mod spins;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use self::observe::{ObservedRaider, observe};

use super::super::claims::ClaimKey;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::typing::{self, Typing};
use super::super::{ask, conditions, effects};
use super::WitnessArgs;
use super::inbox::escalate;
use crate::actors::mail::ChildRef;
use crate::actors::mail::WitnessMsg;
use crate::actors::records::stalls;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, RaiderId};
use crate::domain::problem::ProblemKind;
use crate::domain::prompt;
use crate::domain::relic::Hook;
use crate::domain::restart::Mono;
use crate::domain::stall::{Depth, Policy, Progress, Steps, Verdict, Watch};
use crate::ports::relics::Txn;
use crate::ports::sessions::{SessionError, SessionHandle};

/// Number of costly observations of a rig at once: each runs a `git status`.
const DEEP: usize = 2;

/// The observations of sessions, kept between looks.
pub(super) struct Silences {
    watched: Mutex<Watched>,
    deep: Semaphore,
}

impl Default for Silences {
    fn default() -> Self {
        Self {
            watched: Mutex::default(),
            deep: Semaphore::new(DEEP),
        }
    }
}

#[derive(Default)]
struct Watched {
    raiders: BTreeMap<RaiderId, Watch>,
    /// The earliest time of the next pass: many events may request one at once.
    not_before: Mono,
    /// When the next look is due, and the timer that requests it.
    timer: Option<(Mono, JoinHandle<()>)>,
}

impl Silences {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        // A poisoned lock at most restarts the measurement of a silence.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn policy(args: &WitnessArgs) -> Option<Policy> {
    let raiders = &args.world.city.rig(&args.rig)?.raiders;
    Some(Policy {
        after: raiders.stall_after?,
        nudges: raiders.nudges,
    })
}

/// Starts the search for stalled sessions, independent of other work.
pub fn start_look(args: &WitnessArgs) {
    let key = ClaimKey::Stalls(args.rig.clone());
    let Some(mut claim) = args.world.claims.claim_or_repeat(key) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        loop {
            or_warn!(pass(&args).await, rig = %args.rig,
                "sessions cannot be checked for stalls; the next look retries");
            match claim.give_back() {
                Some(again) => claim = again,
                None => return,
            }
        }
    });
}

/// Observes all raiders, as far as that is cheap.
async fn pass(args: &WitnessArgs) -> Result<(), Refusal> {
    let world = &args.world;
    let Some(policy) = policy(args) else {
        // Without `stall_after` no raider counts as stalled.
        *args.memory.silences.watched() = Watched::default();
        conditions::rest(world, &args.rig);
        let rig = args.rig.clone();
        let forget = move |txn: &mut dyn Txn| stalls::forget(txn, &rig);
        return Ok(world.store.run(forget).await?);
    };
    let now = world.clock.mono();
    let not_before = {
        let mut watched = args.memory.silences.watched();
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
    let seen = observe(args, None).await?;
    let mut first: Option<Mono> = None;
    let held: Vec<RaiderId> = seen.iter().map(|seen| seen.hook.raider.clone()).collect();
    for seen in seen {
        match judge(args, &policy, &seen, None).await? {
            Verdict::Fresh { until } => {
                first = Some(first.map_or(until, |first| first.min(until)));
            }
            Verdict::Deeper
            | Verdict::Spins
            | Verdict::Nudge(_)
            | Verdict::Restart
            | Verdict::Escalate
            | Verdict::Called => attend(args, policy, seen.hook.raider),
        }
    }
    let mut watched = args.memory.silences.watched();
    watched.raiders.retain(|raider, _| held.contains(raider));
    drop(watched);
    if let Some(first) = first {
        arm(args, first);
    }
    Ok(())
}

/// Arms a timer that has the witness, or its successor by then, look at that time.
fn arm(args: &WitnessArgs, due: Mono) {
    let now = args.world.clock.mono();
    let mut watched = args.memory.silences.watched();
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

/// Adds an observation, and judges. A stalled raider that makes progress again is reset, and its escalations are
/// closed.
async fn judge(
    args: &WitnessArgs,
    policy: &Policy,
    seen: &ObservedRaider,
    depth: Option<Depth>,
) -> Result<Verdict, Refusal> {
    let world = &args.world;
    let (found, moves, recovers, verdict) = {
        let (now, wall) = (world.clock.mono(), world.clock.now());
        let mut watched = args.memory.silences.watched();
        let raiders = &mut watched.raiders;
        let marks = seen.marks.clone();
        let watch = raiders
            .entry(seen.hook.raider.clone())
            .or_insert_with(|| Watch::new(marks.clone(), now));
        if watch.session() != marks.session {
            *watch = Watch::new(marks.clone(), now);
        }
        let mut progress = watch.compare(marks, seen.attended, now);
        watch.sighted(seen.unseen.is_none(), now);
        watch.waits(seen.wait.as_ref(), wall, now);
        if let Some(depth) = depth.filter(|_| progress == Progress::None) {
            progress = watch.look_deeper(depth, now);
        }
        let recovers = seen.steps.is_some() && watch.recovers(progress, policy, now);
        let steps = seen.steps.as_ref().filter(|_| !recovers);
        let found = watch.is_found();
        let moves = watch.still.goes_on();
        (found, moves, recovers, watch.judge(policy, steps, now))
    };
    if moves {
        let handle = SessionHandle {
            id: seen.facts.id.clone(),
            token: seen.facts.token.clone(),
        };
        conditions::moves(world, &handle);
        let hook = seen.hook.clone();
        let over = move |txn: &mut dyn Txn| {
            stalls::close_escalations(txn, &hook, &[ProblemKind::StalledSpins])
        };
        if let Err(error) = world.store.run(over).await {
            let raider = &seen.hook.raider;
            remember(args, raider, |watch, _| watch.still.was_not_told());
            return Err(error.into());
        }
    }
    let hook = seen.hook.clone();
    if recovers {
        let free = move |txn: &mut dyn Txn| stalls::recover(txn, &hook, Cause::Progress);
        world.store.run(free).await?;
    } else if found {
        let found =
            move |txn: &mut dyn Txn| stalls::close_escalations(txn, &hook, &[ProblemKind::Unseen]);
        world.store.run(found).await?;
    }
    Ok(verdict)
}

/// Changes the watch of a raider, if it is watched.
fn remember<T>(
    args: &WitnessArgs,
    raider: &RaiderId,
    change: impl FnOnce(&mut Watch, Mono) -> T,
) -> Option<T> {
    let now = args.world.clock.mono();
    let mut watched = args.memory.silences.watched();
    let watch = watched.raiders.get_mut(raider)?;
    Some(change(watch, now))
}

/// Handles a raider that may be stalled, in a task of its own: a hang delays nothing else.
fn attend(args: &WitnessArgs, policy: Policy, raider: RaiderId) {
    let Some(claim) = args.world.claims.claim(ClaimKey::Stall(raider.clone())) else {
        return;
    };
    let args = args.clone();
    tokio::spawn(async move {
        let done = act(&args, &policy, &raider).await;
        drop(claim);
        match done {
            // The look arms the timer of the next step.
            Ok(()) => args
                .world
                .directory
                .tell_witness(&args.rig, WitnessMsg::Look),
            // The next patrol looks again.
            Err(error) => {
                tracing::warn!(
                    %raider,
                    %error,
                    "the session may be stalled, but a step against that failed; the next patrol \
                    retries"
                );
            }
        }
    });
}

/// Observes this raider in full, and takes the next step if it is still silent.
async fn act(args: &WitnessArgs, policy: &Policy, raider: &RaiderId) -> Result<(), Refusal> {
    let Some(seen) = observe(args, Some(raider.clone())).await?.pop() else {
        return Ok(());
    };
    match judge(args, policy, &seen, None).await? {
        Verdict::Deeper => {}
        Verdict::Spins => return spins::examine(args, policy, seen).await,
        _ => return Ok(()),
    }
    let depth = match sound(args, &seen).await {
        Ok(depth) => depth,
        Err(error) => {
            remember(args, raider, Watch::unsounded);
            lost(args, policy, &seen.hook, error.to_string()).await?;
            return Err(error);
        }
    };
    // That took time: judge the present state.
    let session = seen.facts.token;
    let again = observe(args, Some(raider.clone())).await?.pop();
    let Some(seen) = again.filter(|seen| seen.facts.token == session) else {
        return Ok(());
    };
    let verdict = judge(args, policy, &seen, Some(depth)).await?;
    if let Some(why) = &seen.unseen {
        return lost(args, policy, &seen.hook, why.clone()).await;
    }
    match verdict {
        Verdict::Fresh { .. } | Verdict::Deeper | Verdict::Spins => {}
        Verdict::Nudge(count) => nudge(args, policy, &seen, count).await?,
        Verdict::Restart => restart(args, seen).await?,
        Verdict::Escalate => call(args, policy, &seen).await?,
        Verdict::Called => {
            remember(args, raider, Watch::again);
        }
    }
    Ok(())
}

/// Calls a person to a raider that cannot be observed, once that has lasted. The session is left alone.
async fn lost(
    args: &WitnessArgs,
    policy: &Policy,
    hook: &Hook,
    why: String,
) -> Result<(), Refusal> {
    let raider = &hook.raider;
    if remember(args, raider, |watch, now| watch.is_lost(policy, now)) != Some(true) {
        return Ok(());
    }
    let hint = format!("`hd attach {raider}` may show its terminal");
    escalate(args, hook, ProblemKind::Unseen, format!("{why}\n{hint}")).await
}

/// Observes what is costly: changes of the work tree and CPU use.
async fn sound(args: &WitnessArgs, seen: &ObservedRaider) -> Result<Depth, Refusal> {
    let world = &args.world;
    let deep = args.memory.silences.deep.acquire().await;
    // The semaphore is never closed; if it were, there would be no limit.
    let _turn = deep.ok();
    let sandbox = world.city.sandbox(&seen.hook.raider);
    let changes = effects::repo(world, &args.rig, move |repo| repo.changes(&sandbox)).await?;
    let id = seen.facts.id.clone();
    let cpu = effects::sessions(world, &seen.facts.id, move |provider| {
        let why = "the CPU use of its processes cannot be read".to_owned();
        provider.cpu(&id).ok_or(SessionError::Failed { id, why })
    });
    let cpu = cpu.await?;
    Ok(Depth { changes, cpu })
}

/// Records a step; returns false when the raider has other work by now.
async fn take(
    args: &WitnessArgs,
    hook: &Hook,
    change: impl Fn(&mut Steps) + Send + Sync + 'static,
    event: Option<NewEvent>,
) -> Result<bool, Refusal> {
    let silence = remember(args, &hook.raider, |watch, now| watch.silence(now));
    let (hook, silence) = (hook.clone(), silence.unwrap_or_default());
    let step = move |txn: &mut dyn Txn| stalls::take(txn, &hook, silence, &change, event.as_ref());
    Ok(args.world.store.run(step).await?)
}

/// Nudges the session. Counts only if its terminal took the text.
async fn nudge(
    args: &WitnessArgs,
    policy: &Policy,
    seen: &ObservedRaider,
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
    match typing::may_type(world, &hook.harness, &handle).await {
        Typing::Free => {}
        // The condition reports it, or the next look does.
        Typing::Asks(_) | Typing::Attended | Typing::Unseen(_) | Typing::Gone => {
            remember(args, &hook.raider, Watch::again);
            return Ok(());
        }
        Typing::Unrecognised(screen) => {
            remember(args, &hook.raider, Watch::again);
            return escalate(args, hook, ProblemKind::StalledUnrecognised, screen).await;
        }
        Typing::Begun(screen) => {
            remember(args, &hook.raider, Watch::again);
            return escalate(args, hook, ProblemKind::StalledBegun, screen).await;
        }
    }
    let text = prompt::silent(&hook.relic, policy.after, &world.hd());
    let child = ChildId::Raider(hook.raider.clone());
    match typing::submit(world, &child, Some(&hook.harness), &handle, &text).await {
        Ok(()) => {}
        // The session's end is handled separately.
        Err(gone) if gone.kind == RefusalKind::NotFound => return Ok(()),
        Err(asks) if asks.kind == RefusalKind::NeedsHuman => {
            remember(args, &hook.raider, Watch::again);
            return Ok(());
        }
        Err(error) => {
            remember(args, &hook.raider, Watch::again);
            return escalate(args, hook, ProblemKind::StalledUntold, error.to_string()).await;
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

/// Replaces the session by a fresh one, which is told why. A planned cycle, not a death. A person is called when the
/// root refuses it again.
async fn restart(args: &WitnessArgs, seen: ObservedRaider) -> Result<(), Refusal> {
    let (hook, ended) = (seen.hook, seen.facts.token);
    let tried = seen.steps.and_then(|steps| steps.ended);
    let again = tried.as_ref() == Some(&ended);
    let meant = ChildRef::raider(&hook.raider, hook.incarnation).only(ended.clone());
    let replaced = move |steps: &mut Steps| steps.ended = Some(ended.clone());
    if !take(args, &hook, replaced, None).await? {
        return Ok(());
    }
    remember(args, &hook.raider, Watch::stepped);
    match ask::cycle_if_same(&args.world, meant, Cause::Stalled).await {
        Err(refused) if again => {
            escalate(args, &hook, ProblemKind::StalledKept, refused.to_string()).await
        }
        done => done,
    }
}

/// Calls a person.
async fn call(args: &WitnessArgs, policy: &Policy, seen: &ObservedRaider) -> Result<(), Refusal> {
    let hook = &seen.hook;
    let tail = effects::tail(&args.world, &seen.facts.id).await;
    let evidence = format!(
        "no progress for {:?} after {} nudges and a fresh session; `hd attach {}` shows its \
        terminal. The end of its terminal:\n{tail}",
        policy.after,
        seen.steps.as_ref().map_or(0, |steps| steps.nudges),
        hook.raider
    );
    escalate(args, hook, ProblemKind::StalledHelpless, evidence).await?;
    take(args, hook, |steps| steps.called = true, None).await?;
    remember(args, &hook.raider, Watch::stepped);
    Ok(())
}
