//! `attach`, `peek`, `send`, `logs`: the terminal of a raider or agent.

use serde_json::{Value, json};

use super::names;
use crate::actors::effects;
use crate::actors::refusal::Refusal;
use crate::actors::root::SessionView;
use crate::actors::world::World;
use crate::control::protocol::args::{Logs, Send};
use crate::control::protocol::{ControlError, ErrorKind};
use crate::domain::ids::SessionId;
use crate::ports::sessions::{AttachPoint, Input, SessionError, Sessions};

/// The end of the log that is shown unless more is asked for, in bytes.
const LOG_BYTES: u64 = 64 * 1024;

async fn up(world: &World, name: &str) -> Result<(String, SessionView), ControlError> {
    let view = names::child(world, name).await?;
    let id = view.spec.id.to_string();
    let session = view.session.ok_or_else(|| {
        ControlError::conflict(format!("{id} has no session at the moment"))
            .hint(format!("`hd logs {name}` shows what the last one wrote"))
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
    let point = on(world, &session.handle.id, move |p| p.attach(&handle)).await?;
    Ok(match point {
        AttachPoint::Holder(socket) => json!({ "name": id, "socket": socket }),
        AttachPoint::Command { argv, watch } => {
            json!({ "name": id, "command": argv, "socket": watch })
        }
    })
}

pub(super) async fn peek(world: &World, name: &str) -> Result<Value, ControlError> {
    let (id, session) = up(world, name).await?;
    let handle = session.handle.clone();
    let text = on(world, &session.handle.id, move |p| p.peek(&handle)).await?;
    Ok(json!({ "name": id, "text": text }))
}

pub(super) async fn send(world: &World, args: Send) -> Result<Value, ControlError> {
    let (id, session) = up(world, &args.name).await?;
    let (handle, input) = (session.handle.clone(), Input::Submit(args.text));
    on(world, &session.handle.id, move |p| p.send(&handle, &input)).await?;
    Ok(json!({ "name": id, "taken": true }))
}

pub(super) async fn logs(world: &World, args: Logs) -> Result<Value, ControlError> {
    let (name, id) = match names::child(world, &args.name).await {
        Ok(view) => (view.spec.id.to_string(), view.spec.session),
        Err(unknown) if unknown.kind == ErrorKind::NotFound => {
            former(world, &args.name).await?.ok_or(unknown)?
        }
        Err(error) => return Err(error),
    };
    let session = id.clone();
    // One answer is one line: what is asked for is bounded like any other.
    let bytes = args.bytes.unwrap_or(LOG_BYTES).min(LOG_BYTES * 8);
    let log = on(world, &id, move |p| p.logs(&session, bytes)).await?;
    let text = String::from_utf8_lossy(&log);
    Ok(json!({ "name": name, "text": text, "bytes": log.len() }))
}

/// A slot of this name whose last session is over, and whose log is still there.
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
