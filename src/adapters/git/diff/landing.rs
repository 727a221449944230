//! Pushed work as it would land: it is merged with the target as it was fetched last, in memory.

use std::time::Duration;

use super::super::facts::merge_base;
use super::super::merge::{self, Apart};
use super::super::rig::GitRepo;
use super::{LIMIT, Scratch, between, counted, origin};
use crate::domain::ids::Oid;
use crate::domain::merge::MergeOutcome;
use crate::domain::work_diff::{Diff, DiffSum};
use crate::ports::repo::{LandRequest, PendingWork, RepoError, Signature};

/// The longest time in which git sums up the changes of a merge request.
const SUM_LIMIT: Duration = Duration::from_secs(5);

/// The trees to compare, and what their difference is.
struct Compared {
    from: Option<Oid>,
    to: Oid,
    note: String,
}

/// Returns what pushed work would change.
///
/// # Errors
/// When git cannot read it.
pub(in super::super) fn of_landing(repo: &GitRepo, work: &PendingWork) -> Result<Diff, RepoError> {
    let scratch = Scratch::new(repo)?;
    let Compared { from, to, note } = compared(repo, &scratch, work, LIMIT)?;
    Ok(Diff {
        head: Some(work.head.clone()),
        note: Some(note),
        ..between(repo, || scratch.git(repo), from, to.as_str())?
    })
}

/// Sums up what pushed work would change.
///
/// # Errors
/// When git cannot read it, or takes long.
pub(in super::super) fn sum_of_landing(
    repo: &GitRepo,
    work: &PendingWork,
) -> Result<DiffSum, RepoError> {
    let scratch = Scratch::new(repo)?;
    let Compared { from, to, .. } = compared(repo, &scratch, work, SUM_LIMIT)?;
    let from = origin(repo, from.as_ref())?;
    let files = counted(scratch.git(repo), [&from, to.as_str()], SUM_LIMIT)?;
    let diff = Diff {
        files,
        ..Diff::default()
    };
    Ok(diff.sum())
}

/// Merges the work in the scratch directory: each look would otherwise leave objects in ours, where nothing names them.
fn compared(
    repo: &GitRepo,
    scratch: &Scratch,
    work: &PendingWork,
    limit: Duration,
) -> Result<Compared, RepoError> {
    let (head, target) = (&work.head, &work.target);
    let Some(tip) = repo.target_tip(target)? else {
        return Ok(Compared {
            from: None,
            to: head.clone(),
            note: format!("{} in full: {target} has no commit", head.short()),
        });
    };
    let at = format!("{target} at {}", tip.short());
    // A person is shown the work also where it cannot land as it is.
    let of_branch = |why: String| {
        Ok(Compared {
            from: merge_base(repo, head, Some(&tip))?,
            to: head.clone(),
            note: format!("the branch since it left {target}: {why}"),
        })
    };
    let request = LandRequest {
        head: head.clone(),
        began: work.began.clone(),
        onto: tip.clone(),
        style: work.style,
        title: String::new(),
        trailers: Vec::new(),
        committer: Signature {
            name: "preview".to_owned(),
            email: "preview@invalid".to_owned(),
        },
    };
    let apart = Apart {
        dir: scratch.0.path().to_owned(),
        limit,
    };
    match merge::preview(repo, &request, apart) {
        Ok(MergeOutcome::Clean { tree, .. }) => Ok(Compared {
            from: Some(tip.clone()),
            to: tree,
            note: format!("what would land: {} merged with {at}", head.short()),
        }),
        Ok(MergeOutcome::Nothing) => Ok(Compared {
            from: Some(tip.clone()),
            to: tip.clone(),
            note: format!("nothing would land: {at} has all of it"),
        }),
        Ok(MergeOutcome::Conflict(files)) => {
            of_branch(format!("it conflicts with {at} in {}", files.join(", ")))
        }
        Ok(MergeOutcome::Unrelated) => of_branch(format!("it shares no history with {at}")),
        Err(error) => of_branch(format!("it cannot be merged with {at} now ({error})")),
    }
}
