//! The caller of the control socket that asked for something: a person, agent or automation. It is recorded in the
//! events and relics that follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Cause;

/// The kind of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskerKind {
    /// A person, or a program outside every session and errand.
    Person,
    /// A program in the session of a raider or agent.
    Agent,
    /// A command that the supervisor runs: an automation, the check of a pool, a notice.
    Automation,
}

/// A caller, as `data.asker` of an event has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskerData {
    /// The kind of caller.
    pub kind: AskerKind,
    /// Its name: `operator` for a person, `clerk`, `gt-horde-Toast`, `automation/nightly`.
    pub name: String,
}

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

    /// Returns the kind of caller.
    #[must_use]
    pub fn kind(&self) -> AskerKind {
        match self.cause {
            Cause::Agent => AskerKind::Agent,
            Cause::Automation => AskerKind::Automation,
            _ => AskerKind::Person,
        }
    }

    /// Returns the caller as an event has it.
    #[must_use]
    pub fn data(&self) -> AskerData {
        AskerData {
            kind: self.kind(),
            name: self.name.clone(),
        }
    }
}
