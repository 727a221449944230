//! `step.done` of a standing agent, for a relic that is assigned to it or to its pool.

use serde_json::Value;

use super::{Verdict, answer, close_once, handoff, last_closed, refused};
use crate::actors::ask;
use crate::actors::mail::{ChildRef, ChildView};
use crate::actors::records::{agent_hooks, totems};
use crate::actors::world::World;
use crate::control::handlers::caller::own_member;
use crate::control::handlers::{names, session_verbs, standing};
use crate::control::protocol::ControlError;
use crate::control::server::Caller;
use crate::domain::agent_hook::{AgentHook, HandedStep};
use crate::domain::asker::Asker;
use crate::domain::ids::{AgentName, ChildId, RelicId, SessionId};
use crate::domain::relic::RelicStatus;
use crate::domain::totem::Totem;
use crate::ports::relics::Txn;

/// The agent that closes a step.
struct Own {
    name: AgentName,
    /// Its own name and that of its pool, as relics are assigned.
    assignees: [String; 2],
    /// The token of its session.
    session: Option<String>,
}

/// Closes a step. It must be named: the agent may have several relics with steps.
pub(super) async fn done(
    world: &World,
    caller: &Caller,
    session: &SessionId,
    id: Option<String>,
    note: Option<String>,
) -> Result<Value, ControlError> {
    own_member(world, caller).await?;
    let Some(id) = id else {
        let message = "an agent must name the step";
        return Err(ControlError::bad_request(message).hint("`hd totem show RELIC` lists them"));
    };
    let id = names::relic(&id)?;
    let views = ask::views(world).await?;
    let view = views.into_iter().find(|view| view.spec.session == *session);
    let own = view.as_ref().and_then(|view| own(world, session, view));
    let Some(own) = own else {
        return Err(ControlError::forbidden("this agent is not configured"));
    };
    let child = ChildRef::any(ChildId::Agent(own.name.clone()), session.clone());
    let hd = world.hd();
    let closed = world
        .store
        .run(move |txn| close(txn, &own, &id, note.as_deref(), &hd));
    let closed = closed.await??;
    if closed.cycles {
        session_verbs::afresh(world, session).await?;
        ask::hand_off(world, child, None).await?;
    }
    answer(world, closed.totem.row.relic.clone(), &closed)
}

fn own(world: &World, session: &SessionId, view: &ChildView) -> Option<Own> {
    let name = world.city.standing(session)?;
    let pool = world.city.agent_of(session)?;
    Some(Own {
        assignees: [name.to_string(), pool.name.to_string()],
        session: view.session.as_ref().map(|it| it.handle.token.clone()),
        name,
    })
}

fn close(txn: &mut dyn Txn, own: &Own, id: &RelicId, note: Option<&str>, hd: &str) -> Verdict {
    let of = txn.totem_of_step(id)?;
    let totem = of.map(|of| totems::read(txn, &of)).transpose()?.flatten();
    let Some(totem) = totem else {
        let message = format!("{id} is not a step of a totem");
        return Ok(Err(ControlError::not_found(message)));
    };
    let relic = txn.relic(&totem.row.relic)?;
    let is_assigned = |to: String| own.assignees.contains(&to);
    if relic.status != RelicStatus::Open || !relic.assignee.is_some_and(is_assigned) {
        let message = format!("{} is not assigned to {}", relic.id, own.name);
        return Ok(Err(ControlError::forbidden(message).hint(
            "an agent closes only steps of relics that are assigned to it or its pool",
        )));
    }
    let before = totem.present().map(|step| step.relic.id.clone());
    let step = match totem.to_close(Some(id.as_str())) {
        Ok(step) => step.clone(),
        Err(why) => return Ok(Err(refused(&totem, why, Some(id.as_str()), hd))),
    };
    let hook = agent_hooks::held(txn, &own.name)?;
    let hook = hook.filter(|(_, held)| held.id == relic.id);
    // The supervisor was killed before the fresh session began.
    let is_due = hook
        .as_ref()
        .is_some_and(|(hook, _)| waits(own, hook, &totem));
    if is_due && !step.is_done() {
        let message = format!("{id} begins in a fresh session, which has not begun");
        let last = last_closed(&totem).unwrap_or_else(|| id.clone());
        let hint = format!("`{hd} step done {last}`, once more, starts it");
        return Ok(Err(ControlError::conflict(message).hint(hint)));
    }
    let asker = Asker::agent(own.name.to_string());
    let mut closed = close_once(txn, totem, &step, note, &asker)?;
    closed.cycles = is_due;
    let next = closed.totem.present().map(|next| next.relic.id.clone());
    if let (Some((hook, _)), Some(next), Some(token)) = (hook, next, &own.session)
        && !closed.already
        && closed.totem.cycles_after(before.as_ref())
    {
        standing::put_note(txn, &own.name, handoff(&closed.totem, &step, note))?;
        let handed = HandedStep {
            step: next,
            closed_by: token.clone(),
        };
        agent_hooks::hand_step(txn, &own.name, hook, handed)?;
        closed.cycles = true;
    }
    Ok(Ok(closed))
}

/// Returns true when the present step is for another session than that of the agent.
fn waits(own: &Own, hook: &AgentHook, totem: &Totem) -> bool {
    let present = totem.present().map(|step| &step.relic.id);
    let handed = hook.handed.as_ref();
    handed.is_some_and(|handed| {
        Some(&handed.step) == present && Some(&handed.closed_by) == own.session.as_ref()
    })
}
