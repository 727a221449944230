//! Outcome files: completion by any harness, without knowledge of `hd` (`agent-lifecycle.md`, section 5). If the tree
//! is not clean, the session is told a few times, then a person; the supervisor never commits.

use crate::actors::briefs;
use crate::actors::declared;
use crate::actors::effects;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::super::ask;
use super::super::claims::{Claim, ClaimKey};
use super::super::refusal::{Refusal, RefusalKind};
use super::super::typing::{self, Typing};
use super::super::world::World;
use super::WitnessArgs;
use super::inbox::escalate;
use crate::actors::mail::DoneRequest;
use crate::actors::mail::WitnessMsg;
use crate::actors::mail::raider_spec;
use crate::actors::mail::{ChildState, ChildView, SessionView};
use crate::actors::records::outcome_notices::{self, OutcomeNotices};
use crate::actors::records::refused_done;
use crate::actors::session::endings;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, RaiderId};
use crate::domain::outcome::OutcomeFile;
use crate::domain::problem::ProblemKind;
use crate::domain::prompt::Problem;
use crate::domain::relic::Hook;
use crate::ports::relics::Txn;

/// The longest time that a program takes to write its outcome in parts.
const WRITING: Duration = Duration::from_secs(2);
/// Pause between two attempts to claim the reading.
const TURN: Duration = Duration::from_millis(50);

/// The outcome files to read.
pub enum Which {
    /// The outcomes of all raiders.
    All,
    /// The outcome of the raider whose session has ended.
    Ended(RaiderId),
    /// The file in this task directory.
    In(PathBuf),
}

/// Reads outcome files and acts on them.
///
/// # Errors
/// The store cannot be read.
pub async fn read(args: &WitnessArgs, which: Which) -> Result<(), Refusal> {
    let rig = args.rig.clone();
    let hooks = args
        .world
        .store
        .run(move |txn| txn.hooks(Some(&rig)))
        .await?;
    let city = &args.world.city;
    let mut resting = None;
    for hook in hooks.into_iter().filter(|hook| !hook.is_declared()) {
        let (concerned, ended) = match &which {
            Which::All => (true, false),
            Which::Ended(raider) => (&hook.raider == raider, true),
            Which::In(dir) => {
                let own = city.task_dir(&hook.raider, &hook.relic, hook.incarnation);
                (&own == dir, false)
            }
        };
        let raider = hook.raider.clone();
        if concerned && let Err(error) = act(args, hook, ended, &mut resting).await {
            // A failure must not stop the other outcomes.
            tracing::warn!(
                %raider,
                %error,
                "the outcome could not be acted on; the next patrol retries"
            );
        }
    }
    if matches!(which, Which::Ended(_)) {
        // For a raider that ran `hd done` itself: its saga may wait for the session's end.
        args.world
            .directory
            .tell_witness(&args.rig, WitnessMsg::Look);
    }
    Ok(())
}

/// Claims the reading of an outcome. The file's watcher, a patrol and the session's end may see it at once: one task
/// reads and one more waits, because a write during a reading is not seen by it.
async fn turn(args: &WitnessArgs, hook: &Hook, ended: bool) -> Option<Claim> {
    let claims = &args.world.claims;
    let key = ClaimKey::Outcome(hook.raider.clone());
    if let Some(claim) = claims.claim(key.clone()) {
        return Some(claim);
    }
    let next = ClaimKey::NextOutcome(hook.raider.clone(), ended);
    let _only_one_waits = claims.claim(next)?;
    loop {
        tokio::time::sleep(TURN).await;
        if let Some(claim) = claims.claim(key.clone()) {
            return Some(claim);
        }
    }
}

async fn act(
    args: &WitnessArgs,
    hook: Hook,
    ended: bool,
    resting: &mut Option<BTreeSet<ChildId>>,
) -> Result<(), Refusal> {
    let Some(turn) = turn(args, &hook, ended).await else {
        return Ok(());
    };
    let Some((said, written)) = read_outcome(args, &hook).await else {
        return Ok(());
    };
    if matches!(said, OutcomeFile::Unclear(_)) && !ended {
        // Without a modification time an unclear file may still be being written: the raider is told when its session
        // has ended.
        let Some(at) = written else { return Ok(()) };
        if let Some(left) = unsettled(&args.world, at) {
            drop(turn);
            look_again(args, hook, at, left);
            return Ok(());
        }
    }
    let (problem, refused) = match said {
        OutcomeFile::Empty => return resume(args, hook, resting).await,
        OutcomeFile::Unclear(why) => {
            let message = format!("the outcome file cannot be read: {why}");
            let refused = Refusal::new(RefusalKind::BadRequest, message);
            (Problem::Unclear(why), refused)
        }
        OutcomeFile::Complete(outcome) => {
            let request = declared::request_of(&hook, outcome);
            let Err(refused) = declare(args, request).await else {
                return Ok(());
            };
            let Some(problem) = endings::problem_of(&refused) else {
                tracing::warn!(
                    raider = %hook.raider,
                    error = %refused,
                    "the outcome could not be accepted now; it is retried, or a person is \
                    called"
                );
                // A transient failure, or another task has claimed it; in other cases only a person can help.
                if refused.is_passing() || refused.kind == RefusalKind::Conflict {
                    return Ok(());
                }
                return escalate(
                    args,
                    &hook,
                    ProblemKind::OutcomeRefused,
                    refused.to_string(),
                )
                .await;
            };
            (problem, refused)
        }
    };
    // If it may not be told now, it is told when a patrol reads the file again.
    let about = About {
        ended,
        written,
        in_file: true,
    };
    let _said = remind(args, &hook, about, (&problem, &refused)).await?;
    Ok(())
}

/// Returns the content of the file, and when it was written; none when it cannot be read.
async fn read_outcome(args: &WitnessArgs, hook: &Hook) -> Option<(OutcomeFile, Option<Timestamp>)> {
    let seen = endings::outcome(&args.world, hook).await;
    let warn = |error| {
        tracing::warn!(
            raider = %hook.raider,
            %error,
            "an outcome file cannot be read; the next patrol retries"
        )
    };
    seen.map_err(warn).ok()
}

/// Reads the file again in a moment, unless it is written meanwhile, which the watcher reports.
fn look_again(args: &WitnessArgs, hook: Hook, written: Timestamp, left: Duration) {
    let args = args.clone();
    tokio::spawn(async move {
        tokio::time::sleep(left).await;
        if read_outcome(&args, &hook)
            .await
            .is_some_and(|(_, now)| now == Some(written))
        {
            let city = &args.world.city;
            let dir = city.task_dir(&hook.raider, &hook.relic, hook.incarnation);
            args.world
                .directory
                .tell_witness(&args.rig, WitnessMsg::Outcome(dir));
        }
    });
}

/// Restarts a raider that has open work and rests as if finished: its completion was withdrawn, or its relic was closed
/// and opened again. Nothing else would start it.
async fn resume(
    args: &WitnessArgs,
    hook: Hook,
    resting: &mut Option<BTreeSet<ChildId>>,
) -> Result<(), Refusal> {
    let world = &args.world;
    let resting = match resting {
        Some(resting) => resting,
        None => {
            let views = ask::views(world).await?.into_iter();
            let finished = views.filter(|view| view.state == ChildState::Finished);
            resting.insert(finished.map(|view| view.spec.id).collect())
        }
    };
    if !resting.contains(&ChildId::Raider(hook.raider.clone())) {
        return Ok(());
    }
    // Its completion may wait for the rig, which has it looked at again.
    if effects::is_held(world, &hook.raider.rig) {
        return Ok(());
    }
    let relic = hook.relic.clone();
    let relic = world.store.run(move |txn| txn.relic(&relic)).await?;
    if !relic.status.is_bound() || endings::work_is_over(world, &hook).await != Some(false) {
        return Ok(());
    }
    let raider = hook.raider.clone();
    let (world, spec) = (Arc::clone(world), raider_spec(&world.city, hook, None));
    tokio::spawn(async move {
        or_warn!(
            ask::want(&world, spec, Cause::Recovered).await,
            %raider,
            "a stopped raider with an open relic could not be restarted; the next patrol retries"
        );
    });
    Ok(())
}

/// Returns how long to wait until an unclear file counts as a mistake rather than as being written; none when it is old
/// enough. A time a little in the future comes from a file system whose clock is ahead; a later time comes from a clock
/// that was set back.
fn unsettled(world: &World, written: Timestamp) -> Option<Duration> {
    let now = world.clock.now();
    let Ok(age) = Duration::try_from(now - written) else {
        let ahead = Duration::try_from(written - now).ok()?;
        return (ahead <= WRITING).then_some(WRITING);
    };
    let left = WRITING.saturating_sub(age);
    Some(left).filter(|left| !left.is_zero())
}

async fn declare(args: &WitnessArgs, request: DoneRequest) -> Result<(), Refusal> {
    let witness = args.world.directory.witness(&args.rig);
    let message = |reply| WitnessMsg::Done(request, reply);
    let limit = Duration::from_secs(120);
    ask::ask(witness, message, limit).await?.map(|_| ())
}

/// Tells a raider why the outcome that it left in the outbox was refused, if it can mend that: `hd done` had reported
/// success.
///
/// # Errors
/// The store or the root is not available.
pub async fn refused(
    args: &WitnessArgs,
    raider: RaiderId,
    refused: &Refusal,
) -> Result<(), Refusal> {
    let world = &args.world;
    let Some(problem) = endings::problem_of(refused) else {
        return Ok(());
    };
    let now = About {
        ended: false,
        written: Some(world.clock.now()),
        in_file: false,
    };
    let mut about = None;
    // Repeated here, because no patrol repeats it.
    while !args.world.is_stopping() {
        let world = args.world.newest();
        let args = &WitnessArgs {
            world: Arc::clone(&world),
            ..args.clone()
        };
        let raider = raider.clone();
        let hook = world.store.run(move |txn| txn.hook(&raider)).await?;
        let Some(hook) = hook.filter(|hook| !hook.is_declared()) else {
            return Ok(());
        };
        if about.is_none() {
            let (own, why) = (hook.clone(), refused.clone());
            let noted = world
                .store
                .run(move |txn| refused_done::record(txn, &own, &why));
            or_warn!(noted.await, raider = %hook.raider,
                "the refusal of a completion could not be journalled; its agent is told the reason");
        }
        let same = *about.get_or_insert(hook.incarnation) == hook.incarnation;
        if !same || remind(args, &hook, now, (&problem, refused)).await? {
            return Ok(());
        }
        tokio::time::sleep(world.city.daemon.patrol_interval).await;
    }
    Ok(())
}

/// The declaration that was refused.
#[derive(Clone, Copy)]
struct About {
    /// Set when its session has ended.
    ended: bool,
    /// The time at which it was made.
    written: Option<Timestamp>,
    /// Set for an outcome file, which the agent may mend meanwhile.
    in_file: bool,
}

/// Tells the session what is wrong; starts it again for that when it has ended; calls a person when that did not help.
/// Returns false when it may not be told now.
async fn remind(
    args: &WitnessArgs,
    hook: &Hook,
    About {
        ended,
        written,
        in_file,
    }: About,
    (problem, refused): (&Problem, &Refusal),
) -> Result<bool, Refusal> {
    let world = &args.world;
    let most = world
        .city
        .rig(&args.rig)
        .map_or(0, |rig| rig.raiders.nudges);
    let known = hook.clone();
    let told = world
        .store
        .run(move |txn| outcome_notices::so_far(txn, &known))
        .await?;
    if !ended && is_recent(&told, world, written) {
        return Ok(true);
    }
    if told.count >= most {
        escalate(args, hook, ProblemKind::OutcomeRefused, refused.text()).await?;
        return Ok(true);
    }
    let data = serde_json::json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "nudge": told.count + 1,
        "written": written, "why": refused.message,
    });
    let cause = match in_file {
        true => Cause::OutcomeFile,
        false => Cause::Done,
    };
    let nudged = NewEvent::new(EventType::RaiderNudged, &hook.raider, cause).with(data);
    let (known, why) = (hook.clone(), refused.message.clone());
    let count = move |txn: &mut dyn Txn| {
        outcome_notices::count_one(txn, &known, written, &why)?;
        txn.record(&nudged).map(drop)
    };
    let view = settled(world, hook).await?;
    // Another writing of the file came meanwhile, and is looked at for itself.
    if in_file
        && !ended
        && read_outcome(args, hook)
            .await
            .is_none_or(|(_, now)| now != written)
    {
        return Ok(true);
    }
    let session = view.as_ref().and_then(|view| view.session.clone());
    match session {
        Some(session) if !ended => {
            // A session that ended meanwhile was not told; its end is handled separately.
            if !type_reminder(args, hook, problem, session).await? {
                return Ok(false);
            }
            world.store.run(count).await?;
        }
        _ => {
            let rests = view.is_none_or(|view| view.state == ChildState::Finished);
            if !rests {
                // Its next session is told.
                return Ok(false);
            }
            world.store.run(count).await?;
            let spec = raider_spec(&world.city, hook.clone(), Some(problem.clone()));
            ask::want(world, spec, cause).await?;
        }
    }
    Ok(true)
}

/// Returns the raider's child once it is no longer starting: a running session can be told, and a resting one started.
async fn settled(world: &World, hook: &Hook) -> Result<Option<ChildView>, Refusal> {
    let id = ChildId::Raider(hook.raider.clone());
    let deadline = world.clock.mono() + world.city.session.startup_timeout;
    loop {
        let views = ask::views(world).await?;
        let view = views.into_iter().find(|view| view.spec.id == id);
        let starting = |view: &ChildView| view.state == ChildState::Starting;
        if !view.as_ref().is_some_and(starting) || world.clock.mono() >= deadline {
            return Ok(view);
        }
        tokio::time::sleep(TURN).await;
    }
}

/// Returns true when the last reminder was about this same write and is recent: one write may cause many events, and an
/// agent needs time to act.
fn is_recent(told: &OutcomeNotices, world: &World, written: Option<Timestamp>) -> bool {
    let pause = world.city.daemon.patrol_interval / 2;
    told.last.is_some_and(|(at, about)| {
        let age = Duration::try_from(world.clock.now() - at);
        about == written && age.is_ok_and(|age| age < pause)
    })
}

/// Types the reminder into the session; returns false when that failed, or must not be done now.
async fn type_reminder(
    args: &WitnessArgs,
    hook: &Hook,
    problem: &Problem,
    session: SessionView,
) -> Result<bool, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return Ok(false);
    };
    let text = briefs::nudge_text(world, rig, hook, problem).await?;
    let handle = session.handle;
    let (accounts, child) = (
        &world.directory.accounts,
        ChildId::Raider(hook.raider.clone()),
    );
    // At a limit the model would not read it.
    let is_held = accounts.held(&world.city, &hook.harness, &child).is_some();
    if is_held || world.directory.conditions.is_known(&handle.id) {
        return Ok(false);
    }
    if typing::may_type(world, &hook.harness, &handle).await != Typing::Free {
        return Ok(false);
    }
    let sent = typing::submit(world, &child, Some(&hook.harness), &handle, &text).await;
    or_warn!(&sent, raider = %hook.raider,
        "the reminder about an outcome could not be typed into the session; it is retried");
    Ok(sent.is_ok())
}
