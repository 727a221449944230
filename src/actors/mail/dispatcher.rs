//! What the dispatcher is told.

use jiff::Timestamp;
use ractor::RpcReplyPort;

use crate::actors::refusal::Refusal;
use crate::domain::automation::{AutomationId, Run};

/// Messages to the dispatcher.
#[derive(Debug)]
pub enum DispatcherMsg {
    /// Look at the outbox.
    Outbox,
    /// Everything was reconciled: collect what has expired, then look at everything that may be due.
    Reconciled,
    /// Look at everything that may be due.
    Patrol,
    /// Look at the gates of automations: a run ended, an event came, the configuration changed.
    Look,
    /// A look is over; the next gate to open by time.
    Looked(Option<Timestamp>),
    /// An operator runs an automation. Answered when the run is recorded as started, with the
    /// number of its event.
    Run(AutomationId, RpcReplyPort<Result<(Run, u64), Refusal>>),
    /// The supervisor is stopping: end what runs.
    Stop,
}
