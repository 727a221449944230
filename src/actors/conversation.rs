//! The conversation of a harness's session: the facts that name it, and whether the next session resumes it.

use std::path::Path;

use super::effects;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Harness;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::harness::hooks::is_conversation;
use crate::domain::ids::SessionId;
use crate::ports::sessions::{SessionError, SessionHandle};
use crate::ports::tasks::TaskFiles;

/// The session fact that names its conversation.
pub const CONVERSATION: &str = "conversation";
/// The session fact that names the file of its conversation.
pub const TRANSCRIPT: &str = "transcript";
/// The session fact that names its harness: another harness cannot resume its conversation.
pub(in crate::actors) const HARNESS: &str = "harness";
/// The session fact that names the conversation it was started to resume.
pub(in crate::actors) const RESUMES: &str = "resumes";
/// The session fact that makes the next session begin a new conversation.
const AFRESH: &str = "afresh";

/// A resumed session that ends within this time could not resume.
const RESUME_HOLDS: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);

/// Returns the conversation that the next session resumes: that of the last session, if its harness can resume and
/// named it, and its transcript exists. A resume that ended at once by itself is not retried, and neither is the
/// conversation of a session marked to be followed by a fresh one.
///
/// # Errors
/// Why the facts of the session before cannot be read.
pub(in crate::actors) async fn to_resume(
    world: &World,
    harness: &Harness,
    cause: Cause,
    before: Option<&SessionFacts>,
) -> Result<Option<String>, String> {
    let Some(before) = before.filter(|_| !harness.resume.is_empty()) else {
        return Ok(None);
    };
    if fact(world, &before.id, AFRESH).await?.is_some() {
        return Ok(None);
    }
    let ran = fact(world, &before.id, HARNESS).await?;
    // A conversation id of another program is meaningless to this one.
    if ran.is_none_or(|ran| ran != harness.name.as_str()) {
        return Ok(None);
    }
    let resumed = fact(world, &before.id, RESUMES).await?;
    if resumed.is_some() && failed_at_once(before, cause) {
        tracing::warn!(
            session = %before.id,
            "a resumed session ended at once, so its conversation cannot be resumed; a fresh one \
            begins"
        );
        return Ok(None);
    }
    let conversation = fact(world, &before.id, CONVERSATION).await?.or(resumed);
    let Some(conversation) = conversation.filter(|id| is_conversation(id)) else {
        return Ok(None);
    };
    let Some(transcript) = fact(world, &before.id, TRANSCRIPT).await? else {
        return Ok(Some(conversation));
    };
    let owner = effects::Owner::Session(before.id.clone());
    let is_there = move |tasks: &dyn TaskFiles| Ok(tasks.is_file(Path::new(&transcript)));
    let there = effects::tasks(world, owner, is_there)
        .await
        .map_err(|error| error.to_string())?;
    Ok(there.then_some(conversation))
}

/// Returns true when a session ended so soon that it could not resume. An end by the supervisor or a person has another
/// reason, and so has an end at a limit or for a login.
fn failed_at_once(facts: &SessionFacts, cause: Cause) -> bool {
    let RunState::Exited(exit) = &facts.state else {
        return false;
    };
    let of_itself = !exit.stopped
        && !exit.by_person
        && !matches!(
            cause,
            Cause::RateLimit | Cause::Login | Cause::EndedByPerson
        );
    of_itself && exit.at.duration_since(facts.started_at) < RESUME_HOLDS
}

/// Marks a session, so that its successor begins a new conversation.
///
/// # Errors
/// The provider's.
pub async fn begin_afresh(world: &World, handle: &SessionHandle) -> Result<(), SessionError> {
    let of = handle.clone();
    let kept = effects::sessions(world, &handle.id, move |provider| {
        provider.set_meta(&of, AFRESH, "yes")
    });
    kept.await
}

async fn fact(world: &World, id: &SessionId, key: &'static str) -> Result<Option<String>, String> {
    let of = id.clone();
    match effects::sessions(world, id, move |provider| provider.get_meta(&of, key)).await {
        Ok(value) => Ok(value),
        Err(SessionError::Gone(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
