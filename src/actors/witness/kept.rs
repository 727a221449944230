//! Sandboxes that are wanted no more and may not go as they are: a person is told, commits that are
//! nowhere else are saved at once, and all of it is saved and removed when it has lingered for `keep_dirty`
//! (`1-product.md`, "none lingers"; `witness-patrol.md`, auto-nuke safety protocol).

use crate::actors::mail::NukeTarget;

use jiff::Timestamp;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::nuke;
use super::inbox::{Handled, raise};
use super::{WitnessArgs, nuke_now, wisps};
use crate::domain::cause::Cause;
use crate::domain::message::{Escalation, Severity};
use crate::domain::nuke::CleanupStatus;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;
use crate::domain::wisp::{About, Cleanup};
use crate::ports::relics::Txn;

/// What is kept, and why it cannot go.
pub(super) struct Kept<'a> {
    /// Whose sandbox, as it was charged.
    pub(super) hook: &'a Hook,
    /// The relic is still that raider's. Otherwise it may be anybody's by now, and this is about the
    /// sandbox alone.
    pub(super) owns: bool,
    /// Since when it is wanted no more.
    pub(super) since: Timestamp,
    /// When it was found so, where a session that came since is another matter.
    pub(super) detected: Option<Timestamp>,
    /// For people.
    pub(super) problem: ProblemKind,
    /// What the safety protocol said.
    pub(super) refused: Refusal,
    /// It goes once it has been kept for `keep_dirty`. Otherwise its time is not over, however long it has been.
    pub(super) may_go: bool,
}

/// Deals with it.
///
/// # Errors
/// It could not be done.
pub(super) async fn kept(args: &WitnessArgs, kept: Kept<'_>) -> Result<Handled, Refusal> {
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
            // It cannot be saved as it is: no time makes it go.
            Err(risk) if risk.kind == RefusalKind::WorkAtRisk => stays(args, &kept).await,
            Err(error) => Err(error),
        };
    }
    keep(args, &kept).await
}

/// Keeps it: a person is told, and commits that are nowhere else are saved at once.
async fn keep(args: &WitnessArgs, kept: &Kept<'_>) -> Result<Handled, Refusal> {
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

/// A person is told, and it is judged again by the patrol.
async fn stays(args: &WitnessArgs, kept: &Kept<'_>) -> Result<Handled, Refusal> {
    tell(args, kept).await?;
    args.memory.kept.keep(&kept.hook.raider);
    Ok(Handled::AtPatrol)
}

/// What it holds does not fit beside all other salvage, which a person was told where that was measured.
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

/// Calls a person, and keeps track of it until it is settled.
async fn tell(args: &WitnessArgs, kept: &Kept<'_>) -> Result<(), Refusal> {
    let hook = kept.hook;
    let losses = kept.refused.losses.join("\n");
    let helps = match (kept.refused.status, &kept.refused.hint) {
        (None, Some(hint)) => hint.clone(),
        _ => format!(
            "`hd raider nuke {} --salvage` keeps it and frees the slot",
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
    let body = Escalation {
        agent: hook.raider.to_string(),
        relic: kept.owns.then(|| hook.relic.clone()),
        problem: kept.problem.into(),
        severity: Severity::High,
        evidence: format!("{losses}\n{helps}"),
    };
    raise(args, body).await
}
