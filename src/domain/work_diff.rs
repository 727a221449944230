//! The difference between a raider's work and what it would land on, as people read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::Oid;

/// The changes of a piece of work: those that would land, or those since it left its target branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The commit that it is compared with: the tip of the target that it is merged with, or the commit that both share; none if
    /// they share no history, or the target has no commit.
    #[schemars(with = "Option<String>")]
    pub base: Option<Oid>,
    /// The commit of the work.
    #[schemars(with = "Option<String>")]
    pub head: Option<Oid>,
    /// The changed files, sorted by path.
    pub files: Vec<FileChange>,
    /// The patch, as `git diff` prints it.
    pub text: String,
    /// Set when the patch, or the list of files, is longer than what is answered: its end is missing.
    pub is_cut: bool,
    /// The subject of the comparison: the work merged with its target, or the branch where it cannot be merged; none for a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Paths that are in no commit and not shown: large files, repositories inside, pipes, names that git refuses.
    pub left_out: Vec<String>,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The path.
    pub path: String,
    /// The number of added lines; none for a file that is not text.
    pub added: Option<u64>,
    /// The number of removed lines; none for a file that is not text.
    pub removed: Option<u64>,
}

/// The sum of changes, for a line of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSum {
    /// The number of changed files.
    pub files: u64,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
}

impl Diff {
    /// Returns the sum of its changes.
    #[must_use]
    pub fn sum(&self) -> DiffSum {
        let sum = |count: fn(&FileChange) -> Option<u64>| self.files.iter().filter_map(count).sum();
        DiffSum {
            files: self.files.len() as u64,
            added: sum(|file| file.added),
            removed: sum(|file| file.removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_text_count_as_files_only() {
        let file = |added, removed| FileChange {
            path: "f".to_owned(),
            added,
            removed,
        };
        let diff = Diff {
            files: vec![
                file(Some(2), Some(1)),
                file(None, None),
                file(Some(3), Some(0)),
            ],
            ..Diff::default()
        };
        let sum = DiffSum {
            files: 3,
            added: 5,
            removed: 1,
        };
        assert_eq!(diff.sum(), sum);
    }
}
