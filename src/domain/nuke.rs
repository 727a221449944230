//! The safety protocol: may this sandbox be removed, as it is now?
//!
//! ```text
//!   measured now            verdict
//!   ─────────────────────   ─────────────────────────────────────────────
//!   cannot be measured      Escalate   (what cannot be probed is precious)
//!   head not reachable      Escalate   (data loss), whatever else there is
//!   uncommitted, special    Skip       (work in progress)
//!   stash of this branch    Skip       (an intentional save)
//!   otherwise               Permit
//!   any of these, but all of it is in salvage refs written from what is there now: Permit
//! ```
//!
//! Commits that an agent left behind by an amend, and commits whose patches are on some remote's target, are salvaged
//! without asking ([`only_left_behind`], [`only_unpushed`]).
//!
//! Source: `witness-patrol.md`, auto-nuke safety protocol; the protocol acts on the measured status, never on the
//! reported one (`product.md`).

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::facts::{GitFacts, Probed, RunState, SessionFacts};
use super::ids::{Generation, Incarnation, RaiderId};
use super::other_work::{OtherWork, OtherWorkKind};

/// A cleanup status, reported by an agent or measured from git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupStatus {
    /// Everything is pushed.
    Clean,
    /// Changes that no commit holds.
    HasUncommitted,
    /// Stash entries of this branch.
    HasStash,
    /// Commits that no other ref reaches.
    HasUnpushed,
}

impl CleanupStatus {
    /// Returns the status that these facts show, the worst first.
    #[must_use]
    pub fn measured(git: &GitFacts) -> Self {
        if !git.head_reachable {
            Self::HasUnpushed
        } else if !git.is_clean() {
            Self::HasUncommitted
        } else if !git.stashes.is_empty() {
            Self::HasStash
        } else {
            Self::Clean
        }
    }
}

/// Returns the measured status when a report disagrees with it. Before the push, a correct report may or may not count
/// the commits; commits left behind by an amend need not be reported.
#[must_use]
pub fn mismatch(reported: CleanupStatus, git: &GitFacts) -> Option<CleanupStatus> {
    let mut pushed = git.clone();
    pushed.head_reachable = true;
    if git.is_committed() {
        pushed.other_work.clear();
    }
    let measured = CleanupStatus::measured(&pushed);
    let honest = [measured, CleanupStatus::measured(git)];
    (!honest.contains(&reported)).then_some(measured)
}

/// The input of the protocol.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The owner of the sandbox.
    pub raider: RaiderId,
    /// The incarnation that the decision is about.
    pub incarnation: Incarnation,
    /// Its directory.
    pub sandbox: PathBuf,
    /// The last known session of it, which has ended; `None` where there was none.
    pub session: Probed<Option<LastSession>>,
    /// Set when a session runs now.
    pub session_runs: bool,
    /// The git facts, measured now.
    pub git: Probed<GitFacts>,
    /// The facts that salvage was written from, if it was.
    pub salvaged: Option<GitFacts>,
    /// The cause of the nuke.
    pub cause: Cause,
    /// When the cause was found: a session that was started later makes the permit stale.
    pub detected: Timestamp,
}

/// A session that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSession {
    /// Unique per start.
    pub token: String,
    /// Its generation.
    pub generation: Generation,
}

/// Permission to remove one sandbox in one state. Only [`judge`] makes one; the effect verifies it again at the instant
/// of acting, so a permit can grow stale but never wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NukePermit {
    raider: RaiderId,
    incarnation: Incarnation,
    sandbox: PathBuf,
    session: Option<LastSession>,
    git: GitFacts,
    cause: Cause,
    detected: Timestamp,
}

impl NukePermit {
    /// Returns the owner of the sandbox.
    #[must_use]
    pub fn raider(&self) -> &RaiderId {
        &self.raider
    }

    /// Returns the owner's incarnation.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns the directory of the sandbox.
    #[must_use]
    pub fn sandbox(&self) -> &PathBuf {
        &self.sandbox
    }

    /// Returns true when this is the session that the permit names, and it has ended: any other makes the permit stale.
    #[must_use]
    pub fn is_for(&self, seen: &SessionFacts) -> bool {
        let ended = !matches!(seen.state, RunState::Running | RunState::Unknown { .. });
        let same = self.session.as_ref().is_some_and(|last| {
            last.token == seen.token
                && last.generation == seen.generation
                && self.incarnation == seen.incarnation
        });
        ended && same && seen.started_at <= self.detected
    }

    /// Returns the facts that it was given for.
    #[must_use]
    pub fn git(&self) -> &GitFacts {
        &self.git
    }

    /// Returns the cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }
}

/// The decision of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an unused verdict protects no work"]
pub enum Judgement {
    /// Remove it.
    Permit(Box<NukePermit>),
    /// Keep the sandbox and look again later.
    Skip {
        /// The measured status.
        status: CleanupStatus,
        /// The losses, for people.
        losses: Vec<String>,
    },
    /// Keep the sandbox and call a person.
    Escalate {
        /// The measured status, if it could be measured.
        status: Option<CleanupStatus>,
        /// The losses, for people.
        losses: Vec<String>,
    },
}

/// Applies the protocol.
pub fn judge(evidence: Evidence) -> Judgement {
    let Evidence {
        raider,
        incarnation,
        sandbox,
        session,
        session_runs,
        git,
        salvaged,
        cause,
        detected,
    } = evidence;
    let git = match git {
        Probed::Known(git) => git,
        Probed::Unknown(why) => {
            let losses = vec![format!("the sandbox cannot be inspected: {why}")];
            return Judgement::Escalate {
                status: None,
                losses,
            };
        }
    };
    let session = match session {
        Probed::Known(session) if !session_runs => session,
        Probed::Known(_) => {
            let losses = vec!["a session still runs in it".to_owned()];
            return Judgement::Escalate {
                status: None,
                losses,
            };
        }
        Probed::Unknown(why) => {
            let losses = vec![format!("it is unknown whether a session runs: {why}")];
            return Judgement::Escalate {
                status: None,
                losses,
            };
        }
    };
    let status = CleanupStatus::measured(&git);
    let saved = salvaged.is_some_and(|then| git.changed_since(&then).is_none());
    if status == CleanupStatus::Clean || saved {
        let permit = NukePermit {
            raider,
            incarnation,
            sandbox,
            session,
            git,
            cause,
            detected,
        };
        return Judgement::Permit(Box::new(permit));
    }
    let losses = losses(&git);
    match status {
        CleanupStatus::HasUnpushed => Judgement::Escalate {
            status: Some(status),
            losses,
        },
        CleanupStatus::HasUncommitted | CleanupStatus::HasStash | CleanupStatus::Clean => {
            Judgement::Skip { status, losses }
        }
    }
}

/// Returns true when a removal would lose only commits that the agent itself left behind (by an amend or a rebase):
/// they are salvaged without asking, and block nothing.
#[must_use]
pub fn only_left_behind(git: &GitFacts) -> bool {
    let left = !git.other_work.is_empty() && git.is_committed() && is_readable(git);
    left && git.stashes.is_empty() && git.head_reachable
}

/// Returns true when a removal would lose only commits that no ref reaches: they may still be on a target, under other
/// names (`witness-patrol.md`, verifyCommitOnMain).
#[must_use]
pub fn only_unpushed(git: &GitFacts) -> bool {
    !git.head_reachable && git.is_committed() && git.stashes.is_empty() && is_readable(git)
}

/// Returns false when a part of the work cannot be read: its salvage is not complete, and a person decides. The disk or
/// the mode of a file may be the cause, and not the object.
#[must_use]
pub fn is_readable(git: &GitFacts) -> bool {
    let mut kinds = git.other_work.iter().map(OtherWork::kind);
    kinds.all(|kind| kind != OtherWorkKind::Damaged)
}

/// Returns the losses of removing a sandbox with these facts, a line each.
#[must_use]
pub fn losses(git: &GitFacts) -> Vec<String> {
    let mut lines = Vec::new();
    if !git.head_reachable {
        let commits = if git.ahead == 1 { "commit" } else { "commits" };
        lines.push(format!(
            "{} unpushed {commits} up to {}",
            git.ahead.max(1),
            git.head.short()
        ));
    }
    lines.extend(git.dirty.iter().map(|path| format!("uncommitted: {path}")));
    lines.extend(
        git.untracked
            .iter()
            .map(|path| format!("untracked: {path}")),
    );
    lines.extend(git.stashes.iter().map(|stash| format!("stash: {stash}")));
    lines.extend(git.other_work.iter().map(ToString::to_string));
    lines
}

#[cfg(test)]
mod tests;
