//! `nuke`: the only way to remove a sandbox and free its slot (`raider-lifecycle.md`, slot layer;
//! `docs/architecture.md`, removal of a sandbox).
//!
//! ```text
//!  measure ─► judge ─► session ends, intent ─► measure, judge ─► [salvage] ─► measure ─► trash ─► slot free
//!               │                                         │                       │
//!               └── refused: nothing has changed          └───────────────────────┴── changed meanwhile:
//!                                                                                     kept, nothing is lost
//! ```
//!
//! Without a running session the first two measurements are one. `permit/` measures and judges, `save/` writes salvage,
//! `aftercare/` deals with the relic and with failures; the removal itself is here.

mod aftercare;
mod permit;
mod save;

use std::time::Duration;

use crate::actors::mail::NukeTarget;
use crate::actors::mail::Nuked;
use serde::{Deserialize, Serialize};

use super::super::claims::{Claim, ClaimKey};
use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::super::{ask, effects};
use super::{claimed, pack, unpack};
use crate::actors::records::escalations::{self, Ends};
use crate::actors::records::{hooks, withdrawals};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::Probed;
use crate::domain::ids::{Oid, RelicId};
use crate::domain::ignored::Ignored;
use crate::domain::message::{self, Escalation};
use crate::domain::nuke::CleanupStatus;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::ports::relics::{SalvageEntry, StoreError, Txn};
use crate::ports::repo::Measurement;
use crate::ports::tasks::TaskFiles;

use aftercare::{failures, hookless, reopen};
pub use permit::ignored::named;
use permit::judgement::Rest;
pub use permit::judgement::{Judged, check, permitted, savable};
pub use permit::measure::{facts, unreadable};
use permit::measure::{facts_of, measure, saved_unasked};
pub use permit::rehearse::rehearse;
use permit::verdict::{at_risk, probe, probe_with};
use permit::{ignored, missing};
pub use save::salvage::safekeep;
pub(super) use save::salvage::write_salvage;
use save::{quota, salvage};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    target: NukeTarget,
    salvage: bool,
    /// Number of transient failures.
    #[serde(default)]
    tries: u32,
    /// Ignored files that are removed with the sandbox, recorded because they cannot be listed afterwards.
    #[serde(default)]
    ignored: Ignored,
}

/// Fences a nuke to its incarnation: while the claim is held, no other task frees the slot, so no successor of the same
/// name can be removed instead.
///
/// # Errors
/// [`RefusalKind::Conflict`] when a nuke is under way, or the slot has gone to another incarnation.
pub async fn fence(world: &World, target: &NukeTarget, salvage: bool) -> Result<Claim, Refusal> {
    let claim = world
        .claims
        .claim(fenced(target))
        .ok_or_else(|| busy(target))?;
    admitted(world, target, salvage).await?;
    Ok(claim)
}

/// Waits, for a minute at most, while another task holds the claim. The witness claims a sandbox also to judge it, and
/// usually keeps it; a nuke that is requested meanwhile must not be refused for that.
pub async fn turn(world: &World, target: &NukeTarget) {
    /// Interval between two checks of the claim.
    const PAUSE: Duration = Duration::from_millis(50);
    const LIMIT: Duration = Duration::from_secs(60);
    let free = async {
        while world.claims.is_claimed(&fenced(target)) && !is_removing(world, target).await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    // The claim that is still held then refuses.
    let _freed = tokio::time::timeout(LIMIT, free).await;
}

/// Returns true when the other task removes the sandbox already: nothing is left to ask for.
async fn is_removing(world: &World, target: &NukeTarget) -> bool {
    let raider = target.raider.to_string();
    let open = move |txn: &mut dyn Txn| txn.saga_of(SagaKind::Nuke, &raider);
    // An unreadable store fails the request itself.
    world.store.run(open).await.is_ok_and(|saga| saga.is_some())
}

fn fenced(target: &NukeTarget) -> ClaimKey {
    ClaimKey::Nuke(target.raider.clone())
}

fn busy(target: &NukeTarget) -> Refusal {
    Refusal::conflict(format!("{} is being nuked", target.raider))
}

async fn admitted(world: &World, target: &NukeTarget, salvage: bool) -> Result<(), Refusal> {
    let (raider, incarnation) = (target.raider.clone(), target.incarnation);
    let (hook, saga) = world
        .store
        .run(move |txn| {
            let subject = raider.to_string();
            let mut open = None;
            for kind in [SagaKind::Charge, SagaKind::Done, SagaKind::Nuke] {
                open = open.or(txn.saga_of(kind, &subject)?);
            }
            Ok((txn.hook(&raider)?, open))
        })
        .await?;
    match saga {
        Some(saga) if saga.kind == SagaKind::Nuke => return Err(busy(target)),
        Some(saga) if saga.is_pushing() && gives_up(target, salvage) => {}
        Some(saga) => {
            let (raider, kind) = (&target.raider, saga.kind.as_str());
            let message = format!("{raider} is busy: {kind} is running");
            let refusal = Refusal::conflict(message);
            let hint = "`--salvage` saves its work and abandons the branch";
            let pushing = saga.is_pushing();
            return Err(if pushing { refusal.hint(hint) } else { refusal });
        }
        None => {}
    }
    let own = match hook {
        Some(hook) => hook.incarnation == incarnation,
        // The incarnation of a sandbox without hook is recorded in the sandbox.
        None => is_of(world, target).await?,
    };
    if !own {
        let message = format!("incarnation {incarnation} of {} is gone", target.raider);
        return Err(Refusal::conflict(message));
    }
    Ok(())
}

/// Returns true when the sandbox exists and records that incarnation.
async fn is_of(world: &World, target: &NukeTarget) -> Result<bool, Refusal> {
    let sandbox = world.city.sandbox(&target.raider);
    let rig = &target.raider.rig;
    let origin = effects::repo(world, rig, move |repo| repo.provenance(&sandbox)).await?;
    Ok(origin.is_some_and(|origin| origin.incarnation == target.incarnation))
}

/// Returns true when this nuke withdraws a completion that is still being pushed: an operator asked for it, and salvage
/// keeps the commits.
fn gives_up(target: &NukeTarget, salvage: bool) -> bool {
    salvage && target.cause == Cause::Operator
}

/// Opens the saga of a judged removal. The saga judges again once no session runs; what is at risk then is written to
/// salvage refs only if that was requested (commits that the agent left behind are salvaged in any case).
///
/// # Errors
/// [`RefusalKind::Conflict`] while another operation is on the raider.
pub async fn begin(world: &World, judged: &Judged) -> Result<(Saga, Claim), Refusal> {
    let (target, salvage) = (judged.target.clone(), judged.salvage);
    world.at(FaultPoint::NukeIntentBefore);
    let (rig, subject) = (target.raider.rig.clone(), target.raider.to_string());
    let data = pack(&Plan {
        target: target.clone(),
        salvage,
        tries: 0,
        ignored: Ignored::default(),
    });
    let claims = world.claims.clone();
    let begun = world
        .store
        .run(move |txn| {
            if let Some(hook) = txn.hook(&target.raider)? {
                still_so(txn, &target, &hook)?;
            }
            if gives_up(&target, salvage) {
                withdrawals::withdraw(txn, &target.raider, target.cause)?;
            }
            for kind in [SagaKind::Charge, SagaKind::Done] {
                if txn.saga_of(kind, &subject)?.is_some() {
                    let why = format!("{subject} is busy: {} is running", kind.as_str());
                    return Err(StoreError::Conflict(why));
                }
            }
            let saga = txn.open_saga(SagaKind::Nuke, &rig, &subject, "intent", &data)?;
            claimed(&claims, saga)
        })
        .await?;
    world.at(FaultPoint::NukeIntentAfter);
    Ok(begun)
}

/// Refuses a removal that was decided on a hook state that has changed.
fn still_so(txn: &mut dyn Txn, target: &NukeTarget, hook: &Hook) -> Result<(), StoreError> {
    let raider = &target.raider;
    let changed = if hook.is_declared() != target.done {
        "was finished or reopened"
    } else if target.cause == Cause::RelicClosed
        && txn.relic(&hook.relic)?.status != RelicStatus::Closed
    {
        "has a relic that was reopened"
    } else {
        return Ok(());
    };
    let why = format!("{raider} {changed} after this was decided");
    Err(StoreError::Conflict(why))
}

/// Calls a person about a removal that does not succeed; over when the sandbox is gone.
async fn call(
    world: &World,
    target: &NukeTarget,
    (problem, relic): (ProblemKind, Option<RelicId>),
    evidence: String,
) -> Result<(), Refusal> {
    let body = Escalation::high(&target.raider, problem, evidence).on(relic);
    let from = message::witness(&target.raider.rig);
    escalations::call(world, &from, Ends::WithSandbox, body).await
}

/// Runs the saga to its end from its current step. `judged` is the judgement that it was just begun with.
///
/// # Errors
/// Why the sandbox was kept. The saga is closed then, except after a transient failure.
pub async fn run(world: &World, mut saga: Saga, judged: Option<Judged>) -> Result<Nuked, Refusal> {
    let mut plan: Plan = unpack(&saga)?;
    let rest = judged.and_then(|judged| judged.rest);
    match forward(world, &mut saga, &mut plan, rest).await {
        Ok(nuked) => Ok(nuked),
        Err(failure) if world.is_stopping() => Err(failure),
        Err(failure) if failure.is_passing() => {
            or_warn!(
                failures::count(world, &mut saga, plan, &failure).await,
                saga = saga.id,
                "the failure of a nuke could not be counted; the nuke is retried, its escalation comes later"
            );
            Err(failure)
        }
        Err(failure) if failure.kind == RefusalKind::Changed => {
            failures::changed(world, saga.id, &plan.target, &failure).await?;
            Err(failure)
        }
        Err(failure) => {
            let id = saga.id;
            world.store.run(move |txn| txn.close_saga(id)).await?;
            Err(failure)
        }
    }
}

async fn forward(
    world: &World,
    saga: &mut Saga,
    plan: &mut Plan,
    rest: Option<Rest>,
) -> Result<Nuked, Refusal> {
    ask::end(world, plan.target.child_ref(), plan.target.order()).await?;
    let still = match rest {
        Some(rest) => rest.still(world, &plan.target).await,
        None => None,
    };
    // No session runs from here on; any write to the sandbox makes the permit stale.
    let measured = match still {
        Some(measured) => Probed::Known(Some(measured)),
        None => measure(world, &plan.target).await?,
    };
    ignored::record(world, saga, plan, &measured).await?;
    let target = &plan.target;
    discard(world, target, plan.salvage, measured).await?;
    forget(world, target).await;
    let stashes = missing::stashes(world, target).await;
    world.at(FaultPoint::NukeReleaseBefore);
    let (salvage, damaged) = release(world, saga.id, plan).await?;
    world.at(FaultPoint::NukeReleaseAfter);
    effects::empty_trash(world);
    let raider = target.raider.clone();
    Ok(Nuked {
        raider,
        incarnation: target.incarnation,
        salvage,
        damaged,
        stashes,
        ignored: plan.ignored.clone(),
    })
}

/// Removes the sandbox of a charge that is being unwound; salvages it when it holds anything.
///
/// # Errors
/// Why the sandbox was kept.
pub async fn remove(world: &World, target: &NukeTarget) -> Result<(), Refusal> {
    let measured = measure(world, target).await?;
    discard(world, target, true, measured).await?;
    forget(world, target).await;
    effects::empty_trash(world);
    Ok(())
}

/// Salvages when needed and allowed, judges the measurement taken since no session runs, and removes the sandbox.
async fn discard(
    world: &World,
    target: &NukeTarget,
    salvage: bool,
    measured: Probed<Option<Measurement>>,
) -> Result<(), Refusal> {
    let Some(git) = facts_of(measured).transpose() else {
        // The directory is gone: an earlier attempt was interrupted after the rename, or it was deleted by hand.
        missing::keep(world, target, salvage).await?;
        let (sandbox, raider) = (world.city.sandbox(&target.raider), target.raider.clone());
        let incarnation = target.incarnation;
        effects::repo_for(
            world,
            &target.raider.rig,
            effects::WorkKind::Sandbox,
            move |repo| repo.forget_sandbox(&sandbox, &raider, incarnation),
        )
        .await?;
        return Ok(());
    };
    let salvage = salvage
        || match git.known() {
            Some(git) => saved_unasked(world, target, git).await,
            None => false,
        };
    // Salvage keeps git's contents; it does not help against a session that may still run.
    let holds = match &git {
        Probed::Known(git) => CleanupStatus::measured(git) != CleanupStatus::Clean,
        Probed::Unknown(_) => true,
    };
    let (permit, salvaged) = match probe_with(world, target, git, None).await {
        Ok(permit) => (permit, false),
        Err(refused) if salvage && holds && refused.kind == RefusalKind::WorkAtRisk => {
            let facts = salvage::save(world, target).await?;
            (probe(world, target, Some(facts)).await?, true)
        }
        Err(refused) => return Err(refused),
    };
    let Some(permit) = permit else {
        return Ok(());
    };
    if !salvaged {
        salvage::keep_unheld(world, target, &permit.git().head).await?;
    }
    effects::discard(world, permit).await?;
    world.directory.sandboxes.note(&target.raider.rig);
    Ok(())
}

/// Frees the slot in one transaction: hook dropped, relic settled, saga closed. Returns the salvage's id from its row,
/// because an earlier attempt may have written it, and the commits that it holds in part.
async fn release(
    world: &World,
    saga: u64,
    plan: &Plan,
) -> Result<(Option<String>, Vec<Oid>), Refusal> {
    let (target, ignored) = (plan.target.clone(), plan.ignored.clone());
    let released = world.store.run(move |txn| {
        let (rig, name) = (&target.raider.rig, &target.raider.name);
        let own = |entry: &SalvageEntry| {
            (&entry.rig, &entry.raider, entry.incarnation) == (rig, name, target.incarnation)
        };
        let kept = txn.salvages()?.into_iter().rfind(own);
        let hook = txn.hook(&target.raider)?;
        let held = hooks::drop_hook(txn, &target.raider, target.incarnation)?;
        match hook {
            Some(hook) if held => reopen::settle(txn, &target, &hook.relic, kept.as_ref())?,
            Some(_) => {}
            None => hookless::reopen(txn, &target, kept.as_ref())?,
        }
        let work = kept.as_ref().and_then(|entry| entry.work.as_ref());
        let damaged = work.map(|work| work.damaged.clone()).unwrap_or_default();
        let salvage = kept.map(|entry| entry.id);
        let mut data = ignored.beside(serde_json::json!({
            "incarnation": target.incarnation, "relic": target.relic, "salvage": salvage,
        }));
        if !damaged.is_empty() {
            data["damaged"] = serde_json::json!(damaged);
        }
        let event = NewEvent::new(EventType::RaiderNuked, &target.raider, target.origin());
        txn.record(&event.with(data))?;
        txn.close_saga(saga)?;
        failures::forget(txn, &target.raider)?;
        Ok((salvage, damaged))
    });
    let kept = released.await?;
    world.nudge(message::SHAMAN);
    Ok(kept)
}

/// Forgets the session's record and stops watching the task files; failures are harmless.
async fn forget(world: &World, target: &NukeTarget) {
    let session = target.raider.session_id();
    let id = session.clone();
    if let Err(error) = effects::sessions(world, &session, move |p| p.forget(&id)).await {
        tracing::debug!(
            %error,
            "the record of an ended session could not be removed; it is left behind"
        );
    }
    if let Some(relic) = &target.relic {
        let dir = world
            .city
            .task_dir(&target.raider, relic, target.incarnation);
        let owner = effects::Owner::Rig(target.raider.rig.clone());
        let unwatch = move |tasks: &dyn TaskFiles| {
            tasks.unwatch(&dir);
            Ok(())
        };
        or_warn!(effects::tasks(world, owner, unwatch).await, raider = %target.raider,
            "the watch on the task directory of a removed raider could not be ended; it ends with the supervisor");
    }
}
