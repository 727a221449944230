//! Tables of observations that several actors read, each written by one part of `actors/`. They are
//! caches: a new process starts with empty ones.

mod accounts;
mod automations;
mod changes;
mod conditions;
mod glances;
mod ground;
mod sandbox_changes;

pub use self::accounts::Accounts;
pub(super) use self::automations::Busy;
pub use self::automations::{Automations, Role};
pub use self::changes::Changes;
pub(super) use self::conditions::Entry;
pub use self::conditions::{Conditions, Moment};
pub use self::glances::Glances;
pub(super) use self::ground::Changed;
pub use self::ground::Ground;
pub use self::sandbox_changes::SandboxChanges;
