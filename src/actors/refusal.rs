//! The reason why an operation was not carried out, in kinds that a caller can act on.

use std::path::Path;
use std::time::Duration;

use crate::domain::nuke::CleanupStatus;
use crate::domain::shown;
use crate::ports::relics::StoreError;
use crate::ports::repo::RepoError;
use crate::ports::sessions::SessionError;
use crate::ports::tasks::TaskError;

/// A transient failure that lasts this long is reported to a person: a remote that is away for longer may not know this
/// host any more.
pub const LASTING: Duration = Duration::from_secs(30 * 60);

/// A refused or failed operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of the refusal.
    pub kind: RefusalKind,
    /// The problem, as a lowercase fragment.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// The work that would have been lost, a line each.
    pub losses: Vec<String>,
    /// The measured status, if a sandbox was kept for that.
    pub status: Option<CleanupStatus>,
}

/// The kind of a refusal; decides the caller's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request makes no sense.
    BadRequest,
    /// The branch has no commit of its own to land.
    NoCommits,
    /// No such object.
    NotFound,
    /// Work would be lost.
    WorkAtRisk,
    /// The salvage that is needed does not fit into the configured room; a person was called.
    NoRoom,
    /// A person has to act first: a dialog is open.
    NeedsHuman,
    /// The account of the harness is at a limit, or wants a login.
    Parked,
    /// The present state forbids it.
    Conflict,
    /// The judged state changed meanwhile; nothing was touched.
    Changed,
    /// A required step failed: a set-up command, the start of a session.
    Failed,
    /// Not available at present; retry later.
    Unavailable,
    /// The operation took too long.
    Timeout,
    /// A bug, or a damaged file.
    Internal,
}

impl Refusal {
    /// Returns true when text may be typed later: a person, a dialog or other text is in the way.
    #[must_use]
    pub fn is_later(&self) -> bool {
        matches!(self.kind, RefusalKind::NeedsHuman | RefusalKind::Conflict)
    }

    /// Builds a refusal of this kind.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            losses: Vec::new(),
            status: None,
        }
    }

    /// Builds a refusal because the present state forbids it.
    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, message)
    }

    /// Builds a refusal for a bug or a damaged file.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Internal, message)
    }

    /// Builds a refusal because there is no such object.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotFound, message)
    }

    /// Builds a refusal because work would be lost.
    #[must_use]
    pub fn work_at_risk(message: impl Into<String>, losses: Vec<String>) -> Self {
        Self {
            losses,
            ..Self::new(RefusalKind::WorkAtRisk, message)
        }
    }

    /// Returns the message, and a line for each loss, whatever names agents gave to their files.
    #[must_use]
    pub fn text(&self) -> String {
        let losses = self.losses.iter();
        losses.fold(self.message.clone(), |text, loss| {
            text + "\n  " + &shown::line(loss)
        })
    }

    /// Returns the same refusal with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns true for a transient failure: a retry may succeed without intervention.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, RefusalKind::Unavailable | RefusalKind::Timeout)
    }

    /// Returns true when a removal is left to the next patrol without an escalation: another task has claimed the
    /// sandbox, or it changed meanwhile, which is counted there.
    #[must_use]
    pub fn is_for_the_patrol(&self) -> bool {
        matches!(self.kind, RefusalKind::Conflict | RefusalKind::Changed)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Unavailable(_) | StoreError::Locked(_) => RefusalKind::Unavailable,
            StoreError::NotFound { .. } => RefusalKind::NotFound,
            StoreError::Conflict(_) => RefusalKind::Conflict,
            StoreError::Failed(_) => RefusalKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

impl Refusal {
    /// Converts git's error; a full disk counts as transient, for an order that can be given again when there is room.
    #[must_use]
    pub fn passing_on_a_full_disk(error: RepoError) -> Self {
        let is_no_room = error.is_no_room();
        let mut refusal = Self::from(error);
        if is_no_room {
            refusal.kind = RefusalKind::Unavailable;
        }
        refusal
    }
}

impl From<RepoError> for Refusal {
    fn from(error: RepoError) -> Self {
        let kind = match &error {
            RepoError::Remote(_)
            | RepoError::Held(_)
            | RepoError::Unseen(_)
            | RepoError::CheckoutBusy { .. } => RefusalKind::Unavailable,
            RepoError::Timeout { .. } => RefusalKind::Timeout,
            RepoError::NotFound(_) => RefusalKind::NotFound,
            RepoError::Rejected(_) | RepoError::Moved { .. } => RefusalKind::Conflict,
            RepoError::PermitStale(_) => RefusalKind::Changed,
            RepoError::Broken { .. } => RefusalKind::Failed,
            RepoError::Git { .. } | RepoError::Damaged { .. } | RepoError::Failed(_) => {
                RefusalKind::Internal
            }
        };
        let message = match error.is_no_room() {
            true => format!("the disk of the city is full or read-only: {error}"),
            false => error.to_string(),
        };
        let refusal = Self::new(kind, message);
        match &error {
            RepoError::Broken { sandbox, .. } => {
                // `<city>/<rig>/raiders/<Name>`: two rigs have the same names.
                let part = |path: Option<&Path>| {
                    let name = path.and_then(Path::file_name).unwrap_or_default();
                    name.to_string_lossy().into_owned()
                };
                let (rig, name) = (part(sandbox.ancestors().nth(2)), part(Some(sandbox)));
                refusal.hint(format!("`hd raider repair {rig}/{name}` rebuilds it"))
            }
            _ => refusal,
        }
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        let kind = match &error {
            SessionError::Gone(_) => RefusalKind::NotFound,
            SessionError::Failed { .. } => RefusalKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<TaskError> for Refusal {
    fn from(error: TaskError) -> Self {
        Self::new(RefusalKind::Internal, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_line_for_each_loss() {
        let losses = vec!["untracked: a\nb\u{1b}[2J".to_owned(), "stash: x".to_owned()];
        let refusal = Refusal::work_at_risk("Toast is kept", losses);
        let text = "Toast is kept\n  untracked: a b\\x1b[2J\n  stash: x";
        assert_eq!(refusal.text(), text);
    }
}
