//! The differences of sandboxes and commits that exist only as facts.

use super::Inner;
use crate::domain::facts::GitFacts;
use crate::domain::ids::Oid;
use crate::domain::work_diff::{Diff, FileChange};

/// Returns a difference of a line in each uncommitted file.
pub(super) fn diff_of(facts: &GitFacts) -> Diff {
    let files = facts.dirty.iter().chain(&facts.untracked);
    let file = |path: &String| FileChange {
        path: path.clone(),
        added: Some(1),
        removed: Some(0),
    };
    Diff {
        files: files.map(file).collect(),
        ..diff_of_head(&facts.head)
    }
}

/// Returns the difference of a commit without files.
pub(super) fn diff_of_head(head: &Oid) -> Diff {
    Diff {
        head: Some(head.clone()),
        ..Diff::default()
    }
}

impl Inner {
    /// Returns the paths that a commit changes. A merge changes those of its head, and what merges bring.
    pub(super) fn changed_by(&self, commit: &Oid) -> Vec<String> {
        let head = self.made.get(commit);
        let own = self.changed.get(head.unwrap_or(commit));
        let mut paths = own.cloned().unwrap_or_default();
        paths.extend(self.brought.iter().filter(|_| head.is_some()).cloned());
        paths
    }
}
