//! `step.done`: closes a step of the caller's own totem. Where the next step begins in a fresh session, the session is
//! cycled as a handoff, with the step in its note.
//!
//! ```text
//!  one transaction: step closed, events, note for the next session ──► root: hand off ──► the next session has the step
//!                                   └─ supervisor killed here: the note waits, and a repeated call hands off
//! ```

use serde_json::Value;

use super::{no_totem, progress, refresh};
use crate::actors::ask;
use crate::actors::mail::ChildRef;
use crate::actors::records::totems;
use crate::actors::world::World;
use crate::control::handlers::caller::{own_hook, own_member};
use crate::control::handlers::{own, to_json};
use crate::control::protocol::{ControlError, answers, args};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::ids::{RelicId, SessionId};
use crate::domain::message::Handoff;
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::totem::orders;
use crate::domain::totem::{NotDone, Step, Totem};
use crate::ports::relics::{StoreError, Txn};

/// The maximum size of a note, in bytes.
const NOTE_MAX: usize = 4 * 1024;

/// A step that was closed.
struct Closed {
    step: RelicId,
    already: bool,
    /// Set when the session must be cycled.
    cycles: bool,
    totem: Totem,
}

/// The result inside a transaction: a refusal that changes nothing, or the closed step.
type Verdict = Result<Result<Closed, ControlError>, StoreError>;

pub(super) async fn done(
    world: &World,
    caller: &Caller,
    args: args::StepDone,
) -> Result<Value, ControlError> {
    let note = args.message.filter(|note| !note.trim().is_empty());
    if note.as_ref().is_some_and(|note| note.len() > NOTE_MAX) {
        let message = format!("the note is longer than {} KiB", NOTE_MAX / 1024);
        return Err(ControlError::bad_request(message).hint("commit the details, or shorten it"));
    }
    if let CallerRole::Agent(session) = &caller.who {
        own_member(world, caller).await?;
        return by_agent(world, session, args.id, note).await;
    }
    let hook = own_hook(world, caller).await?;
    if hook.done.is_some() {
        return Err(ControlError::conflict(
            "the work is done; its steps are over",
        ));
    }
    let hd = world.hd();
    let (own, id) = (hook.clone(), args.id);
    let closed = world
        .store
        .run(move |txn| close(txn, &own, id.as_deref(), note.as_deref(), &hd));
    let closed = closed.await??;
    refresh(world, &hook).await;
    if closed.cycles {
        cycle(world, &hook).await?;
    }
    answer(world, hook.relic, &closed)
}

fn answer(world: &World, relic: RelicId, closed: &Closed) -> Result<Value, ControlError> {
    let mut progress = progress(&closed.totem, &world.hd());
    if closed.cycles {
        let next = progress.next.first();
        let next = next.map_or_else(String::new, |next| format!("{}: {}", next.id, next.title));
        progress.text = format!(
            "{} is done. The next step begins in a fresh session, which starts now: {next}. Stop here.",
            closed.step
        );
    }
    to_json(&answers::StepDone {
        relic,
        step: closed.step.clone(),
        already: closed.already,
        handoff: closed.cycles,
        progress,
    })
}

/// Starts the fresh session of the next step.
async fn cycle(world: &World, hook: &Hook) -> Result<(), ControlError> {
    let progress = own::shown_for(world, hook).await;
    own::afresh(world, &hook.raider.session_id()).await?;
    let meant = ChildRef::raider(&hook.raider, hook.incarnation);
    ask::hand_off(world, meant, progress).await?;
    Ok(())
}

fn close(
    txn: &mut dyn Txn,
    hook: &Hook,
    id: Option<&str>,
    note: Option<&str>,
    hd: &str,
) -> Verdict {
    let now = txn.hook(&hook.raider)?;
    let now = now.filter(|now| now.incarnation == hook.incarnation);
    if now.is_none_or(|now| now.done.is_some()) {
        let why = "the work is done; its steps are over";
        return Err(StoreError::Conflict(why.to_owned()));
    }
    let Some(totem) = totems::read(txn, &hook.relic)? else {
        return Ok(Err(no_totem(&hook.relic)));
    };
    let before = totem.present().map(|step| step.relic.id.clone());
    let waiting = totems::handed_off(txn, &hook.raider, &hook.relic)?;
    if let (Some(waiting), Some(present)) = (&waiting, &before)
        && waiting == present.as_str()
        && totem.present().is_some_and(|step| step.fresh_session)
    {
        // The session that has this step has not begun: the call that closed the one before is repeated.
        return Ok(Ok(Closed {
            step: last_closed(&totem).unwrap_or_else(|| present.clone()),
            already: true,
            cycles: true,
            totem,
        }));
    }
    let step = match totem.to_close(id) {
        Ok(step) => step.clone(),
        Err(why) => return Ok(Err(refused(&totem, why, id, hd))),
    };
    let asker = Asker::agent(hook.raider.to_string());
    let closed = close_once(txn, totem, &step, note, &asker)?;
    if closed.already || !closed.totem.cycles_after(before.as_ref()) {
        return Ok(Ok(closed));
    }
    let next = closed.totem.present().map(|next| next.relic.id.to_string());
    let done = format!("{} ({}) is done.", step.relic.id, step.relic.title);
    let handoff = Handoff {
        note: Some(note.map_or_else(|| done.clone(), |note| format!("{done} {note}"))),
        relic: Some(hook.relic.clone()),
        totem_step: next,
        resume: false,
    };
    totems::send_handoff(txn, &hook.raider, handoff)?;
    Ok(Ok(Closed {
        cycles: true,
        ..closed
    }))
}

/// Closes a step, unless it is closed.
fn close_once(
    txn: &mut dyn Txn,
    totem: Totem,
    step: &Step,
    note: Option<&str>,
    asker: &Asker,
) -> Result<Closed, StoreError> {
    let already = step.is_done();
    let totem = match already {
        true => totem,
        false => totems::close_step(txn, &totem, step, note, asker)?,
    };
    Ok(Closed {
        step: step.relic.id.clone(),
        already,
        cycles: false,
        totem,
    })
}

fn last_closed(totem: &Totem) -> Option<RelicId> {
    let closed = totem.steps.iter().filter(|step| step.is_done());
    let last = closed.max_by_key(|step| step.relic.closed);
    last.map(|step| step.relic.id.clone())
}

/// Explains why a step cannot be closed.
fn refused(totem: &Totem, why: NotDone, id: Option<&str>, hd: &str) -> ControlError {
    let relic = &totem.row.relic;
    match why {
        NotDone::NoSuchStep => {
            let message = format!("{relic} has no step {}", id.unwrap_or_default());
            ControlError::not_found(message).hint(format!("`{hd} totem show {relic}` lists them"))
        }
        NotDone::Waits(step, waits) => {
            let waits: Vec<_> = waits.iter().map(ToString::to_string).collect();
            let what = match waits.is_empty() {
                true => "a person".to_owned(),
                false => waits.join(", "),
            };
            ControlError::conflict(format!("{step} waits for {what}"))
        }
        NotDone::NoneReady(_) => ControlError::conflict(orders::waiting(totem, hd)),
        NotDone::AllDone => {
            let message = format!("every step of {relic} is done");
            ControlError::conflict(message).hint(orders::finished(hd))
        }
    }
}

/// Closes a step of a relic that is assigned to a standing agent, or to its pool. The step must be named: the agent may
/// have several such relics.
async fn by_agent(
    world: &World,
    session: &SessionId,
    id: Option<String>,
    note: Option<String>,
) -> Result<Value, ControlError> {
    let Some(id) = id else {
        let message = "an agent must name the step";
        return Err(ControlError::bad_request(message).hint("`hd totem show RELIC` lists them"));
    };
    let id = crate::control::handlers::names::relic(&id)?;
    let agent = world.city.standing(session).map(|name| name.to_string());
    let pool = world.city.agent_of(session);
    let pool = pool.map(|agent| agent.name.to_string());
    let (Some(agent), Some(pool)) = (agent, pool) else {
        return Err(ControlError::forbidden("this agent is not configured"));
    };
    let hd = world.hd();
    let closed = world.store.run(move |txn| {
        let of = txn.totem_of_step(&id)?;
        let totem = of.map(|of| totems::read(txn, &of)).transpose()?.flatten();
        let Some(totem) = totem else {
            let message = format!("{id} is not a step of a totem");
            return Ok(Err(ControlError::not_found(message)));
        };
        let relic = txn.relic(&totem.row.relic)?;
        let is_own = relic.status == RelicStatus::Open
            && relic.assignee.is_some_and(|it| it == agent || it == pool);
        if !is_own {
            let message = format!("{} is not assigned to {agent}", relic.id);
            return Ok(Err(ControlError::forbidden(message).hint(
                "an agent closes only steps of relics that are assigned to it or its pool",
            )));
        }
        let step = match totem.to_close(Some(id.as_str())) {
            Ok(step) => step.clone(),
            Err(why) => return Ok(Err(refused(&totem, why, Some(id.as_str()), &hd))),
        };
        let asker = Asker::agent(agent.clone());
        close_once(txn, totem, &step, note.as_deref(), &asker).map(Ok)
    });
    let closed = closed.await??;
    answer(world, closed.totem.row.relic.clone(), &closed)
}
