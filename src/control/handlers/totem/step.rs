//! `step.done`: closes a step of the caller's own totem. Where the next step begins in a fresh session, the session is
//! cycled as a handoff, with the step in its note.
//!
//! ```text
//!  one transaction: step closed, events, note for the next session ──► root: hand off ──► the next session has the step
//!                                   └─ supervisor killed here: the note waits, and a repeated call hands off
//! ```

mod agent;

use serde_json::Value;

use super::{no_totem, progress, refresh};
use crate::actors::ask;
use crate::actors::mail::ChildRef;
use crate::actors::records::{handoffs, totems};
use crate::actors::world::World;
use crate::control::handlers::caller::own_hook;
use crate::control::handlers::{session_verbs, to_json};
use crate::control::protocol::{ControlError, answers, args};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::ids::RelicId;
use crate::domain::message::Handoff;
use crate::domain::relic::Hook;
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
        return agent::done(world, caller, session, args.id, note).await;
    }
    let hook = own_hook(world, caller).await?;
    if hook.is_declared() {
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
        // It is the next session's, which reads it itself.
        progress.next.iter_mut().for_each(|next| next.body = None);
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
    let progress = session_verbs::shown_for(world, hook).await;
    session_verbs::afresh(world, &hook.raider.session_id()).await?;
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
    if now.is_none_or(|now| now.is_declared()) {
        let why = "the work is done; its steps are over";
        return Err(StoreError::Conflict(why.to_owned()));
    }
    let Some(totem) = totems::read(txn, &hook.relic)? else {
        return Ok(Err(no_totem(&hook.relic)));
    };
    let before = totem.present().map(|step| step.relic.id.clone());
    let waiting = handoffs::handed_off(txn, hook)?;
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
    let handoff = handoff(&closed.totem, &step, note);
    handoffs::send(txn, hook, handoff)?;
    Ok(Ok(Closed {
        cycles: true,
        ..closed
    }))
}

/// Returns the note for the session that begins the step which is present after this one.
fn handoff(totem: &Totem, done: &Step, note: Option<&str>) -> Handoff {
    let done = format!("{} ({}) is done.", done.relic.id, done.relic.title);
    Handoff {
        note: Some(note.map_or_else(|| done.clone(), |note| format!("{done} {note}"))),
        relic: Some(totem.row.relic.clone()),
        incarnation: None,
        totem_step: totem.present().map(|next| next.relic.id.to_string()),
        resume: false,
    }
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
        NotDone::NotBegun(step, present) => {
            let message = format!("{step} begins in a fresh session, after {present}");
            let hint = format!("`{hd} step done {present}` closes the present step");
            ControlError::conflict(message).hint(hint)
        }
        NotDone::NoneReady(_) => ControlError::conflict(orders::waiting(totem, hd)),
        NotDone::AllDone => {
            let message = format!("every step of {relic} is done");
            ControlError::conflict(message).hint(orders::finished(hd))
        }
    }
}
