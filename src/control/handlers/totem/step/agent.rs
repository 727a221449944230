//! `step.done` of a standing agent, for a relic that is assigned to it or to its pool.

use jiff::Timestamp;
use serde_json::Value;

use super::{Verdict, answer, close_once, handoff, refused};
use crate::actors::ask;
use crate::actors::mail::{ChildRef, ChildView};
use crate::actors::records::totems;
use crate::actors::world::World;
use crate::control::handlers::caller::own_member;
use crate::control::handlers::{names, own, standing};
use crate::control::protocol::ControlError;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::ids::{AgentName, ChildId, RelicId, SessionId};
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::domain::totem::Totem;
use crate::ports::relics::{StoreError, Txn};

/// The agent that closes a step.
struct Own {
    name: AgentName,
    /// Its own name and that of its pool, as relics are assigned.
    assignees: [String; 2],
    /// When its session began.
    session_began: Option<Timestamp>,
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
        own::afresh(world, session).await?;
        ask::hand_off(world, child, None).await?;
    }
    answer(world, closed.totem.row.relic.clone(), &closed)
}

fn own(world: &World, session: &SessionId, view: &ChildView) -> Option<Own> {
    let name = world.city.standing(session)?;
    let pool = world.city.agent_of(session)?;
    Some(Own {
        assignees: [name.to_string(), pool.name.to_string()],
        session_began: view.session.as_ref().map(|session| session.since),
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
    // The call is repeated: the supervisor was killed before the fresh session began.
    let is_due = waits_for_session(txn, own, &totem)?;
    if is_due && !step.is_done() {
        let message = format!("{id} begins in a fresh session, which has not begun");
        let hint = format!("`{hd} handoff` starts it");
        return Ok(Err(ControlError::conflict(message).hint(hint)));
    }
    let asker = Asker::agent(own.name.to_string());
    let mut closed = close_once(txn, totem, &step, note, &asker)?;
    if !closed.already && closed.totem.cycles_after(before.as_ref()) {
        let note = handoff(&closed.totem, &step, note);
        standing::put_note(txn, &own.name, note)?;
        closed.cycles = true;
    }
    closed.cycles |= is_due;
    Ok(Ok(closed))
}

/// Returns true when the agent's session began before the note that hands the present step to a fresh one.
fn waits_for_session(txn: &mut dyn Txn, own: &Own, totem: &Totem) -> Result<bool, StoreError> {
    let Some(step) = totem.present().filter(|step| step.fresh_session) else {
        return Ok(false);
    };
    let notes = txn.inbox(&message::agent(&own.name))?.into_iter().rev();
    let mut notes = notes.filter_map(|message| match message.body {
        message::Body::Handoff(note) => Some((note, message.sent_at)),
        _ => None,
    });
    let is_its = |(note, sent): (message::Handoff, Timestamp)| {
        note.totem_step.as_deref() == Some(step.relic.id.as_str())
            && own.session_began.is_some_and(|began| began < sent)
    };
    Ok(notes.next().is_some_and(is_its))
}
