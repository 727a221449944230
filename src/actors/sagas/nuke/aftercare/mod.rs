//! Aftercare of a removal, done or failed: the relic of the raider, and the call of a person.

pub(super) mod failures;
pub(super) mod hookless;
pub(super) mod reopen;
