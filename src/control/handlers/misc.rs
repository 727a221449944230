//! `ping`, `stop`, `escalations`.

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{StopRequest, to_json};
use crate::actors::root::StopMode;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::args;
use crate::domain::relic::{RelicKind, RelicStatus};
use crate::ports::relics::RelicFilter;

pub(super) fn ping(world: &World) -> Value {
    json!({
        "city": world.city.name, "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Answered when the tree has stopped.
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
    let gone = || ControlError::unavailable("the supervisor is stopping already");
    stop.send((mode, done)).await.map_err(|_| gone())?;
    let kept = stopped.await.map_err(|_| gone())? == StopMode::KeepSessions;
    let sessions = if kept { "kept" } else { "ended" };
    if kept != args.keep_sessions {
        let message = format!("a stop was under way already: the sessions were {sessions}");
        return Err(ControlError::conflict(message));
    }
    Ok(json!({ "stopped": true, "sessions": sessions }))
}

/// Open escalations, the most urgent first.
pub(super) async fn escalations(world: &World) -> Result<Value, ControlError> {
    let filter = RelicFilter {
        kind: Some(RelicKind::Escalation),
        status: Some(RelicStatus::Open),
        ..RelicFilter::default()
    };
    to_json(&world.store.run(move |txn| txn.relics(&filter)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::ErrorKind;

    async fn told(keep_sessions: bool, happened: StopMode) -> Result<Value, ControlError> {
        let (ask, mut asked) = mpsc::channel::<StopRequest>(1);
        let answering = async {
            let (_, done) = asked.recv().await.unwrap();
            done.send(happened).unwrap();
        };
        tokio::join!(stop(&ask, args::Stop { keep_sessions }), answering).0
    }

    #[tokio::test]
    async fn a_stop_says_what_became_of_the_sessions_and_not_what_was_asked() {
        let kept = told(true, StopMode::KeepSessions).await.unwrap();
        assert_eq!(kept["sessions"], "kept");
        let ended = told(false, StopMode::Now).await.unwrap();
        assert_eq!(ended["sessions"], "ended");
        for (keep, happened) in [(true, StopMode::Graceful), (false, StopMode::KeepSessions)] {
            let late = told(keep, happened).await.unwrap_err();
            assert_eq!(late.kind, ErrorKind::Conflict);
        }
    }
}
