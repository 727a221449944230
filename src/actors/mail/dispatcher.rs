//! Messages to the dispatcher.

use jiff::Timestamp;
use ractor::RpcReplyPort;

use crate::actors::refusal::Refusal;
use crate::domain::asker::Asker;
use crate::domain::automation::{AutomationId, Run};

/// Messages to the dispatcher.
#[derive(Debug)]
pub enum DispatcherMsg {
    /// Read the outbox.
    Outbox,
    /// A look was applied: collect what has expired, then check everything that may be due.
    Reconciled,
    /// Check everything that may be due.
    Patrol,
    /// Check the gates of automations: a run ended, an event came, the configuration changed.
    Look,
    /// The check has ended; when the next gate opens by time.
    Looked(Option<Timestamp>),
    /// Run an automation for a caller. Answered with the number of its event when the run is recorded as started.
    Run(
        AutomationId,
        Asker,
        RpcReplyPort<Result<(Run, u64), Refusal>>,
    ),
    /// The supervisor is stopping: end what runs.
    Stop,
}
