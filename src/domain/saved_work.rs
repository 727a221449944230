//! The work of an attempt in a salvage, by the ids of commits. A sandbox borrows the objects of the supervisor's
//! repository and sees none of its refs, so git shows these commits there only by their ids.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::Oid;

/// The work of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SavedWork {
    /// The commit on which the attempt began, where known.
    #[schemars(with = "Option<String>")]
    pub base: Option<Oid>,
    /// Its last commit; none on a branch without commits.
    #[schemars(with = "Option<String>")]
    pub head: Option<Oid>,
    /// The number of its commits that neither the base nor a branch of a person reaches; none where git could not tell.
    pub commits: Option<u64>,
    /// A commit of the files as they were; none where all of them were committed, or the commit could not be made.
    #[schemars(with = "Option<String>")]
    pub files: Option<Oid>,
    /// Commits that its branch had left, as a reset leaves them, and stash entries.
    #[schemars(with = "Vec<String>")]
    pub left: Vec<Oid>,
    /// Commits with objects that could not be read, or were too many to be read: the salvage holds the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub damaged: Vec<Oid>,
}

/// The commits of [`SavedWork::left`], and of [`SavedWork::damaged`], that a text names.
const LEFT_MAX: usize = 5;

/// Returns the command that prints the commits of an attempt, without those that its target has by now. When the base
/// is unknown, it also prints commits that were taken off the target since.
#[must_use]
pub fn log(base: Option<&Oid>, head: &Oid) -> String {
    match base {
        Some(base) => format!("git log -p {base}..{head} --not HEAD"),
        None => format!("git log -p {head} --not HEAD"),
    }
}

impl SavedWork {
    /// Returns sentences about the work, with the commands that print it in any sandbox of the rig.
    #[must_use]
    pub fn describe(&self) -> String {
        let head = self.head.as_ref().filter(|_| self.commits != Some(0));
        let commits = head.map(|head| log(self.base.as_ref(), head));
        let on = self.head.as_ref().or(self.base.as_ref());
        let files = self.files.as_ref().map(|files| match on {
            Some(on) => format!("git diff {on} {files}"),
            None => format!("git show {files}"),
        });
        let mut told = match (commits, files) {
            (Some(commits), Some(files)) => {
                format!("`{commits}` shows its commits. `{files}` shows its uncommitted files.")
            }
            (Some(commits), None) => {
                format!("`{commits}` shows its commits. There is no commit of other files.")
            }
            (None, Some(files)) => {
                format!("It has no new commit. `{files}` shows its uncommitted files.")
            }
            (None, None) => {
                "Its branch has no new commit, and there is no commit of other files.".to_owned()
            }
        };
        if !self.left.is_empty() {
            let (left, more) = named(&self.left);
            told += &format!(
                " `git show {left}` shows commits that its branch had left, and stash entries{more}."
            );
        }
        if let Some(loss) = loss(&self.damaged) {
            told += &format!(" The salvage is incomplete: {loss}.");
        }
        told
    }
}

/// Returns the first of these commits, and how many more there are.
fn named(commits: &[Oid]) -> (String, String) {
    let first: Vec<&str> = commits.iter().take(LEFT_MAX).map(Oid::as_str).collect();
    let more = match commits.len().saturating_sub(LEFT_MAX) {
        0 => String::new(),
        more => format!(" ({more} more are in the salvage)"),
    };
    (first.join(" "), more)
}

/// Returns a clause about commits that were saved in part; none if there are none.
#[must_use]
pub fn loss(damaged: &[Oid]) -> Option<String> {
    let (first, more) = named(damaged);
    let it = || format!("objects of {first}{more} were not read and are not in the salvage");
    (!damaged.is_empty()).then(it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_describes_present_work_and_names_single_commits() {
        let id = |digit: &str| Some(Oid::new(digit.repeat(40)).unwrap());
        let full = SavedWork {
            base: id("a"),
            head: id("b"),
            commits: Some(2),
            files: id("c"),
            ..SavedWork::default()
        };
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let (log, diff) = (
            format!("`git log -p {a}..{b} --not HEAD`"),
            format!("`git diff {b} {c}`"),
        );
        let told = full.describe();
        assert!(told.contains(&log) && told.contains(&diff), "{told}");
        let committed = SavedWork {
            files: None,
            ..full.clone()
        };
        let told = committed.describe();
        assert!(told.contains(&log) && told.contains("no commit of other files"));
        let only_files = SavedWork {
            commits: Some(0),
            ..full.clone()
        };
        let told = only_files.describe();
        assert!(told.contains("no new commit") && told.contains(&diff));
        assert!(!told.contains("git log"), "{told}");
        let unborn = SavedWork {
            files: id("c"),
            ..SavedWork::default()
        };
        assert!(unborn.describe().contains(&format!("`git show {c}`")));
        let nothing = SavedWork {
            files: None,
            ..only_files
        };
        assert!(!nothing.describe().contains('`'), "{}", nothing.describe());
        let reset = SavedWork {
            left: vec![id("d").unwrap(); 7],
            ..nothing
        };
        let told = reset.describe();
        let shown = format!("`git show {}`", vec!["d".repeat(40); 5].join(" "));
        assert!(
            told.contains(&shown) && told.contains("2 more are in the salvage"),
            "{told}"
        );
        assert!(!told.contains("were not read"), "{told}");
        let damaged = SavedWork {
            damaged: vec![id("e").unwrap()],
            ..full.clone()
        };
        let loss = format!("objects of {} were not read", "e".repeat(40));
        assert!(damaged.describe().contains(&loss));
        let without_base = SavedWork {
            base: None,
            commits: None,
            ..full
        };
        let told = without_base.describe();
        assert!(told.contains(&format!("`git log -p {b} --not HEAD`")));
    }
}
