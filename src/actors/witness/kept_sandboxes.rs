//! Sandboxes that are no longer wanted and may not be removed as they are: a person is told, commits that exist nowhere
//! else are salvaged at once, and after `keep_dirty` everything is salvaged and the sandbox removed (`product.md`,
//! "none lingers"; `witness-patrol.md`, auto-nuke safety protocol).

use crate::actors::mail::NukeTarget;

use jiff::Timestamp;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::nuke;
use super::inbox::{Handled, raise};
use super::{WitnessArgs, nuke_now, wisps};
use crate::domain::cause::Cause;
use crate::domain::message::Escalation;
use crate::domain::nuke::CleanupStatus;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;
use crate::domain::wisp::{About, Cleanup};
use crate::ports::relics::Txn;

/// A kept sandbox, and the reason.
pub(super) struct KeptSandbox<'a> {
    /// The hook that the sandbox was charged with.
    pub(super) hook: &'a Hook,
    /// Set when the relic still belongs to that raider. Otherwise it may belong to another raider by now, and only the
    /// sandbox matters.
    pub(super) owns: bool,
    /// When the sandbox became unwanted.
    pub(super) since: Timestamp,
    /// When this was observed; a session that started later is another one.
    pub(super) detected: Option<Timestamp>,
    /// The problem of the escalation.
    pub(super) problem: ProblemKind,
    /// The refusal of the safety protocol.
    pub(super) refused: Refusal,
    /// Set when the sandbox may be removed after `keep_dirty`; otherwise it stays however long it was kept.
    pub(super) may_go: bool,
}

/// Keeps the sandbox, or salvages and removes it after `keep_dirty`.
///
/// # Errors
/// The store, the repository or the nuke failed.
pub(super) async fn retain(args: &WitnessArgs, kept: KeptSandbox<'_>) -> Result<Handled, Refusal> {
    let (world, hook) = (&args.world, kept.hook);
    if kept.refused.kind == RefusalKind::NoRoom {
        return without_room(args, hook, &kept.refused).await;
    }
    let target = NukeTarget {
        detected: kept.detected,
        ..NukeTarget::of(hook, Cause::KeptLongEnough)
    };
    if !kept.may_go {
        return keep(args, &kept).await;
    }
    let (about, since) = (about(hook), kept.since);
    let since = move |txn: &mut dyn Txn| wisps::kept_since(txn, &about, since);
    let key = format!("kept/{}/{}", hook.raider, hook.incarnation.0);
    let age = world.age(&key, world.store.run(since).await?);
    let rig = world.city.rig(&args.rig);
    if rig.is_some_and(|rig| age >= rig.witness.keep_dirty) {
        return match nuke_now(args, target, true).await {
            Ok(_) => Ok(Handled::Yes),
            Err(busy) if busy.is_for_the_patrol() => Ok(Handled::AtPatrol),
            Err(full) if full.kind == RefusalKind::NoRoom => without_room(args, hook, &full).await,
            // It cannot be salvaged as it is: it stays regardless of time.
            Err(risk) if risk.kind == RefusalKind::WorkAtRisk => stays(args, &kept).await,
            Err(error) => Err(error),
        };
    }
    keep(args, &kept).await
}

/// Keeps the sandbox: tells a person, and salvages commits that exist nowhere else.
async fn keep(args: &WitnessArgs, kept: &KeptSandbox<'_>) -> Result<Handled, Refusal> {
    let (world, hook) = (&args.world, kept.hook);
    stays(args, kept).await?;
    if kept.refused.status == Some(CleanupStatus::HasUnpushed) {
        let target = NukeTarget::of(hook, Cause::WorkAtRisk);
        match nuke::safekeep(world, &target, kept.since).await {
            Err(error) if error.kind != RefusalKind::NoRoom => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(Handled::AtPatrol)
}

/// Tells a person; the next patrol judges the sandbox again.
async fn stays(args: &WitnessArgs, kept: &KeptSandbox<'_>) -> Result<Handled, Refusal> {
    escalate(args, kept).await?;
    args.memory.judged_sandboxes.keep(&kept.hook.raider);
    Ok(Handled::AtPatrol)
}

/// Tracks a sandbox whose salvage has no room; a person was told when that was measured.
async fn without_room(
    args: &WitnessArgs,
    hook: &Hook,
    refused: &Refusal,
) -> Result<Handled, Refusal> {
    let (about, evidence) = (about(hook), refused.message.clone());
    let track = move |txn: &mut dyn Txn| wisps::track(txn, &about, Cleanup::Pending, &evidence);
    args.world.store.run(track).await?;
    Ok(Handled::AtPatrol)
}

pub(super) fn about(hook: &Hook) -> About {
    About {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        relic: Some(hook.relic.clone()),
    }
}

/// Calls a person, and tracks the sandbox until it is settled.
async fn escalate(args: &WitnessArgs, kept: &KeptSandbox<'_>) -> Result<(), Refusal> {
    let hook = kept.hook;
    let losses = kept.refused.losses.join("\n");
    let helps = match (kept.refused.status, &kept.refused.hint) {
        (None, Some(hint)) => hint.clone(),
        _ => format!(
            "`hd raider nuke {} --salvage` saves its work and frees the slot",
            hook.raider
        ),
    };
    let about = about(hook);
    let state = match kept.refused.status {
        Some(_) => Cleanup::Pending,
        None => Cleanup::ZombieDetected,
    };
    let evidence = losses.clone();
    let track = move |txn: &mut dyn Txn| wisps::track(txn, &about, state, &evidence);
    args.world.store.run(track).await?;
    let body = Escalation::high(&hook.raider, kept.problem, format!("{losses}\n{helps}"))
        .on(kept.owns.then(|| hook.relic.clone()));
    raise(args, body).await
}
