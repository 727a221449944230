//! The caller of the control socket that asked for something: a person, agent or automation. It is recorded in the
//! events and relics that follow.

use serde::{Deserialize, Serialize};

use super::cause::Cause;

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The kind of caller: [`Cause::Operator`], [`Cause::Agent`] or [`Cause::Automation`].
    pub cause: Cause,
    /// Its name, as `by` of an event shows it: `operator`, `clerk`, `automation/nightly`.
    pub name: String,
}

impl Asker {
    /// Makes the caller for a person, or a program outside every session and errand.
    #[must_use]
    pub fn person() -> Self {
        Self {
            cause: Cause::Operator,
            name: "operator".to_owned(),
        }
    }

    /// Makes the caller for a program in an agent's or raider's session.
    #[must_use]
    pub fn agent(name: impl Into<String>) -> Self {
        Self {
            cause: Cause::Agent,
            name: name.into(),
        }
    }

    /// Makes the caller for a command that the supervisor runs for itself: an automation, the check of a pool, a
    /// notice.
    #[must_use]
    pub fn errand(name: impl Into<String>) -> Self {
        Self {
            cause: Cause::Automation,
            name: name.into(),
        }
    }
}
