//! `hook-event`: reports of a harness about its session, by its hooks.

use serde_json::Value;

use super::caller::{own_hook, own_member};
use super::to_json;
use crate::actors::conversation::{CONVERSATION, TRANSCRIPT};
use crate::actors::world::World;
use crate::actors::{conditions, effects, usage};
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::Reported;
use crate::control::protocol::args::HookEvent;
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::condition::Report;
use crate::domain::harness::hooks::Hooks;
use crate::ports::sessions::SessionHandle;

/// Takes in an event. An event without news of the session's state is no error.
pub(super) async fn hook_event(
    world: &World,
    caller: &Caller,
    args: &HookEvent,
) -> Result<Value, ControlError> {
    let unknown =
        || ControlError::bad_request(format!("no harness reports events as {:?}", args.hooks));
    let hooks = Hooks::named(&args.hooks).ok_or_else(unknown)?;
    let hook = match &caller.who {
        CallerRole::Raider(_) => Some(own_hook(world, caller).await?),
        _ => None,
    };
    let session = own_member(world, caller).await?.session;
    let harness = match &hook {
        Some(hook) => Some(&hook.harness),
        None => (world.city.agent_of(&session)).and_then(|agent| agent.harness.as_ref()),
    };
    let harness = harness.and_then(|name| world.city.harnesses.get(name));
    // Only events of the session's own program count: in another program's events the same word may mean something
    // else.
    if harness.is_none_or(|harness| harness.hooks != hooks) {
        let message = format!("this session does not report events as {:?}", args.hooks);
        return Err(ControlError::forbidden(message));
    }
    let Some(report) = hooks.report(&args.event) else {
        return to_json(&Reported {
            report: None,
            known: None,
        });
    };
    let facts = effects::facts(world, &session).await;
    let facts = facts.map_err(|error| ControlError::unavailable(error.to_string()))?;
    let facts = facts.ok_or_else(|| ControlError::not_found(format!("no session {session}")))?;
    let owner = match &hook {
        Some(hook) => Some(usage::of_raider(hook)),
        None => usage::of_agent(world, &session),
    };
    let handle = SessionHandle {
        id: session,
        token: facts.token,
    };
    if let Report::Started {
        conversation,
        transcript,
    } = &report
    {
        keep(world, &handle, CONVERSATION, conversation.clone()).await?;
        if let Some(transcript) = transcript {
            keep(world, &handle, TRANSCRIPT, transcript.clone()).await?;
        }
        if let Some(owner) = owner {
            usage::began(world, owner, conversation, transcript.as_deref()).await?;
        }
    }
    if matches!(report, Report::Answers | Report::Waits | Report::Ended) {
        usage::collect(world, None).await;
    }
    let known = conditions::report(world, &handle, &report);
    to_json(&Reported {
        report: Some(report),
        known: Some(known),
    })
}

async fn keep(
    world: &World,
    handle: &SessionHandle,
    key: &'static str,
    value: String,
) -> Result<(), ControlError> {
    let of = handle.clone();
    let kept = effects::sessions(world, &handle.id, move |provider| {
        provider.set_meta(&of, key, &value)
    });
    kept.await
        .map_err(|error| ControlError::unavailable(error.to_string()))
}
