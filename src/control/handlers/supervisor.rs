//! `ping`, `stop`, `reload`.

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{StopRequest, to_json, word};
use crate::actors::ask;
use crate::actors::mail::ConfigMsg;
use crate::actors::mail::StopMode;
use crate::actors::world::World;
use crate::control::protocol::answers::{Pong, SessionsEnd, Stopped};
use crate::control::protocol::{ControlError, args};
use crate::domain::asker::Asker;

pub(super) fn ping(world: &World) -> Result<Value, ControlError> {
    to_json(&Pong {
        city: world.city.name.clone(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Stops the tree, and answers when it has stopped.
pub(super) async fn stop(
    stop: &mpsc::Sender<StopRequest>,
    args: args::Stop,
) -> Result<Value, ControlError> {
    let mode = if args.keep_sessions {
        StopMode::KeepSessions
    } else {
        StopMode::Graceful
    };
    let (done, stopped) = oneshot::channel();
    let gone = || ControlError::unavailable("the supervisor is already stopping");
    stop.send((mode, done)).await.map_err(|_| gone())?;
    let end = stopped.await.map_err(|_| gone())?;
    let kept = end.mode == StopMode::KeepSessions;
    let sessions = match kept {
        true => SessionsEnd::Kept,
        false => SessionsEnd::Ended,
    };
    if kept != args.keep_sessions {
        let sessions = word(&sessions);
        let message = format!("another stop was already running: the sessions were {sessions}");
        return Err(ControlError::conflict(message));
    }
    if !end.left.is_empty() {
        let hint = "check the processes of these sessions: state D waits for a disk or a network \
        mount; the next start of the supervisor ends them";
        return Err(ControlError::conflict(end.says()).hint(hint));
    }
    to_json(&Stopped {
        stopped: true,
        sessions,
    })
}

/// Reads the configuration and applies it. Answers with the effect on each agent, or with the errors and that the old
/// configuration is kept.
pub(super) async fn reload(world: &World, by: Asker, dry_run: bool) -> Result<Value, ControlError> {
    /// Long, because a new rig is cloned meanwhile.
    const LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
    let message = |reply| ConfigMsg::Reload { dry_run, by, reply };
    to_json(&ask::ask(world.directory.config(), message, LIMIT).await??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::mail::StopEnd;
    use crate::control::protocol::ErrorKind;

    async fn stop_answer(keep_sessions: bool, mode: StopMode) -> Result<Value, ControlError> {
        let left = Vec::new();
        answered(keep_sessions, StopEnd { mode, left }).await
    }

    async fn answered(keep_sessions: bool, end: StopEnd) -> Result<Value, ControlError> {
        let (ask, mut asked) = mpsc::channel::<StopRequest>(1);
        let answering = async {
            let (_, done) = asked.recv().await.unwrap();
            done.send(end).unwrap();
        };
        tokio::join!(stop(&ask, args::Stop { keep_sessions }), answering).0
    }

    #[tokio::test]
    async fn a_stop_that_leaves_a_session_names_it_and_fails() {
        let (mode, left) = (
            StopMode::Graceful,
            vec!["w-clerk (it does not die)".to_owned()],
        );
        let said = answered(false, StopEnd { mode, left }).await.unwrap_err();
        assert!(said.message.contains("w-clerk"), "{said}");
        assert_eq!(said.kind.exit().code(), 1);
    }

    #[tokio::test]
    async fn stop_reports_the_actual_end_of_the_sessions() {
        let kept = stop_answer(true, StopMode::KeepSessions).await.unwrap();
        assert_eq!(kept["sessions"], "kept");
        let ended = stop_answer(false, StopMode::Now).await.unwrap();
        assert_eq!(ended["sessions"], "ended");
        for (keep, happened) in [(true, StopMode::Graceful), (false, StopMode::KeepSessions)] {
            let late = stop_answer(keep, happened).await.unwrap_err();
            assert_eq!(late.kind, ErrorKind::Conflict);
        }
    }
}
