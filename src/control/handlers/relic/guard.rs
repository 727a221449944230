//! The rights on relics that others work on: a caller that does not speak for a person ends, takes, reopens or rewrites
//! no work that a raider or another agent is hooked to. The steps of a totem belong to the work on its relic.

use crate::actors::records::agent_hooks;
use crate::control::protocol::ControlError;
use crate::domain::ids::AgentName;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// The verdict of a check inside a transaction.
pub(in crate::control::handlers) type Verdict = Result<Result<(), ControlError>, StoreError>;

/// The caller, as far as the rights on relics depend on it.
#[derive(Debug, Clone)]
pub(in crate::control::handlers) struct Speaker {
    /// Set when the caller may take decisions that are reserved for a person.
    pub(in crate::control::handlers) for_person: bool,
    /// The standing agent that the caller is, if it is one: the work on its own hook is not the work of others.
    pub(in crate::control::handlers) agent: Option<AgentName>,
}

/// Returns the relic whose work this one belongs to: a step belongs to the work on its totem's relic.
fn worked_on(txn: &mut dyn Txn, relic: &Relic) -> Result<Relic, StoreError> {
    match txn.totem_of_step(&relic.id)? {
        Some(of) => txn.relic(&of),
        None => Ok(relic.clone()),
    }
}

/// Returns the work that others have on the relic; none when there is none.
fn work_of_others(
    txn: &mut dyn Txn,
    relic: &Relic,
    own: Option<&AgentName>,
) -> Result<Option<Work>, StoreError> {
    let of = &worked_on(txn, relic)?;
    let id = &of.id;
    if let Some(hook) = txn.hook_of_relic(id)? {
        return Ok(Some(Work {
            is_hooked: true,
            is: format!("{id} is hooked to {}", hook.raider),
        }));
    }
    let holder = agent_hooks::holder(txn, of)?;
    if let Some(agent) = holder.filter(|agent| Some(agent) != own) {
        return Ok(Some(Work {
            is_hooked: true,
            is: format!("{id} is hooked to {agent}"),
        }));
    }
    waits_to_land(txn, of)
}

fn waits_to_land(txn: &mut dyn Txn, relic: &Relic) -> Result<Option<Work>, StoreError> {
    let id = &relic.id;
    let open = txn.mrs_of(id)?.into_iter().find(|mr| !mr.is_final());
    Ok(open.map(|mr| Work {
        is_hooked: false,
        is: format!("the work on {id} waits to land ({})", mr.id),
    }))
}

/// The work of others on a relic.
struct Work {
    is_hooked: bool,
    /// The work, as the beginning of a sentence.
    is: String,
}

/// Checks that the relic is no merge request: its state is the forge's, and the words of its relic would change nothing.
/// Once it is final, its relic may be closed.
pub(super) fn no_merge_request(txn: &mut dyn Txn, relic: &Relic, closes: bool) -> Verdict {
    if relic.kind != RelicKind::MergeRequest {
        return Ok(Ok(()));
    }
    let mr = txn.mr(&relic.id)?;
    if closes && (mr.is_final() || relic.status == RelicStatus::Closed) {
        return Ok(Ok(()));
    }
    let (id, of) = (&relic.id, &mr.relic);
    let refused = ControlError::conflict(format!("{id} is the merge request of {of}"));
    let hint = format!(
        "`hd mq reject {id} --note \"what is wrong with it\"` sends the work back, `hd cancel {of}` ends it"
    );
    Ok(Err(match mr.is_final() {
        true => refused,
        false => refused.hint(hint),
    }))
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
    // An agent ends its own work with `hd done`, and its steps with `hd step done`.
    let Some(work) = work_of_others(txn, relic, None)? else {
        return Ok(Ok(()));
    };
    let ends = match work.is_hooked {
        _ if relic.kind == RelicKind::Step => {
            format!("{}: {} is a step of that work", work.is, relic.id)
        }
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
    Ok(match work_of_others(txn, relic, None)? {
        None => Ok(()),
        Some(work) => {
            let message = format!("{}: cancelling it ends that work", work.is);
            Err(ControlError::forbidden(message).hint("ask a person to cancel it"))
        }
    })
}

/// Checks that the caller may reopen the relic.
pub(super) fn may_reopen(txn: &mut dyn Txn, relic: &Relic, speaker: &Speaker) -> Verdict {
    let (id, for_person) = (&relic.id, speaker.for_person);
    let work = work_of_others(txn, relic, speaker.agent.as_ref())?;
    if let (Some(work), false) = (work, for_person) {
        return Ok(Err(
            ControlError::forbidden(work.is).hint("ask a person to reopen it")
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

/// Checks that the relic is no step of closed work, which would stay closed.
pub(super) fn not_of_closed(txn: &mut dyn Txn, relic: &Relic) -> Verdict {
    let of = worked_on(txn, relic)?;
    let (id, of_id) = (&relic.id, &of.id);
    if id == of_id || of.status != RelicStatus::Closed {
        return Ok(Ok(()));
    }
    let message = format!("{id} is a step of {of_id}, which is closed");
    let hint =
        format!("`hd relic reopen {of_id}` opens it, with the steps that were closed with it");
    Ok(Err(ControlError::conflict(message).hint(hint)))
}

/// Checks that the caller may change what the work is: title, body, dependencies and parent.
pub(in crate::control::handlers) fn may_rewrite(
    txn: &mut dyn Txn,
    relic: &Relic,
    speaker: &Speaker,
) -> Verdict {
    if speaker.for_person {
        return Ok(Ok(()));
    }
    Ok(match work_of_others(txn, relic, speaker.agent.as_ref())? {
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
