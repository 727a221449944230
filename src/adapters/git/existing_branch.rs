//! Finds an existing branch that work is to begin on: at the remote, and in the checkout of the rig.

use std::path::{Path, PathBuf};

use super::command::Git;
use super::facts::merge_base;
use super::fetch::network;
use super::rig::{GitRepo, resolve};
use super::{lfs, remote};
use crate::domain::city::RigSource;
use crate::domain::existing_branch::BranchAt;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The prefix of a checkout's branch while it is copied to ours. The ref goes when the commit is known: no object of
/// ours is ever pruned.
pub(super) const COPIED: &str = "refs/horde/start";
/// The number of names that a similar one is searched among.
const NAMES_MAX: usize = 5_000;

/// Fetches the branch from both places, so that ours has its commits.
pub(super) fn find(repo: &GitRepo, branch: &str) -> Result<BranchAt, RepoError> {
    let checkout = match repo.source() {
        RigSource::Path(path) => Some(path.as_path()),
        RigSource::Remote(_) => None,
    };
    let remote = at_remote(repo, branch)?;
    let local = match checkout {
        Some(checkout) => in_checkout(repo, checkout, branch)?,
        None => None,
    };
    if let (Some(checkout), Some(tip)) = (checkout, &local) {
        lfs::lend(&lfs_store(checkout)?, repo, tip)?;
    }
    let (ahead, behind) = match (&local, &remote) {
        (Some(local), Some(remote)) if local != remote => apart(repo, local, remote)?,
        _ => (0, 0),
    };
    let is_missing = remote.is_none() && local.is_none();
    Ok(BranchAt {
        checked_out: match (checkout, is_missing) {
            (Some(checkout), false) => checked_out(checkout, branch)?,
            _ => None,
        },
        others: match is_missing {
            true => names(repo, checkout)?,
            false => Vec::new(),
        },
        remote,
        local,
        ahead,
        behind,
    })
}

/// Fetches the target, and returns the newest of its commits that `head` has.
pub(super) fn fork_point(
    repo: &GitRepo,
    head: &Oid,
    target: &str,
) -> Result<Option<Oid>, RepoError> {
    match remote::fetch_target(repo, target) {
        Ok(state) => merge_base(repo, head, Some(&state.tip)),
        Err(RepoError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn at_remote(repo: &GitRepo, branch: &str) -> Result<Option<Oid>, RepoError> {
    let tracking = format!("refs/remotes/origin/{branch}");
    match remote::fetch(repo, "origin", branch) {
        Ok(()) => repo.resolve(&tracking),
        // Without a remote, the branches of raiders are kept in ours.
        Err(RepoError::NotFound(_)) if !repo.pushes() => remote::remote_head(repo, branch),
        Err(RepoError::NotFound(_)) => {
            remote::forget(repo, &tracking)?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Copies the branch of the checkout to ours. The checkout is only read.
fn in_checkout(repo: &GitRepo, checkout: &Path, branch: &str) -> Result<Option<Oid>, RepoError> {
    let name = format!("refs/heads/{branch}");
    let Some(tip) = resolve(Git::in_dir(checkout).as_user(), &name)? else {
        return Ok(None);
    };
    if repo.resolve(tip.as_str())?.is_some() {
        return Ok(Some(tip));
    }
    let copied = format!("{COPIED}/{branch}");
    let output = repo
        .git_at_remote()
        .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
        .args(["--no-recurse-submodules", "--no-auto-maintenance"])
        .arg(checkout)
        .arg(format!("+{name}:{copied}"))
        .limit(super::command::NETWORK)
        .output()?;
    let found = repo.resolve(&copied)?;
    repo.git()
        .args(["update-ref", "--no-deref", "-d", &copied])
        .run()?;
    match found {
        Some(found) if output.ok() && found == tip => Ok(Some(tip)),
        Some(_) if output.ok() => {
            let what = format!(
                "branch {branch} of {} was moved meanwhile",
                checkout.display()
            );
            Err(RepoError::Failed(format!("{what}; try again")))
        }
        _ => Err(RepoError::Failed(format!(
            "branch {branch} cannot be copied from {}: {}",
            checkout.display(),
            output.stderr.trim()
        ))),
    }
}

/// Returns the directory in which git-lfs keeps the files of the checkout.
fn lfs_store(checkout: &Path) -> Result<PathBuf, RepoError> {
    let git = || Git::in_dir(checkout).as_user();
    let dir = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let dir = PathBuf::from(git().args(dir).run()?.text().trim());
    let named = git().args(["config", "--get", "lfs.storage"]).output()?;
    let storage = named.text().trim().to_owned();
    let is_named = named.ok() && !storage.is_empty();
    let storage = if is_named { storage.as_str() } else { "lfs" };
    Ok(dir.join(storage).join("objects"))
}

/// Returns the number of commits that only the first has, and that only the second has.
fn apart(repo: &GitRepo, local: &Oid, remote: &Oid) -> Result<(u64, u64), RepoError> {
    let range = format!("{local}...{remote}");
    let counted = repo
        .git()
        .args(["rev-list", "--left-right", "--count", &range])
        .run()?
        .text();
    let mut counts = counted.split_whitespace().map(str::parse::<u64>);
    match (counts.next(), counts.next()) {
        (Some(Ok(ahead)), Some(Ok(behind))) => Ok((ahead, behind)),
        _ => Err(RepoError::Failed(format!("git rev-list said {counted:?}"))),
    }
}

/// Returns the worktree of the checkout's repository that has the branch checked out.
fn checked_out(checkout: &Path, branch: &str) -> Result<Option<String>, RepoError> {
    let listed = Git::in_dir(checkout)
        .as_user()
        .args(["worktree", "list", "--porcelain"])
        .run()?
        .text();
    let wanted = format!("branch refs/heads/{branch}");
    let mut place = None;
    for line in listed.lines() {
        if let Some(path) = line.strip_prefix("worktree ") {
            place = Some(path.to_owned());
        }
        if line == wanted {
            return Ok(place);
        }
    }
    Ok(None)
}

/// Returns the names of the branches at the remote and in the checkout.
fn names(repo: &GitRepo, checkout: Option<&Path>) -> Result<Vec<String>, RepoError> {
    let url = repo.push_url()?;
    let git = repo.git_at_remote();
    let git = git.args(["ls-remote", "--refs", "--heads", &url]);
    let text = network(git, &url, "reading of the branches")?.text();
    let remote = text
        .lines()
        .filter_map(|line| line.split_once("\trefs/heads/"));
    let mut names: Vec<_> = remote
        .map(|(_, name)| name.to_owned())
        .take(NAMES_MAX)
        .collect();
    if let Some(checkout) = checkout {
        let listed = Git::in_dir(checkout)
            .as_user()
            .args(["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])
            .run()?
            .text();
        names.extend(listed.lines().map(str::to_owned).take(NAMES_MAX));
    }
    Ok(names)
}
