//! What the shaman is told.

use jiff::Timestamp;

use crate::domain::ids::SessionId;

/// Messages to the shaman.
#[derive(Debug)]
pub enum ShamanMsg {
    /// Look at the inbox and at what is open.
    Look,
    /// Something happened that people are told of.
    Tell,
    /// A session could not be ended by any signal: a person is called for it.
    Unkillable {
        /// Which.
        session: SessionId,
        /// The reason.
        why: String,
    },
    /// A look is over; when the next is due, if nothing happens before.
    Looked(Option<Timestamp>),
}
