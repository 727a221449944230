//! Removes terminal logs, which outlive their sessions by the retention time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::{self, RecordRead, Spec};
use super::observe::ObservedSession;
use crate::domain::facts::RunState;
use crate::regular;

/// Removes the logs in a session's directory if the session ended before that time. Returns true if there were any.
/// The caller holds the session's gate: no start is in progress.
pub(super) fn prune(
    dir: &Path,
    sight: Option<&ObservedSession>,
    before: Timestamp,
) -> io::Result<bool> {
    let over = match sight.map(|sight| &sight.facts.state) {
        Some(RunState::Exited(exit)) => exit.at < before,
        Some(RunState::Running | RunState::Lost { .. } | RunState::Unknown { .. }) => false,
        // The session was forgotten, unless a start was interrupted, whose remains are unknown.
        None => files::read::<Spec>(dir, files::SPEC)? == RecordRead::Nothing,
    };
    if !over || written_since(dir, before) || files::is_locked(dir)? {
        return Ok(false);
    }
    let had = [files::LOG, files::OLDER_LOG].map(|name| dir.join(name).exists());
    files::remove(dir, files::OLDER_LOG)?;
    files::remove(dir, files::LOG)?;
    if sight.is_none() {
        files::remove(dir, files::LOCK)?;
        // Other files in the directory are not the supervisor's; they and the directory stay.
        let _not_empty = fs::remove_dir(dir);
    }
    Ok(had.contains(&true))
}

/// Returns the first segment of a session's log that is something other than a file, and what it is. The log is in a
/// directory that agents can write to.
pub(super) fn odd(dir: &Path) -> Option<(PathBuf, &'static str)> {
    let mut segments = [files::LOG, files::OLDER_LOG]
        .map(|name| dir.join(name))
        .into_iter();
    segments.find_map(|path| {
        let found = fs::symlink_metadata(&path).ok()?;
        (!found.is_file()).then(|| (path, regular::kind(&found)))
    })
}

/// Returns true if there is output since that time.
fn written_since(dir: &Path, before: Timestamp) -> bool {
    [files::LOG, files::OLDER_LOG].iter().any(|name| {
        let written = fs::symlink_metadata(dir.join(name)).and_then(|meta| meta.modified());
        written.is_ok_and(|at| Timestamp::try_from(at).is_ok_and(|at| at >= before))
    })
}
