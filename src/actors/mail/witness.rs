//! What a witness is told.

use jiff::Timestamp;
use ractor::RpcReplyPort;

use super::requests::{Accepted, ChargeRequest, Charged, DoneRequest, NukeTarget, Nuked};
use crate::actors::refusal::Refusal;
use crate::domain::ids::RaiderId;

/// Messages to a witness.
pub enum WitnessMsg {
    /// Something may have changed: look at inbox, open sagas and waiting work.
    Look,
    /// The time to look at what could not go on has come.
    Again,
    /// Look, and at every outcome file too.
    Patrol,
    /// A raider's session ended after it said that it is finished.
    Finished(RaiderId),
    /// An outcome file in this task directory changed.
    Outcome(std::path::PathBuf),
    /// An intent that this raider left in the outbox was refused.
    Refused(RaiderId, Refusal),
    /// Charge a relic.
    Charge(ChargeRequest, RpcReplyPort<Result<Charged, Refusal>>),
    /// Work is declared done.
    Done(DoneRequest, RpcReplyPort<Result<Accepted, Refusal>>),
    /// Remove a raider.
    Nuke {
        /// Which sandbox.
        target: Box<NukeTarget>,
        /// Write salvage refs and go on.
        salvage: bool,
        /// Answered when the slot is free.
        reply: RpcReplyPort<Result<Nuked, Refusal>>,
    },
    /// A look came to an end.
    Looked {
        /// The store could not be read; try again then.
        retry: bool,
        /// When the next completion may be stuck.
        next: Option<Timestamp>,
    },
    /// A task ended: look at what follows from it.
    Ended {
        /// It could not go on; look later then.
        retry: bool,
    },
}
