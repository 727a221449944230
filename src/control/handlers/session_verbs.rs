//! Verbs of a session about itself: `done`, `handoff`, `wait`, `rally`, `hook`. The caller is identified by its
//! process, never by its arguments.

mod rally;

pub(super) use self::rally::rally;

use std::path::PathBuf;

use serde_json::Value;

use super::caller::{own_hook, own_member};
use super::{standing, to_json};
use crate::actors::conversation;
use crate::actors::declared::{check_reason, parse_args};
use crate::actors::mail::{self, ChildRef, WitnessMsg};
use crate::actors::records::{handoffs, refused_done, stalls, totems};
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::actors::{ask, effects};
use crate::control::protocol::{ControlError, answers, args};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::facts::GitFacts;
use crate::domain::handoff::{self, Progress};
use crate::domain::ids::{ChildId, SessionId};
use crate::domain::message::Handoff;
use crate::domain::relic::{Completion, Hook};
use crate::domain::stall::Wait;
use crate::ports::relics::Txn;
use crate::ports::sessions::{SessionError, SessionHandle};

/// The limit of `done`: git may have to look at a large tree.
const DONE_LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

/// `done`: returns when the intent is durable, before the session is ended.
pub(super) async fn done(
    world: &World,
    caller: &Caller,
    args: &args::Done,
) -> Result<Value, ControlError> {
    if let Some(misfit) = args.misfit() {
        return Err(ControlError::bad_request(misfit));
    }
    if let CallerRole::Agent(session) = &caller.who {
        return standing::done(world, caller, session, args).await;
    }
    let hook = own_hook(world, caller).await?;
    let accepted = declare(world, &hook, args, false).await?;
    let is_open = args.status == Completion::Deferred && args.until.is_none();
    let note = is_open.then(|| {
        format!(
            "it is deferred without a time, so it waits until a person reopens it: hd relic reopen {}; \
             `hd done --status deferred --until T` names a time",
            hook.relic
        )
    });
    to_json(&answers::Done::Raider(declared(accepted, note)))
}

/// `review stuck`: declares that the raider is stuck, with the round of its self-review.
pub(super) async fn stuck(
    world: &World,
    caller: &Caller,
    args: &args::Done,
) -> Result<(), ControlError> {
    let hook = own_hook(world, caller).await?;
    declare(world, &hook, args, true).await.map(drop)
}

async fn declare(
    world: &World,
    hook: &Hook,
    args: &args::Done,
    is_stuck_review: bool,
) -> Result<mail::Accepted, ControlError> {
    let mut request = parse_args(hook.raider.clone(), &to_json(args)?, world.clock.now())?;
    request.incarnation = Some(hook.incarnation);
    request.is_stuck_review = is_stuck_review;
    let witness = world.directory.witness(&hook.raider.rig);
    let message = |reply| WitnessMsg::Done(request, reply);
    let declared = ask::ask(witness, message, DONE_LIMIT).await?;
    // `hd` saves what may be accepted later.
    if let Err(refused) = declared.as_ref()
        && !refused.is_passing()
    {
        let (own, why) = (hook.clone(), refused.clone());
        let noted = world
            .store
            .run(move |txn| refused_done::record(txn, &own, &why));
        if let Err(error) = noted.await {
            tracing::warn!(raider = %hook.raider, %error, "the refusal of a completion could not be journalled; its agent was told the reason");
        }
    }
    Ok(declared?)
}

/// Returns the answer to an accepted completion.
fn declared(accepted: mail::Accepted, note: Option<String>) -> answers::RaiderDone {
    answers::RaiderDone {
        raider: accepted.raider,
        incarnation: accepted.incarnation,
        relic: accepted.relic,
        branch: accepted.branch,
        head: accepted.head,
        exit: accepted.exit,
        already: accepted.already,
        may_be_reviewed: accepted.may_be_reviewed,
        note,
    }
}

/// `handoff`: a note for the successor, then a fresh session on the same sandbox.
pub(super) async fn handoff(
    world: &World,
    caller: &Caller,
    args: args::Handoff,
) -> Result<Value, ControlError> {
    let session = own_member(world, caller).await?.session;
    standing::check_note(args.message.as_deref())?;
    let views = ask::views(world).await?;
    let view = views.into_iter().find(|view| view.spec.session == session);
    let view = view.ok_or_else(|| {
        ControlError::not_found(format!("no raider or agent has session {session}"))
    })?;
    let id = view.spec.id.clone();
    let mut meant = ChildRef::any(id.clone(), session.clone());
    let mut progress = None;
    if let ChildId::Raider(_) = &id {
        let hook = own_hook(world, caller).await?;
        if hook.is_declared() {
            return Err(ControlError::conflict(
                "the work is done; there is nothing to hand off",
            ));
        }
        progress = shown_for(world, &hook).await;
        let mut note = Handoff {
            note: args.message.clone(),
            relic: Some(hook.relic.clone()),
            incarnation: None,
            totem_step: None,
            resume: args.resume,
        };
        // The slot may be given to another raider while the note is written.
        meant = ChildRef::raider(&hook.raider, hook.incarnation);
        let send = move |txn: &mut dyn Txn| {
            let totem = totems::read(txn, &hook.relic)?;
            let present = totem.as_ref().and_then(|totem| totem.present());
            note.totem_step = present.map(|step| step.relic.id.to_string());
            handoffs::send(txn, &hook, note.clone())
        };
        world.store.run(send).await?;
    }
    if let ChildId::Agent(agent) = &id {
        let from = view.session.as_ref().map(|it| it.handle.token.clone());
        standing::leave_note(world, agent, from, args.message.clone(), args.resume).await?;
    }
    if !args.resume {
        // A raider's note tells so, too.
        afresh(world, &session).await?;
    }
    ask::hand_off(world, meant, progress).await?;
    to_json(&answers::HandedOff {
        name: id.to_string(),
        session,
    })
}

/// Makes the next session begin a conversation of its own.
///
/// # Errors
/// The store cannot be written.
pub(super) async fn afresh(world: &World, session: &SessionId) -> Result<(), ControlError> {
    let unavailable = |error: SessionError| ControlError::unavailable(error.to_string());
    let facts = effects::facts(world, session).await.map_err(unavailable)?;
    let Some(facts) = facts else {
        return Ok(());
    };
    let handle = SessionHandle {
        id: facts.id,
        token: facts.token,
    };
    let said = conversation::begin_afresh(world, &handle).await;
    said.map_err(unavailable)
}

/// Returns the progress that a raider can show at a handoff: commits, relic and steps. None if git cannot tell, which
/// is no evidence against the raider.
///
/// git is asked at this moment, within the budget of the rig's sandboxes: the brake of handoffs counts a head that it
/// saw before as no progress, so an observation from before the raider's last commit would hold its successor back.
pub(super) async fn shown_for(world: &World, hook: &Hook) -> Progress {
    let (sandbox, target) = (world.city.sandbox(&hook.raider), hook.target.clone());
    let head = own_facts(world, hook, sandbox, target).await.ok()?.head;
    let id = hook.relic.clone();
    let relics = world.store.run(move |txn| {
        let children = txn.children(&id)?;
        let all = [id.clone()].into_iter().chain(children);
        all.map(|id| txn.relic(&id)).collect::<Result<Vec<_>, _>>()
    });
    let relics = serde_json::to_vec(&relics.await.ok()?).ok()?;
    Some(handoff::mark(&head, &relics))
}

/// The time that a session waits for what git says of its own sandbox: a disk that hangs keeps no verb of it waiting.
const FACTS_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// Asks git about the raider's own sandbox, within the budget of the rig's sandboxes.
async fn own_facts(
    world: &World,
    hook: &Hook,
    sandbox: PathBuf,
    target: String,
) -> Result<GitFacts, String> {
    let rig = &hook.raider.rig;
    let facts = effects::repo_for(world, rig, effects::WorkKind::Sandbox, move |repo| {
        repo.facts(&sandbox, &target)
    });
    match tokio::time::timeout(FACTS_LIMIT, facts).await {
        Ok(facts) => facts.map_err(|error| error.to_string()),
        Err(_) => Err(format!("git did not answer within {FACTS_LIMIT:?}")),
    }
}

/// The longest wait. A session that is silent for longer is treated as stalled; otherwise nothing would ever check it.
const WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// `wait`: marks the session as not stalled until then.
pub(super) async fn wait(
    world: &World,
    caller: &Caller,
    args: args::Wait,
) -> Result<Value, ControlError> {
    let hook = own_hook(world, caller).await?;
    if hook.is_declared() {
        return Err(ControlError::conflict(
            "the work is done; there is nothing to wait for",
        ));
    }
    check_reason(&args.reason)?;
    let wrong = || {
        let message = format!("{:?} is not a duration", args.duration);
        ControlError::bad_request(message)
            .hint("expected numbers, each with a unit, such as 30s, 10m or 1h 30m")
    };
    let length = humantime::parse_duration(&args.duration).map_err(|_| wrong())?;
    if length > WAIT_MAX {
        let message = format!("{} is too long: a wait is 24h at most", args.duration);
        return Err(ControlError::bad_request(message)
            .hint("declare another wait after it, or escalate with `hd escalate`"));
    }
    let at = world.clock.now();
    let until = at.checked_add(length).map_err(|_| wrong())?;
    let facts = effects::facts(world, &hook.raider.session_id())
        .await
        .map_err(Refusal::from)?;
    let facts = facts.ok_or_else(|| ControlError::forbidden("this process is not in a session"))?;
    let wait = Wait {
        session: facts.token,
        at,
        until,
        reason: args.reason,
    };
    let answer = answers::Waiting {
        name: hook.raider.clone(),
        until,
        reason: wait.reason.clone(),
    };
    let (raider, rig) = (hook.raider.clone(), hook.raider.rig);
    let declared = world
        .store
        .run(move |txn| stalls::declare(txn, &raider, &wait));
    declared.await?;
    world.directory.tell_witness(&rig, WitnessMsg::Look);
    to_json(&answer)
}

/// `hook`: the relic that the raider is bound to, or that the standing agent takes.
pub(super) async fn hook(world: &World, caller: &Caller) -> Result<Value, ControlError> {
    if let CallerRole::Agent(session) = &caller.who {
        return standing::hook(world, caller, session).await;
    }
    let hook = own_hook(world, caller).await?;
    let id = hook.relic.clone();
    let relic = world.store.run(move |txn| txn.relic(&id)).await?;
    to_json(&answers::Hooked::Raider {
        hook: Box::new(hook),
        relic: Box::new(relic),
    })
}

#[cfg(test)]
mod tests;
