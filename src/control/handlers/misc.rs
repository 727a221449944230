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
    stopped.await.map_err(|_| gone())?;
    Ok(json!({ "stopped": true, "sessions": if args.keep_sessions { "kept" } else { "ended" } }))
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
