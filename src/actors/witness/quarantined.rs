//! Raiders in quarantine. Until the quarantine ends or a person acts nothing is removed: the relic is blocked, a person
//! is called, and commits that exist nowhere else are salvaged at once. Then the root retries. A sandbox whose raider
//! was retried without success for `keep_dirty` is removed at the end of a quarantine, salvaged first if it holds work;
//! its relic stays blocked (`product.md`, "Session dead").

use crate::actors::mail::NukeTarget;
use jiff::Timestamp;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::nuke;
use super::super::{ask, effects};
use super::inbox::Handled;
use super::kept_sandboxes::{self, KeptSandbox};
use super::observe::Observation;
use super::{WitnessArgs, wisps};
use crate::actors::mail::{ChildState, ChildView, Work};
use crate::actors::records::quarantine;
use crate::domain::cause::Cause;
use crate::domain::message;
use crate::domain::problem::ProblemKind;
use crate::domain::quarantine_report::QuarantineReport;
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::wisp::Cleanup;
use crate::ports::relics::Txn;

/// Blocks the relics of quarantined raiders that the root could not block.
///
/// # Errors
/// The store's.
pub(super) async fn block(args: &WitnessArgs) -> Result<(), Refusal> {
    let world = &args.world;
    // If the root does not answer, the next patrol does it.
    for view in ask::views(world).await.unwrap_or_default() {
        let Some((hook, until)) = held(args, &view) else {
            continue;
        };
        let relic = hook.relic.clone();
        let relic = world.store.run(move |txn| txn.relic(&relic)).await?;
        if relic.status != RelicStatus::Hooked {
            continue;
        }
        let output = effects::tail(world, &view.spec.session).await;
        let within = Some(view.died_within);
        let last = view.died_of.clone();
        let deaths = QuarantineReport::new(view.restarts, within, last, output, until);
        let block = move |txn: &mut dyn Txn| quarantine::block(txn, &hook, &deaths);
        world.store.run(block).await?;
        world.nudge(message::SHAMAN);
    }
    Ok(())
}

/// Returns the hook of a raider of this rig that is in quarantine, and until when.
fn held(args: &WitnessArgs, view: &ChildView) -> Option<(Hook, Timestamp)> {
    let Work::Raider { hook, .. } = &view.spec.work else {
        return None;
    };
    let held = view.state == ChildState::Quarantined && hook.raider.rig == args.rig;
    held.then(|| Some((Hook::clone(hook), view.quarantined_until?)))?
}

/// Returns true when the sandbox of a zombie may be removed now. That of a quarantined raider may after `keep_dirty`,
/// and then at the end of a quarantine: a person has the time that `status` shows.
///
/// # Errors
/// The store's.
pub(super) async fn may_go(
    args: &WitnessArgs,
    sight: &Observation,
    hook: &Hook,
) -> Result<bool, Refusal> {
    let world = &args.world;
    let Some(until) = sight.quarantined_until else {
        return Ok(true);
    };
    let left = until.duration_since(world.clock.now());
    let last_look = left
        <= jiff::SignedDuration::try_from(world.city.daemon.patrol_interval)
            .unwrap_or(jiff::SignedDuration::MAX);
    let Some(rig) = world.city.rig(&args.rig).filter(|_| last_look) else {
        return Ok(false);
    };
    // The wisp of its first quarantine without recovery holds the start; without one it starts now.
    let (about, since) = (kept_sandboxes::about(hook), sight.at);
    let since = move |txn: &mut dyn Txn| wisps::kept_since(txn, &about, since);
    let key = format!("kept/{}/{}", hook.raider, hook.incarnation.0);
    let age = world.age(&key, world.store.run(since).await?);
    Ok(age >= rig.witness.keep_dirty)
}

/// Keeps the sandbox of a quarantined raider: notes since when, and has commits salvaged that exist nowhere else.
///
/// # Errors
/// The store or the repository failed.
pub(super) async fn keep(
    args: &WitnessArgs,
    sight: &Observation,
    hook: &Hook,
) -> Result<Handled, Refusal> {
    let world = &args.world;
    let detected = Some(sight.at);
    let target = NukeTarget {
        detected,
        ..NukeTarget::of(hook, Cause::TooManyDeaths)
    };
    match nuke::permitted(world, target).await {
        Ok(_) => {
            let about = kept_sandboxes::about(hook);
            let track = move |txn: &mut dyn Txn| {
                wisps::track(txn, &about, Cleanup::Pending, "nothing would be lost")
            };
            world.store.run(track).await?;
            args.memory.judged_sandboxes.keep(&hook.raider);
            Ok(Handled::AtPatrol)
        }
        Err(refused) if matches!(refused.kind, RefusalKind::WorkAtRisk | RefusalKind::NoRoom) => {
            let kept = KeptSandbox {
                hook,
                owns: true,
                since: sight.since.unwrap_or(sight.at),
                detected,
                problem: ProblemKind::Quarantined,
                refused,
                may_go: false,
            };
            kept_sandboxes::retain(args, kept).await
        }
        Err(error) => Err(error),
    }
}
