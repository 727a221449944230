//! Salvage before a removal, and the room that is left for it.

pub(super) mod quota;
pub(super) mod salvage;
