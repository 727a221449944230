//! The check whether the commits of a completion may go to a remote.

use super::super::effects;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use crate::domain::facts::GitFacts;
use crate::domain::nuke::CleanupStatus;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;
use crate::domain::task_names;
use crate::ports::repo::{Repo, RepoError};

/// Refuses commits that a remote may refuse, and a head that cannot be merged, while the raider that can repair them
/// exists.
///
/// # Errors
/// [`RefusalKind::BadRequest`] names the commit, and how to rebuild it.
pub(super) async fn check(world: &World, hook: &Hook, git: &GitFacts) -> Result<(), Refusal> {
    if git.ahead == 0 {
        return Ok(());
    }
    let sandbox = world.city.sandbox(&hook.raider);
    let (head, target) = (git.head.clone(), hook.target.clone());
    let fits = move |repo: &dyn Repo| repo.fit(&sandbox, &head, &target);
    match effects::repo_for(world, &hook.raider.rig, effects::WorkKind::Sandbox, fits).await {
        Err(RepoError::Rejected(why)) => {
            let message = format!("a commit of {} cannot land: {why}", hook.branch);
            let base = git.merge_base.as_ref().unwrap_or(&hook.base);
            let [one, without, commit] = task_names::anew_without(base.as_str(), "NAME");
            let hint = format!(
                "make one commit of the present files ({one} && {commit}), \
                which replaces all commits and merges of the branch; a file or link that is named above is taken out before that commit \
                ({without}, and `rm` for a link); or, to keep the others, \
                recreate only that commit (git rebase -i --rebase-merges {base}). Then run `hd done` again"
            );
            Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint))
        }
        fits => fits.map_err(Refusal::passing_on_a_full_disk),
    }
}

/// Returns the refusal of commits that were made after `done` and cannot land, as work at risk.
///
/// # Errors
/// The commits cannot be checked now.
pub async fn unfit(world: &World, hook: &Hook, git: &GitFacts) -> Result<Option<Refusal>, Refusal> {
    match check(world, hook, git).await {
        Ok(()) => Ok(None),
        Err(refused) if refused.kind == RefusalKind::BadRequest => {
            let losses = vec![format!("commits up to {}: {refused}", git.head)];
            Ok(Some(Refusal {
                status: Some(CleanupStatus::measured(git)),
                hint: refused.hint,
                ..Refusal::work_at_risk(ProblemKind::Unpushed.text(), losses)
            }))
        }
        Err(error) => Err(error),
    }
}

/// Checks that HEAD is on the raider's branch, which is pushed and measured again.
///
/// # Errors
/// [`RefusalKind::BadRequest`] says how to move HEAD there.
pub(super) async fn on_branch(world: &World, hook: &Hook, git: &GitFacts) -> Result<(), Refusal> {
    let branch = &hook.branch;
    let (at, from) = match git.branch.as_deref() {
        Some(at) if at == branch => return Ok(()),
        Some(other) => (other, other),
        None => ("a detached HEAD", git.head.short()),
    };
    let message = format!("the sandbox is on {at}, not on {branch}");
    let back = match (is_there(world, hook).await, &git.branch) {
        (true, _) => format!("git checkout {branch} && git merge {from}"),
        (false, Some(other)) => {
            format!("{branch} no longer exists: git branch -m {other} {branch}")
        }
        (false, None) => format!("{branch} no longer exists: git checkout -b {branch}"),
    };
    let hint = format!("{back}, then run `hd done` again");
    Err(Refusal::new(RefusalKind::BadRequest, message).hint(hint))
}

/// Returns true when the raider's branch exists although HEAD is not on it. True when unknown.
async fn is_there(world: &World, hook: &Hook) -> bool {
    let spare = |repo: &dyn Repo| repo.spare_branches();
    let spare = effects::repo(world, &hook.raider.rig, spare).await;
    spare.map_or(true, |spare| spare.iter().any(|it| it.name == hook.branch))
}
