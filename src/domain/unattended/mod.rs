//! The requirements of a coding agent for a start without a person: a login, consents that its arguments and
//! environment do not give, a user that it agrees to run as, a version that its preset was tested with. Pure: the
//! caller looks up the facts.

mod api_key;
mod asks;
mod findings;
mod programs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use self::api_key::{KEY, KeyUse, is_helper, key_use, logins};
pub use self::asks::{Answer, Ask, asks};
pub use self::findings::{InstalledHarness, findings};
pub(super) use self::programs::{CLAUDE, CODEX, COPILOT, GEMINI, PI};
pub use self::programs::{Login, PROGRAMS, ProgramFacts, Setting, Trace, known};
use super::city::Harness;

/// Variables that decide where programs look for their files and what they ask. None is a secret.
const PLAIN: &[&str] = &[
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "PI_CODING_AGENT_DIR",
    "IS_SANDBOX",
    "IS_DEMO",
    "CLAUDE_CODE_SANDBOXED",
    "COPILOT_ALLOW_ALL",
    "GEMINI_CLI_TRUST_WORKSPACE",
];

/// Returns the relevant variables of an environment: those of [`PLAIN`] with their values, others by name only, because
/// they are keys.
#[must_use]
pub fn shown(env: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
    let is_plain = |name: &str| PLAIN.contains(&name);
    let is_key = |name: &str| PROGRAMS.iter().any(|it| it.login.env.contains(&name));
    let relevant = env
        .iter()
        .filter(|(name, value)| !value.is_empty() && (is_plain(name) || is_key(name)));
    relevant
        .map(|(name, value)| (name.clone(), is_plain(name).then(|| value.clone())))
        .collect()
}

/// A harness as its sessions start.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The harness.
    pub harness: &'a Harness,
    /// The environment of its sessions. The values of keys may be missing or made up.
    pub env: &'a BTreeMap<String, String>,
    /// The directories that contain its sessions' work: the city, and those of agents outside it.
    pub dirs: &'a [PathBuf],
    /// Set when sessions run as root.
    pub root: bool,
    /// Returns true when a project that it works on has this file.
    pub project_has: &'a dyn Fn(&str) -> bool,
}

impl Start<'_> {
    /// Returns true when a variable is set and not empty.
    fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<&str> {
        let value = self.env.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }
}

/// A directory of a program's own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dir {
    /// The variable that names another place, and the path below that.
    moved: (&'static str, &'static str),
    /// The path below the home directory, when the variable is not set.
    usual: &'static str,
}

impl Dir {
    /// Returns the path of a file in it.
    #[must_use]
    pub fn file(&self, start: &Start<'_>, name: &str) -> PathBuf {
        self.of(start.env).join(name)
    }

    /// Returns its path in sessions with this environment.
    #[must_use]
    pub fn of(&self, env: &BTreeMap<String, String>) -> PathBuf {
        let value = |name: &str| env.get(name).filter(|value| !value.is_empty());
        let (variable, below) = self.moved;
        match value(variable) {
            Some(moved) => Path::new(moved).join(below),
            None => Path::new(value("HOME").map_or("/", String::as_str)).join(self.usual),
        }
    }
}
