//! Messages to the shaman.

use jiff::Timestamp;

use crate::domain::ids::SessionId;

/// Messages to the shaman.
#[derive(Debug)]
pub enum ShamanMsg {
    /// Process the inbox and the open escalations.
    Look,
    /// Something happened that people are notified of.
    Tell,
    /// A session could not be ended by any signal: call a person.
    Unkillable {
        /// The session.
        session: SessionId,
        /// The reason.
        why: String,
    },
    /// A look has ended; when the next is due without a message.
    Looked(Option<Timestamp>),
}
