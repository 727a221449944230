//! What a sandbox under work can suffer from, seen from its files alone. It is told and never mended
//! unasked: what is salvaged and what is made anew is a person's to say (`raider-lifecycle.md`, repair).

use std::path::Path;

use super::ids::RaiderId;
use super::problem::ProblemKind;

/// Why a raider cannot go on in its sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ailment {
    /// There is nothing at its path.
    Gone,
    /// git cannot use it, and why.
    Broken(String),
}

impl Ailment {
    /// Everything that [`Ailment::problem`] may say.
    pub const PROBLEMS: [ProblemKind; 2] = [ProblemKind::SandboxGone, ProblemKind::SandboxBroken];

    /// What a person is called for.
    #[must_use]
    pub fn problem(&self) -> ProblemKind {
        match self {
            Self::Gone => ProblemKind::SandboxGone,
            Self::Broken(_) => ProblemKind::SandboxBroken,
        }
    }

    /// The raider's condition in `status`.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Gone => "sandbox_gone",
            Self::Broken(_) => "sandbox_broken",
        }
    }

    /// What is the matter, of the sandbox at this path.
    #[must_use]
    pub fn says(&self, sandbox: &Path) -> String {
        let sandbox = sandbox.display();
        match self {
            Self::Gone => format!("{sandbox} is not there"),
            Self::Broken(why) => format!("git cannot use {sandbox}: {why}"),
        }
    }

    /// What helps.
    #[must_use]
    pub fn advice(&self, raider: &RaiderId) -> String {
        match self {
            Self::Gone => format!(
                "`hd raider repair {raider}` makes it anew from its branch, `hd raider nuke {raider}` gives it up"
            ),
            Self::Broken(_) => {
                format!("`hd raider repair {raider}` makes it whole around what it holds")
            }
        }
    }
}
