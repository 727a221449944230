//! `relic.cancel`: ends the work on a relic for good.
//!
//! ```text
//!   a raider is at it    its nuke is rehearsed ─► refused (exit 5), nothing has changed
//!                        its nuke, with salvage: the slot is freed and the relic closed in one transaction
//!   work in the queue    the merge request is withdrawn, the relic closed
//!   landed, or landing   a conflict
//!   its raider is just being charged, declared done or removed    waited for
//! ```

use std::time::Duration;

use serde_json::Value;

use super::edit::require_task;
use super::{guard, nudge_all, to_json};
use crate::actors::ask;
use crate::actors::claims::ClaimKey;
use crate::actors::mail::{Cancel, NukeTarget, Nuked, WitnessMsg};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::closing::{self, Closed};
use crate::actors::sagas::nuke;
use crate::actors::world::World;
use crate::control::handlers::{caller, names, raider};
use crate::control::protocol::answers::Cancelled;
use crate::control::protocol::args::RelicCancel;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::control::server::Caller;
use crate::domain::answers::{Rehearsed, Would};
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::ids::RelicId;
use crate::domain::merge::MrState;
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::ports::relics::{StoreError, Txn};

/// The longest wait for a raider that is just being charged, declared done or removed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of a relic that is to be cancelled.
enum Found {
    /// It is closed, or was closed by this look.
    Closed(Box<Closed>),
    /// A raider is at it.
    Hooked(Box<Hook>),
}

/// The result of one try to cancel a relic that a raider is at.
enum Tried {
    /// It is cancelled.
    Cancelled(Box<Cancelled>),
    /// Another operation is on the raider, or was a moment ago; the work is as it was. Holds what was refused.
    Busy(ControlError),
}

/// Cancels a relic.
pub(in crate::control::handlers) async fn cancel(
    world: &World,
    caller: &Caller,
    args: RelicCancel,
) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    let asker = caller::asker(world, caller).await;
    let for_person = caller::speaks_for_person(world, caller);
    let begun = world.clock.mono();
    let cancelled = loop {
        let hook = match look(world, &id, for_person, (&args, &asker)).await {
            Ok(Found::Closed(closed)) => break Ok(answer(*closed, None)),
            Ok(Found::Hooked(hook)) => hook,
            Err(refused) => break Err(refused),
        };
        match cancel_hooked(world, &id, &hook, (&args, &asker)).await {
            Ok(Tried::Cancelled(cancelled)) => break Ok(*cancelled),
            Err(refused) => break Err(refused),
            Ok(Tried::Busy(busy)) if world.clock.mono().saturating_sub(begun) >= PATIENCE => {
                break Err(still_busy(world, &hook, busy).await);
            }
            Ok(Tried::Busy(_)) => tokio::time::sleep(PAUSE).await,
        }
    };
    // Also after an error: its merge request may be withdrawn already.
    nudge_all(world);
    to_json(&cancelled?)
}

/// Cancels a relic that a raider is at.
async fn cancel_hooked(
    world: &World,
    id: &RelicId,
    hook: &Hook,
    (args, asker): (&RelicCancel, &Asker),
) -> Result<Tried, ControlError> {
    let queued = open_mrs(world, id).await?;
    names::configured(world, &hook.raider)?;
    let target = NukeTarget {
        asker: Some(asker.clone()),
        cancel: Some(Cancel {
            reason: args.reason.clone(),
        }),
        ..NukeTarget::of(hook, Cause::Operator)
    };
    // Rehearsed first, so that a refusal changes nothing, and another try costs nothing.
    match nuke::rehearse(world, &target, true).await {
        Ok(rehearsed) if rehearsed.would == Would::Refuse => {
            // Its sandbox may have been removed beneath the rehearsal.
            let refused = refused(rehearsed);
            return match has_moved(world, hook).await? {
                true => Ok(Tried::Busy(refused)),
                false => Err(refused),
            };
        }
        Ok(_) => {}
        Err(busy) if busy.kind == RefusalKind::Conflict => return Ok(Tried::Busy(busy.into())),
        Err(busy) if may_be_overtaken(&busy) && has_moved(world, hook).await? => {
            return Ok(Tried::Busy(busy.into()));
        }
        Err(other) => return Err(other.into()),
    }
    let nuked = match end_raider(world, target).await {
        Ok(nuked) => nuked,
        Err(busy) if may_be_overtaken(&busy) && has_moved(world, hook).await? => {
            return Ok(Tried::Busy(busy.into()));
        }
        Err(refused) => return Err(refused.into()),
    };
    let (id, merged) = (id.clone(), queued.clone());
    let relic = world.store.run(move |txn| {
        let relic = txn.relic(&id)?;
        // It may have landed while the raider was removed.
        for mr in &merged {
            if txn.mr(mr)?.state == MrState::Merged {
                let why = format!("{id} has landed ({mr})");
                return Err(StoreError::Conflict(why));
            }
        }
        if relic.status != RelicStatus::Closed {
            refuse_landing(txn, &id)?;
        }
        Ok(relic)
    });
    let relic = relic.await?;
    if relic.status != RelicStatus::Closed {
        let message = format!("{} changed while it was being cancelled", relic.id);
        return Err(ControlError::conflict(message).hint("try again"));
    }
    let closed = Closed {
        relic,
        withdrawn: queued,
    };
    Ok(Tried::Cancelled(Box::new(answer(closed, Some(nuked)))))
}

/// Returns true for a refusal that another operation on the raider may be the reason of: it was first, or it removed the sandbox
/// beneath a look. A removal whose judgement was outdated has ended the session and saved the work, and so would the next one; a
/// disk or a remote that fails is told at once.
fn may_be_overtaken(refusal: &Refusal) -> bool {
    match refusal.kind {
        RefusalKind::Conflict
        | RefusalKind::NotFound
        | RefusalKind::WorkAtRisk
        | RefusalKind::Internal => true,
        RefusalKind::Changed
        | RefusalKind::Unavailable
        | RefusalKind::Timeout
        | RefusalKind::Failed
        | RefusalKind::NoRoom
        | RefusalKind::BadRequest
        | RefusalKind::NoCommits
        | RefusalKind::NeedsHuman
        | RefusalKind::Parked => false,
    }
}

/// Returns true if another operation is on the raider, or the hook has changed since it was read.
async fn has_moved(world: &World, hook: &Hook) -> Result<bool, ControlError> {
    if is_leaving(world, hook).await? {
        return Ok(true);
    }
    let before = hook.clone();
    let read = world.store.run(move |txn| {
        let subject = before.raider.to_string();
        for kind in [SagaKind::Charge, SagaKind::Done] {
            if txn.saga_of(kind, &subject)?.is_some() {
                return Ok(true);
            }
        }
        let same = |now: Hook| {
            now.incarnation == before.incarnation && now.is_declared() == before.is_declared()
        };
        Ok(!txn.hook(&before.raider)?.is_some_and(same))
    });
    Ok(read.await?)
}

/// Returns true while a raider is being removed.
async fn is_leaving(world: &World, hook: &Hook) -> Result<bool, ControlError> {
    let raider = hook.raider.clone();
    if world.claims.is_claimed(&ClaimKey::Nuke(raider.clone())) {
        return Ok(true);
    }
    let saga = move |txn: &mut dyn Txn| txn.saga_of(SagaKind::Nuke, &raider.to_string());
    Ok(world.store.run(saga).await?.is_some())
}

/// Returns the error for a caller that has waited long enough.
async fn still_busy(world: &World, hook: &Hook, busy: ControlError) -> ControlError {
    match is_leaving(world, hook).await {
        Ok(true) => {
            let message = format!("{} is still being removed", hook.raider);
            ControlError::conflict(message).hint("try again when it is gone")
        }
        Ok(false) => busy,
        Err(unread) => unread,
    }
}

/// Checks that the relic may be cancelled, and closes it where no raider is at it.
async fn look(
    world: &World,
    id: &RelicId,
    for_person: bool,
    (args, asker): (&RelicCancel, &Asker),
) -> Result<Found, ControlError> {
    let (id, reason, asker) = (id.clone(), args.reason.clone(), asker.clone());
    let looked = world.store.run(move |txn| {
        let relic = txn.relic(&id)?;
        require_task(&relic)?;
        if let Err(refused) = guard::may_cancel(txn, &relic, for_person)? {
            return Ok(Err(refused));
        }
        refuse_landing(txn, &id)?;
        let hook = txn.hook_of_relic(&id)?;
        if let Some(hook) = hook.filter(|_| relic.status != RelicStatus::Closed) {
            return Ok(Ok(Found::Hooked(Box::new(hook))));
        }
        let closed = closing::close(txn, relic, reason.as_deref(), &asker)?;
        Ok(Ok(Found::Closed(Box::new(closed))))
    });
    looked.await?
}

/// Refuses what has landed, or is on its way to the target.
fn refuse_landing(txn: &mut dyn Txn, id: &RelicId) -> Result<(), StoreError> {
    match closing::landing(txn, id)? {
        None => Ok(()),
        Some(landing) => Err(StoreError::Conflict(landing.refusal(id))),
    }
}

/// Returns the merge requests of a relic that are not over.
async fn open_mrs(world: &World, id: &RelicId) -> Result<Vec<RelicId>, ControlError> {
    let id = id.clone();
    let mrs = world.store.run(move |txn| txn.mrs_of(&id)).await?;
    let open = mrs.into_iter().filter(|mr| !mr.is_final());
    Ok(open.map(|mr| mr.id).collect())
}

/// Removes the raider, with salvage, and the relic with it.
async fn end_raider(world: &World, target: NukeTarget) -> Result<Nuked, Refusal> {
    let witness = world.directory.witness(&target.raider.rig);
    let message = |reply| WitnessMsg::Nuke {
        target: Box::new(target),
        salvage: true,
        reply,
    };
    ask::ask(witness, message, raider::NUKE_LIMIT).await?
}

fn refused(rehearsed: Rehearsed) -> ControlError {
    let mut message = rehearsed
        .message
        .unwrap_or_else(|| format!("{} holds work that cannot be saved", rehearsed.raider));
    for loss in &rehearsed.losses {
        message.push_str(&format!("\n  {loss}"));
    }
    ControlError {
        kind: ErrorKind::Refused,
        message,
        hint: rehearsed.hint,
    }
}

fn answer(closed: Closed, nuked: Option<Nuked>) -> Cancelled {
    let salvage = nuked.as_ref().and_then(|nuked| nuked.salvage.clone());
    Cancelled {
        relic: closed.relic,
        nuked: nuked.map(|nuked| nuked.raider),
        salvage,
        withdrawn: closed.withdrawn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::repo::RepoError;

    /// A removal that found the judged state changed has ended the session and saved the work. A completion that is declared at that
    /// moment must not make `hd cancel` do both again.
    #[test]
    fn removal_whose_judgement_was_outdated_is_not_tried_again() {
        let of = |kind| may_be_overtaken(&Refusal::new(kind, "why"));
        assert!(!of(RefusalKind::Changed));
        assert!(
            of(RefusalKind::WorkAtRisk),
            "it may have been judged beneath a removal"
        );
        let stale = Refusal::from(RepoError::PermitStale("a file came".to_owned()));
        assert!(!may_be_overtaken(&stale), "{stale:?}");
    }
}
