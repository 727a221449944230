//! What a forge is told.

use jiff::Timestamp;

use crate::actors::refusal::Refusal;

/// Messages to a forge.
#[derive(Debug)]
pub enum ForgeMsg {
    /// Something may have changed: look at inbox and queue.
    Look,
    /// The inbox was emptied as far as it could be.
    Looked,
    /// The lane is free again.
    Landed(Result<Landing, Refusal>),
}

/// The outcome of one turn of the lane.
#[derive(Debug)]
pub enum Landing {
    /// A merge request had its turn.
    Tried(Attempt),
    /// There is none to try.
    Idle {
        /// When the first parked one is due.
        due: Option<Timestamp>,
    },
    /// City or rig is suspended: none is begun.
    Paused,
}

/// The outcome of an attempt to land a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// It is on the target.
    Landed,
    /// It cannot land as it is.
    Failed,
    /// Not its fault; later.
    Parked,
    /// The target moved; at once again.
    Again,
    /// It was taken out of the queue meanwhile.
    Withdrawn,
}
