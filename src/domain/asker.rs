//! Which person, agent or automation asked for something over the control socket. It goes into the events
//! and relics that come of it.

use serde::{Deserialize, Serialize};

use super::cause::Cause;

/// The one that asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// What kind of caller: [`Cause::Operator`], [`Cause::Agent`] or [`Cause::Automation`].
    pub cause: Cause,
    /// Its name, as `by` of an event shows it: `operator`, `clerk`, `automation/nightly`.
    pub name: String,
}

impl Asker {
    /// A person, or a program outside every session and errand.
    #[must_use]
    pub fn person() -> Self {
        Self {
            cause: Cause::Operator,
            name: "operator".to_owned(),
        }
    }

    /// A program in an agent's or raider's session.
    #[must_use]
    pub fn agent(name: impl Into<String>) -> Self {
        Self {
            cause: Cause::Agent,
            name: name.into(),
        }
    }

    /// A command that the supervisor runs for itself: an automation, the check of a pool, a notice.
    #[must_use]
    pub fn errand(name: impl Into<String>) -> Self {
        Self {
            cause: Cause::Automation,
            name: name.into(),
        }
    }
}
