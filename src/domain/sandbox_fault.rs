//! The faults of a sandbox under work, as its files alone show them. They are reported and never repaired unasked: an
//! operator decides what is salvaged and what is recreated (`raider-lifecycle.md`, repair).

use std::path::Path;

use super::ids::RaiderId;
use super::problem::ProblemKind;

/// The reason why a raider cannot go on in its sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxFault {
    /// The path is empty.
    Gone,
    /// git cannot use it, for this reason.
    Broken(String),
}

impl SandboxFault {
    /// All results of [`SandboxFault::problem`].
    pub const PROBLEMS: [ProblemKind; 2] = [ProblemKind::SandboxGone, ProblemKind::SandboxBroken];

    /// Returns the problem for the escalation.
    #[must_use]
    pub fn problem(&self) -> ProblemKind {
        match self {
            Self::Gone => ProblemKind::SandboxGone,
            Self::Broken(_) => ProblemKind::SandboxBroken,
        }
    }

    /// Returns the raider's condition in `status`.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Gone => "sandbox_gone",
            Self::Broken(_) => "sandbox_broken",
        }
    }

    /// Describes the fault of the sandbox at this path.
    #[must_use]
    pub fn says(&self, sandbox: &Path) -> String {
        let sandbox = sandbox.display();
        match self {
            Self::Gone => format!("the sandbox {sandbox} does not exist"),
            Self::Broken(why) => format!("git cannot use {sandbox}: {why}"),
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn advice(&self, raider: &RaiderId) -> String {
        match self {
            Self::Gone => format!(
                "`hd raider repair {raider}` recreates it from its branch, `hd raider nuke \
                {raider}` removes the raider"
            ),
            Self::Broken(_) => {
                format!("`hd raider repair {raider}` rebuilds it around its files")
            }
        }
    }
}
