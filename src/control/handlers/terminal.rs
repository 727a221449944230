//! `attach`, `peek`, `send`, `answer`, `logs`: the terminal of a raider or agent.

use serde_json::{Value, json};

use super::{names, to_json};
use crate::actors::mail::{ChildView, SessionView, Work};
use crate::actors::refusal::Refusal;
use crate::actors::typing::By;
use crate::actors::world::World;
use crate::actors::{accounts, effects, typing};
use crate::control::protocol::answers::{Answered, Attached, LogText, Pane, Screen, Taken};
use crate::control::protocol::args::{Answer, Logs, Send};
use crate::control::protocol::{ControlError, ErrorKind};
use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::terminal_keys;
use crate::domain::terminal_text;
use crate::ports::sessions::{AttachPoint, SessionError, Sessions};

/// The bytes of a log's end that are shown by default.
const LOG_BYTES: u64 = 64 * 1024;
/// The number of bytes of a log that are searched for the text that a person has seen.
const READ_BYTES: u64 = 1024 * 1024;

async fn up(world: &World, name: &str) -> Result<(String, SessionView), ControlError> {
    let view = names::child(world, name).await?;
    let id = view.spec.id.to_string();
    let session = view.session.ok_or_else(|| {
        ControlError::conflict(format!("{id} has no session at the moment"))
            .hint(format!("`hd logs {name}` shows the output of the last one"))
    })?;
    Ok((id, session))
}

async fn on<T: std::marker::Send + 'static>(
    world: &World,
    id: &SessionId,
    work: impl FnOnce(&dyn Sessions) -> Result<T, SessionError> + std::marker::Send + 'static,
) -> Result<T, ControlError> {
    Ok(effects::sessions(world, id, work)
        .await
        .map_err(Refusal::from)?)
}

pub(super) async fn attach(world: &World, name: &str) -> Result<Value, ControlError> {
    let (id, session) = up(world, name).await?;
    let handle = session.handle.clone();
    // Events after this one tell how the session ended.
    let seq = world.store.run(|txn| txn.last_seq()).await?;
    let point = on(world, &session.handle.id, move |p| p.attach(&handle)).await?;
    to_json(&match point {
        AttachPoint::Holder(socket) => Attached {
            name: id,
            socket,
            seq: Some(seq),
            tmux: None,
        },
        AttachPoint::Tmux {
            server,
            pane,
            watch,
        } => Attached {
            name: id,
            socket: watch,
            seq: None,
            tmux: Some(Pane {
                socket: server,
                id: pane,
            }),
        },
    })
}

pub(super) async fn peek(world: &World, name: &str) -> Result<Value, ControlError> {
    let (id, session) = up(world, name).await?;
    let handle = session.handle.clone();
    let text = on(world, &session.handle.id, move |p| p.peek(&handle)).await?;
    to_json(&Screen { name: id, text })
}

pub(super) async fn send(world: &World, args: Send) -> Result<Value, ControlError> {
    if args.text.is_some() && args.keys.is_none() {
        // Checked before the session is looked for, because a long limit has ended the session.
        let view = names::child(world, &args.name).await?;
        refuse_held(world, &view, &args.name)?;
    }
    let (child, harness, session) = driven(world, &args.name).await?;
    let handle = session.handle;
    match (args.text, args.keys) {
        (Some(text), None) => {
            let by = By::Person { force: args.force };
            typing::deliver(world, &child, harness.as_ref(), &handle, &text, by)
                .await
                .map_err(|sent| named(sent.into(), &args.name))?;
        }
        (None, Some(keys)) => {
            let keys = terminal_keys::bytes(&keys).map_err(ControlError::bad_request)?;
            typing::keys(world, &handle, keys).await?;
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "send takes either a text or keys";
            return Err(ControlError::bad_request(message));
        }
    }
    to_json(&Taken {
        name: child.to_string(),
        taken: true,
    })
}

/// Refuses a text for a session whose account is parked: the program would run into the limit again.
fn refuse_held(world: &World, view: &ChildView, name: &str) -> Result<(), ControlError> {
    let Some(harness) = view.spec.harness() else {
        return Ok(());
    };
    accounts::refuse_held(world, harness, &view.spec.id).map_err(|mut refusal| {
        let anyway =
            format!("`hd send {name} --keys` and `hd attach {name}` can type in any state");
        let hint = refusal.hint.map(|hint| format!("{hint}; {anyway}"));
        refusal.hint = Some(hint.unwrap_or(anyway));
        ControlError::from(refusal)
    })
}

pub(super) async fn answer(
    world: &World,
    asker: Asker,
    args: Answer,
) -> Result<Value, ControlError> {
    let (child, harness, session) = driven(world, &args.name).await?;
    let answered = typing::answer(world, harness.as_ref(), &session.handle, &args.choice)
        .await
        .map_err(|refusal| named(refusal, &args.name))?;
    let data = json!({
        "question": answered.question, "answer": answered.answer, "session": session.handle.id,
    });
    let event = NewEvent::new(EventType::RaiderAnswered, &child, &asker).with(data);
    world.store.journal(vec![event]);
    to_json(&Answered {
        name: child.to_string(),
        question: answered.question,
        answer: answered.answer,
        next: answered.next,
    })
}

/// Returns a child with its session, and the harness that its screen is read by.
async fn driven(
    world: &World,
    name: &str,
) -> Result<(ChildId, Option<HarnessName>, SessionView), ControlError> {
    let view = names::child(world, name).await?;
    let harness = match &view.spec.work {
        Work::Raider { hook, .. } => Some(hook.harness.clone()),
        Work::Agent(agent) => agent.harness.clone(),
    };
    let (_, session) = up(world, name).await?;
    Ok((view.spec.id, harness, session))
}

/// Adds the child's name to the refusal's advice.
fn named(refusal: Refusal, name: &str) -> ControlError {
    let error = ControlError::from(refusal);
    let hint = error.hint.map(|hint| hint.replace("NAME", name));
    ControlError { hint, ..error }
}

pub(super) async fn logs(world: &World, args: Logs) -> Result<Value, ControlError> {
    let (name, id, session) = match names::child(world, &args.name).await {
        Ok(view) => (view.spec.id.to_string(), view.spec.session, view.session),
        Err(unknown) if unknown.kind == ErrorKind::NotFound => {
            let (name, id) = former(world, &args.name).await?.ok_or(unknown)?;
            (name, id, None)
        }
        Err(error) => return Err(error),
    };
    // An answer is a single line, so the size is bounded.
    let most = args.bytes.unwrap_or(LOG_BYTES).min(LOG_BYTES * 8);
    let of = id.clone();
    if args.raw {
        let log = on(world, &id, move |p| p.logs(&of, most)).await?;
        let bytes = log.len();
        let text = String::from_utf8_lossy(&log).into_owned();
        return to_json(&LogText { name, text, bytes });
    }
    let handle = session.map(|session| session.handle);
    let text = on(world, &id, move |p| {
        let log = p.logs(&of, READ_BYTES)?;
        let is_cut = log.len() as u64 >= READ_BYTES;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let text = terminal_text::text(&log, is_cut, most);
        match handle {
            // The end of a long log may contain no whole row; then the screen is shown.
            Some(handle) if is_cut && text.trim().is_empty() => p.peek(&handle),
            Some(_) | None => Ok(text),
        }
    });
    let text = text.await?;
    let bytes = text.len();
    to_json(&LogText { name, text, bytes })
}

/// Returns the slot of this name and its last session, if the session is over and its log still exists.
async fn former(world: &World, name: &str) -> Result<Option<(String, SessionId)>, ControlError> {
    for raider in names::slots(world, name) {
        let id = raider.session_id();
        let session = id.clone();
        if !on(world, &id, move |p| p.logs(&session, 1))
            .await?
            .is_empty()
        {
            return Ok(Some((raider.to_string(), id)));
        }
    }
    Ok(None)
}
