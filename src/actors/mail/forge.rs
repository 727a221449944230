//! Messages to a forge.

use jiff::Timestamp;

use crate::actors::refusal::Refusal;

/// Messages to a forge.
#[derive(Debug)]
pub enum ForgeMsg {
    /// Something may have changed: check inbox and queue.
    Look,
    /// The inbox was processed as far as possible.
    Looked,
    /// The lane is free again.
    Landed(Result<LaneTurn, Refusal>),
}

/// The outcome of a turn of the lane.
#[derive(Debug)]
pub enum LaneTurn {
    /// A merge request was tried.
    Tried(LandOutcome),
    /// No merge request is ready.
    Idle {
        /// When the first held merge request is due.
        due: Option<Timestamp>,
    },
    /// City or rig is suspended: no merge request is begun.
    Paused,
}

/// The outcome of an attempt to land a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandOutcome {
    /// Landed on the target.
    Landed,
    /// Cannot land as it is.
    Failed,
    /// Failed for another reason than the merge request; retry later.
    Held,
    /// The target moved; retry at once.
    Again,
    /// Left the queue: withdrawn meanwhile, or held for a person's review.
    Withdrawn,
}
