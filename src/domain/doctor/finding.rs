//! One thing that is wrong with a city, as `hd doctor` tells it.

use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No supervisor answers.
    Supervisor,
    /// The configuration is invalid.
    Config,
    /// One of the supervisor's own files is not as it was left.
    Ground,
    /// A session that nobody asks for.
    OrphanSession,
    /// A sandbox without a raider.
    StraySandbox,
    /// A raider without a sandbox that it could work in.
    LostSandbox,
    /// A relic whose raider is nowhere.
    LostRelic,
    /// A raider with work whose rig is not configured any more.
    LostRig,
    /// A raider's branch without work.
    StrayBranch,
    /// What was thrown away is still there.
    Trash,
    /// An intent that nobody carries out.
    Outbox,
    /// Another program has our name.
    ShadowedHd,
    /// Others may look in, or we may not.
    Permissions,
    /// git is missing or too old.
    GitVersion,
    /// A rig's repository cannot be worked on.
    Repository,
    /// A program that sessions are started with is missing.
    Program,
    /// A program is of another major version than its preset was proven with.
    HarnessVersion,
    /// A program is not logged in, as far as can be seen.
    Login,
    /// A program asks a person for a consent at its start.
    Trust,
    /// A program refuses to run as root.
    Root,
    /// It cannot be seen whether something is wrong.
    Unseen,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Of what.
    pub subject: String,
    /// In words.
    pub says: String,
    /// What a person can do.
    pub hint: String,
    /// Whether `--fix` can try.
    pub fixable: bool,
    /// Whether it did, with success.
    pub fixed: bool,
}

impl Finding {
    /// A finding that a person must deal with.
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

    /// What became of the attempt to mend it.
    #[must_use]
    pub fn tried(mut self, mended: Result<(), String>) -> Self {
        match mended {
            Ok(()) => self.fixed = true,
            Err(why) => self.hint = format!("it could not be mended: {why}"),
        }
        self
    }
}
