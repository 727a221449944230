//! Facts: what was observed, and what could not be observed.
//!
//! No observation is stored. Each patrol and each event observes again (`witness-patrol.md`, discovery over tracking).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::ids::{Generation, Incarnation, Oid, SessionId};
use super::other_work::OtherWork;
use super::shown;

/// The number of files of a change that are named.
const NAMED: usize = 5;

/// The answer of a probe. `Unknown` is never acted on: a sandbox that cannot be probed is treated as precious.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probed<T> {
    /// The probe answered.
    Known(T),
    /// The probe failed; the text says how.
    Unknown(String),
}

impl<T> Probed<T> {
    /// Returns the answer, if there is one.
    #[must_use]
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

impl<T> Probed<Option<T>> {
    /// Returns `None` where the probe answered that there is nothing.
    #[must_use]
    pub fn transpose(self) -> Option<Probed<T>> {
        match self {
            Self::Known(None) => None,
            Self::Known(Some(value)) => Some(Probed::Known(value)),
            Self::Unknown(why) => Some(Probed::Unknown(why)),
        }
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Probed<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

/// An operating-system process, identified so that a reused pid is never mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub started: u64,
}

/// Resources that a process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Seconds of processor time.
    pub cpu_seconds: f64,
    /// Bytes of memory that it holds.
    pub resident_bytes: u64,
}

/// The way in which a session ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionExit {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal number, when a signal ended it.
    pub signal: Option<i32>,
    /// When it ended.
    pub at: Timestamp,
    /// Set when an attached person typed moments before, and the program ended by itself or by the interrupt key.
    /// Holders of older versions do not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_person: bool,
    /// Set when the supervisor, or the machine's shutdown, was ending the session: its exit code then says nothing
    /// about its work. Holders of older versions do not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// The way in which a session was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It had ended before.
    Already,
    /// It ended within the grace.
    Gracefully,
    /// It had to be killed.
    Killed,
}

impl SessionExit {
    /// Returns true when the program ended by itself with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0) && !self.by_person && !self.stopped
    }

    /// Returns the cause of this end.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self.by_person {
            true => Cause::EndedByPerson,
            false => Cause::SessionDied,
        }
    }
}

/// The state of a session as its provider reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RunState {
    /// The agent's process lives.
    Running,
    /// The agent's process ended, and its exit is on record.
    Exited(SessionExit),
    /// The session's holder is gone, and no exit was recorded.
    Lost {
        /// The observation.
        why: String,
    },
    /// The state cannot be observed at present; never acted on.
    Unknown {
        /// The error.
        why: String,
    },
}

/// A session as observed by its provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFacts {
    /// The session's id.
    pub id: SessionId,
    /// Identifies the start: unique, never reused.
    pub token: String,
    /// The generation that was given at the start.
    pub generation: Generation,
    /// The raider's incarnation that was given at the start (0 for agents).
    pub incarnation: Incarnation,
    /// Running, exited, lost or unknown.
    pub state: RunState,
    /// The agent's process.
    pub agent: Option<ProcessId>,
    /// The holder's process.
    pub holder: Option<ProcessId>,
    /// When it was started.
    pub started_at: Timestamp,
    /// Last terminal output or input, where the provider knows.
    pub last_activity: Option<Timestamp>,
    /// Modification time of the terminal's log. A different time means new output; the order of two times means
    /// nothing, for clocks are set back.
    pub last_output: Option<Timestamp>,
    /// Set when a person is attached.
    pub attached: bool,
    /// Set when the provider does not report attachment: a person may be attached.
    #[serde(default)]
    pub guessed: bool,
}

/// The git state of one sandbox at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFacts {
    /// The commit HEAD names.
    pub head: Oid,
    /// The branch HEAD names; none when detached.
    pub branch: Option<String>,
    /// The commit at which the branch left its base.
    pub merge_base: Option<Oid>,
    /// Commits of HEAD that are not on the base.
    pub ahead: u64,
    /// Paths changed in index or work tree, conflicted ones included, at most a few hundred.
    pub dirty: Vec<String>,
    /// Untracked paths that are not ignored, at most a few hundred.
    pub untracked: Vec<String>,
    /// Stash entries whose message names this raider's branch.
    pub stashes: Vec<String>,
    /// Set when HEAD is reachable from a remote-tracking ref, the target, or a queue pin.
    pub head_reachable: bool,
    /// Other forms of work: a rebase, merge, cherry-pick or bisect in progress, a dirty or unpushed submodule, a nested
    /// repository, skip-worktree edits, reflog-only commits.
    pub other_work: Vec<OtherWork>,
    /// SHA-256 over all facts and the content behind them: an edit of a file that was dirty before changes it.
    pub fingerprint: String,
}

impl GitFacts {
    /// Returns true when the sandbox holds nothing beyond the commits of HEAD. A removal checks this.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.untracked.is_empty() && self.other_work.is_empty()
    }

    /// Returns the first difference between these facts and earlier ones. Ignores the target's position, and hence
    /// `ahead` and `head_reachable`, for they change from outside the sandbox.
    #[must_use]
    pub fn changed_since(&self, then: &Self) -> Option<String> {
        let differs = [
            (then.head != self.head, "HEAD moved"),
            (then.branch != self.branch, "another branch is checked out"),
            (then.dirty != self.dirty, "tracked files changed"),
            (then.untracked != self.untracked, "untracked files changed"),
            (then.stashes != self.stashes, "stash entries changed"),
            (then.other_work != self.other_work, "other work changed"),
            (then.fingerprint != self.fingerprint, "content changed"),
        ];
        let (_, what) = differs.into_iter().find(|(differs, _)| *differs)?;
        let (was, now) = (then.files(), self.files());
        let one: BTreeSet<&str> = was.symmetric_difference(&now).copied().collect();
        // After a change of content alone, it is unknown which of the files changed.
        let named = if one.is_empty() { now } else { one };
        Some(format!("{what}{}", in_brackets(&named)))
    }

    /// Returns the names of the first files that hold work, in brackets; empty when there is none.
    #[must_use]
    pub fn in_files(&self) -> String {
        in_brackets(&self.files())
    }

    fn files(&self) -> BTreeSet<&str> {
        let all = self.dirty.iter().chain(&self.untracked);
        all.map(String::as_str).collect()
    }

    /// Returns true when all present work is committed. `done` checks this: an agent that amended or rebased leaves
    /// commits behind, in the reflog or in a nested clone, which a removal must save; the agent is finished
    /// nevertheless.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        let finished = self.other_work.iter().all(|work| work.kind().is_finished());
        finished && self.dirty.is_empty() && self.untracked.is_empty()
    }
}

fn in_brackets(files: &BTreeSet<&str>) -> String {
    // Agents choose the names, and people read the text.
    let named: Vec<_> = files
        .iter()
        .take(NAMED)
        .map(|name| shown::line(name))
        .collect();
    match &named[..] {
        [] => String::new(),
        named => format!(" ({})", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::records::{clean, oid};

    #[test]
    fn change_is_named_with_the_files_that_it_is_about() {
        let facts = |dirty: &[&str], fingerprint: &str| GitFacts {
            dirty: dirty.iter().map(ToString::to_string).collect(),
            fingerprint: fingerprint.to_owned(),
            ..clean(oid('a'))
        };
        let one = facts(&["a"], "1");
        let changed = |now: &GitFacts| now.changed_since(&one);
        assert_eq!(changed(&one), None);
        let more = changed(&facts(&["a", "b"], "2"));
        assert_eq!(more.unwrap(), "tracked files changed (b)");
        let content = changed(&facts(&["a"], "2"));
        assert_eq!(content.unwrap(), "content changed (a)");
        let forged = changed(&facts(&["a", "b)\nAll is well"], "2")).unwrap();
        assert!(!forged.contains('\n'), "{forged}");
        let clean = facts(&[], "1");
        let written = facts(&[], "2").changed_since(&clean);
        assert_eq!(written.unwrap(), "content changed");
    }
}
