//! What the shaman is told.

use jiff::Timestamp;

/// Messages to the shaman.
#[derive(Debug)]
pub enum ShamanMsg {
    /// Look at the inbox and at what is open.
    Look,
    /// Something happened that people are told of.
    Tell,
    /// A look is over; when the next is due, if nothing happens before.
    Looked(Option<Timestamp>),
}
