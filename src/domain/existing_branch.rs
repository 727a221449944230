//! The existing branch that work begins on: where its commit is taken from, and what people are told about that.
//!
//! The raider always works on a branch of its own, which begins at that commit. The existing branch is neither moved nor
//! deleted by the supervisor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Oid, RaiderId};
use super::suggest::closest;

/// The facts about a branch, at the remote and in the rig's checkout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchAt {
    /// Its commit at the remote.
    pub remote: Option<Oid>,
    /// Its commit in the rig's checkout.
    pub local: Option<Oid>,
    /// The number of commits of the checkout's branch that the remote's lacks.
    pub ahead: u64,
    /// The number of commits of the remote's branch that the checkout's lacks.
    pub behind: u64,
    /// The worktree of a person where it is checked out.
    pub checked_out: Option<String>,
    /// The names of other branches, if there is no such branch.
    pub others: Vec<String>,
}

/// The place that the commit is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// The remote.
    Remote,
    /// The checkout, whose branch has all commits of the remote's.
    Local,
}

/// The begin of work on an existing branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The existing branch.
    pub branch: String,
    /// Its commit.
    #[schemars(with = "String")]
    pub head: Oid,
    /// The place that the commit is taken from.
    pub taken: Taken,
    /// A note for people about that; none where both places agree.
    pub note: Option<String>,
}

/// The reason why work cannot begin on a branch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoStart {
    /// Neither the remote nor the checkout has it.
    #[error("there is no branch {branch}, neither at the remote nor in the checkout of the rig")]
    Missing {
        /// The name.
        branch: String,
        /// A branch with a similar name.
        similar: Option<String>,
    },
    /// It is the branch that the work lands on.
    #[error("{0} is the branch that the work lands on; work begins there without --branch")]
    Target(String),
    /// A raider works on it.
    #[error("{branch} is the branch of {raider}, which works on it")]
    InUse {
        /// The name.
        branch: String,
        /// The raider.
        raider: RaiderId,
    },
}

/// Chooses the commit at which work on an existing branch begins. Where remote and checkout differ, the one that has all
/// commits of the other is taken; where neither has, the remote's, because it is shared.
///
/// # Errors
/// [`NoStart::Missing`].
pub fn choose(branch: &str, at: &BranchAt) -> Result<Start, NoStart> {
    let (taken, head, differs) = match (&at.remote, &at.local) {
        (None, None) => {
            let others = at.others.iter().map(String::as_str);
            return Err(NoStart::Missing {
                branch: branch.to_owned(),
                similar: closest(branch, others).map(str::to_owned),
            });
        }
        (Some(remote), None) => (Taken::Remote, remote, None),
        (None, Some(local)) => {
            let why = "it is only in the checkout of the rig: the remote does not have it";
            (Taken::Local, local, Some(why.to_owned()))
        }
        (Some(remote), Some(local)) if remote == local => (Taken::Remote, remote, None),
        (Some(_), Some(local)) if at.behind == 0 => {
            let why = format!(
                "it is taken from the checkout, which has {} that the remote lacks",
                commits(at.ahead)
            );
            (Taken::Local, local, Some(why))
        }
        (Some(remote), Some(_)) if at.ahead == 0 => {
            let why = format!(
                "it is taken from the remote, which has {} that the checkout lacks",
                commits(at.behind)
            );
            (Taken::Remote, remote, Some(why))
        }
        (Some(remote), Some(_)) => {
            let why = format!(
                "remote and checkout have diverged; it is taken from the remote, so {} of the checkout \
                 are not part of the work",
                commits(at.ahead)
            );
            (Taken::Remote, remote, Some(why))
        }
    };
    let checked_out = at.checked_out.as_ref().map(|place| {
        format!("it is checked out in {place}: changes there that are not committed are not part of the work")
    });
    let notes: Vec<_> = differs.into_iter().chain(checked_out).collect();
    Ok(Start {
        branch: branch.to_owned(),
        head: head.clone(),
        taken,
        note: (!notes.is_empty()).then(|| format!("{branch}: {}", notes.join("; "))),
    })
}

fn commits(count: u64) -> String {
    match count {
        1 => "1 commit".to_owned(),
        count => format!("{count} commits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::records::oid;

    /// A row: remote, checkout, commits that only the checkout has, commits that only the remote has; the place that is
    /// taken, and words of the note.
    #[test]
    fn remote_and_checkout_that_differ_are_told() {
        let (a, b) = (oid('a'), oid('b'));
        let rows = [
            (Some(&a), None, 0, 0, Taken::Remote, None),
            (
                None,
                Some(&b),
                0,
                0,
                Taken::Local,
                Some("only in the checkout"),
            ),
            (Some(&a), Some(&a), 0, 0, Taken::Remote, None),
            (
                Some(&a),
                Some(&b),
                2,
                0,
                Taken::Local,
                Some("2 commits that the remote lacks"),
            ),
            (
                Some(&a),
                Some(&b),
                0,
                1,
                Taken::Remote,
                Some("1 commit that the checkout lacks"),
            ),
            (
                Some(&a),
                Some(&b),
                2,
                1,
                Taken::Remote,
                Some("have diverged; it is taken from the remote"),
            ),
        ];
        for (remote, local, ahead, behind, taken, note) in rows {
            let at = BranchAt {
                remote: remote.cloned(),
                local: local.cloned(),
                ahead,
                behind,
                ..BranchAt::default()
            };
            let start = choose("topic", &at).unwrap();
            let head = match taken {
                Taken::Remote => remote,
                Taken::Local => local,
            };
            assert_eq!((start.taken, Some(&start.head)), (taken, head));
            let told = start.note.unwrap_or_default();
            assert_eq!(told.is_empty(), note.is_none(), "{told}");
            assert!(told.contains(note.unwrap_or_default()), "{told}");
        }
    }

    #[test]
    fn branch_that_a_person_has_checked_out_is_taken_as_it_is_committed() {
        let at = BranchAt {
            remote: Some(oid('a')),
            checked_out: Some("/src/horde".to_owned()),
            ..BranchAt::default()
        };
        let note = choose("topic", &at).unwrap().note.unwrap();
        assert!(
            note.contains("/src/horde") && note.contains("not committed"),
            "{note}"
        );
    }

    #[test]
    fn missing_branch_names_a_similar_one() {
        let at = BranchAt {
            others: vec!["main".to_owned(), "topic".to_owned()],
            ..BranchAt::default()
        };
        let similar = Some("topic".to_owned());
        let branch = "topci".to_owned();
        assert_eq!(
            choose("topci", &at),
            Err(NoStart::Missing { branch, similar })
        );
    }
}
