//! A fault of a city, as `hd doctor` reports it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No supervisor answers.
    Supervisor,
    /// The configuration is invalid.
    Config,
    /// A file of the supervisor was changed by another program.
    Ground,
    /// A session without an owner.
    OrphanSession,
    /// A sandbox without a raider.
    StraySandbox,
    /// A raider without a usable sandbox.
    LostSandbox,
    /// A relic whose raider is missing.
    LostRelic,
    /// A raider with work whose rig is no longer configured.
    LostRig,
    /// A raider's branch without work.
    StrayBranch,
    /// The trash is not empty.
    Trash,
    /// An intent that was not carried out.
    Outbox,
    /// Another program has the name `hd`.
    ShadowedHd,
    /// Other users can read the supervisor's files, or the supervisor cannot.
    Permissions,
    /// git is missing or too old.
    GitVersion,
    /// A rig's repository cannot be used.
    Repository,
    /// A program that sessions are started with is missing.
    Program,
    /// The major version of a program differs from the one that its preset was tested with.
    HarnessVersion,
    /// A program seems not to be logged in.
    Login,
    /// A program asks a person for consent at its start.
    Trust,
    /// A program refuses to run as root.
    Root,
    /// A fact could not be observed.
    Unseen,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The kind.
    pub kind: Kind,
    /// The subject of the fault.
    pub subject: String,
    /// Description.
    pub says: String,
    /// Advice for a person.
    pub hint: String,
    /// Set when `--fix` can try a remedy.
    pub fixable: bool,
    /// Set when `--fix` tried it with success.
    pub fixed: bool,
}

impl Finding {
    /// Makes a finding without a remedy, for a person to act on.
    #[must_use]
    pub fn new(
        kind: Kind,
        subject: impl ToString,
        says: impl ToString,
        hint: impl ToString,
    ) -> Self {
        Self {
            kind,
            subject: subject.to_string(),
            says: says.to_string(),
            hint: hint.to_string(),
            fixable: false,
            fixed: false,
        }
    }

    /// Records the result of the attempt to repair it.
    #[must_use]
    pub fn tried(mut self, mended: Result<(), String>) -> Self {
        match mended {
            Ok(()) => self.fixed = true,
            Err(why) => self.hint = format!("it could not be fixed: {why}"),
        }
        self
    }
}
