//! The rights on relics that others work on: a caller that does not speak for a person ends, takes, reopens or rewrites
//! no work that a raider is hooked to.

use crate::actors::records::agent_hooks;
use crate::control::protocol::ControlError;
use crate::domain::ids::RelicId;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// The verdict of a check inside a transaction.
pub(in crate::control::handlers) type Verdict = Result<Result<(), ControlError>, StoreError>;

/// Returns the relic that a raider is hooked to for this one: a step belongs to the work on its totem's relic.
fn worked_on(txn: &mut dyn Txn, relic: &Relic) -> Result<RelicId, StoreError> {
    let of = txn.totem_of_step(&relic.id)?;
    Ok(of.unwrap_or_else(|| relic.id.clone()))
}

/// Returns the work that others have on the relic, as the beginning of a sentence; none when there is none.
fn work_of_others(txn: &mut dyn Txn, relic: &Relic) -> Result<Option<Work>, StoreError> {
    let id = &worked_on(txn, relic)?;
    if let Some(hook) = txn.hook_of_relic(id)? {
        return Ok(Some(Work {
            is_hooked: true,
            is: format!("{id} is hooked to {}", hook.raider),
        }));
    }
    if let Some(agent) = agent_hooks::holder(txn, relic)? {
        return Ok(Some(Work {
            is_hooked: true,
            is: format!("{id} is hooked to {agent}"),
        }));
    }
    waits_to_land(txn, relic)
}

fn waits_to_land(txn: &mut dyn Txn, relic: &Relic) -> Result<Option<Work>, StoreError> {
    let id = &relic.id;
    let open = txn.mrs_of(id)?.into_iter().find(|mr| !mr.is_final());
    Ok(open.map(|mr| Work {
        is_hooked: false,
        is: format!("the work on {id} waits to land ({})", mr.id),
    }))
}

struct Work {
    is_hooked: bool,
    is: String,
}

/// Checks that the caller may close the relic, and consents to the end of its work.
pub(super) fn may_close(txn: &mut dyn Txn, relic: &Relic, for_person: bool, yes: bool) -> Verdict {
    if relic.status == RelicStatus::Closed {
        return Ok(Ok(()));
    }
    if relic.kind == RelicKind::Escalation && !for_person {
        let message = format!("{} waits for a person", relic.id);
        return Ok(Err(ControlError::forbidden(message)));
    }
    let Some(work) = work_of_others(txn, relic)? else {
        return Ok(Ok(()));
    };
    let ends = match work.is_hooked {
        true => format!("{}: closing it ends that work", work.is),
        false => format!("{}: closing it withdraws the work", work.is),
    };
    Ok(match (for_person, yes) {
        (false, _) => Err(ControlError::forbidden(ends).hint("ask a person to close it")),
        (true, false) if relic.status == RelicStatus::Hooked => {
            Err(ControlError::bad_request(ends).hint("pass --yes to close it"))
        }
        (true, _) => Ok(()),
    })
}

/// Checks that a standing agent may finish the relic on its hook: work of raiders on it lands or fails by itself.
pub(in crate::control::handlers) fn may_finish(txn: &mut dyn Txn, relic: &Relic) -> Verdict {
    Ok(match waits_to_land(txn, relic)? {
        None => Ok(()),
        Some(work) => {
            let message = format!("{}: closing it withdraws the work", work.is);
            Err(ControlError::forbidden(message).hint("ask a person to close it"))
        }
    })
}

/// Checks that the caller may cancel the relic.
pub(super) fn may_cancel(txn: &mut dyn Txn, relic: &Relic, for_person: bool) -> Verdict {
    if for_person || relic.status == RelicStatus::Closed {
        return Ok(Ok(()));
    }
    Ok(match work_of_others(txn, relic)? {
        None => Ok(()),
        Some(work) => {
            let message = format!("{}: cancelling it ends that work", work.is);
            Err(ControlError::forbidden(message).hint("ask a person to cancel it"))
        }
    })
}

/// Checks that the caller may reopen the relic.
pub(super) fn may_reopen(txn: &mut dyn Txn, relic: &Relic, for_person: bool) -> Verdict {
    let id = &worked_on(txn, relic)?;
    let hook = txn.hook_of_relic(id)?;
    if let (Some(hook), false) = (&hook, for_person) {
        let message = format!("{id} is hooked to {}", hook.raider);
        return Ok(Err(
            ControlError::forbidden(message).hint("ask a person to reopen it")
        ));
    }
    if relic.status == RelicStatus::Blocked && !for_person {
        // Its counters of attempts begin again (`rules.md`, relic status).
        let message = format!("{id} is blocked until a person has looked");
        return Ok(Err(
            ControlError::forbidden(message).hint("ask a person to reopen it")
        ));
    }
    if relic.status == RelicStatus::Hooked {
        let raider = relic.assignee.clone().unwrap_or_default();
        return Err(StoreError::Conflict(format!("{id} is hooked to {raider}")));
    }
    Ok(Ok(()))
}

/// Checks that the caller may change what the work is: title, body, dependencies and parent.
pub(in crate::control::handlers) fn may_rewrite(
    txn: &mut dyn Txn,
    relic: &Relic,
    for_person: bool,
) -> Verdict {
    if for_person {
        return Ok(Ok(()));
    }
    Ok(match work_of_others(txn, relic)? {
        None => Ok(()),
        Some(work) => {
            let message = format!(
                "{}: its title, body, dependencies and parent are a person's to change",
                work.is
            );
            Err(ControlError::forbidden(message).hint("ask a person to change it"))
        }
    })
}

/// Checks that the caller may assign the relic: the assignee of a hooked one is its raider.
pub(super) fn may_assign(txn: &mut dyn Txn, relic: &Relic, for_person: bool) -> Verdict {
    let hook = txn.hook_of_relic(&relic.id)?;
    if hook.is_none() && relic.status != RelicStatus::Hooked {
        return Ok(match agent_hooks::holder(txn, relic)? {
            Some(agent) if !for_person => {
                let message = format!("{} is hooked to {agent}, which is its assignee", relic.id);
                Err(ControlError::forbidden(message).hint("ask a person to assign it"))
            }
            Some(_) | None => Ok(()),
        });
    }
    let raider = hook.map(|hook| hook.raider.to_string());
    let raider = raider
        .or_else(|| relic.assignee.clone())
        .unwrap_or_default();
    let message = format!("{} is hooked to {raider}, which is its assignee", relic.id);
    Ok(Err(match for_person {
        true => ControlError::conflict(message).hint("`hd cancel` ends that work"),
        false => ControlError::forbidden(message).hint("ask a person"),
    }))
}
