//! The remote's branches: read, fetched, pushed with read-back, deleted with a lease.
//!
//! With `push = false` there is no remote: branches and target exist in ours alone, and `refs/horde/pushed/*` takes
//! the place of pushed branches. Such a ref outlives the sandbox and its local branch, as it would on a remote.

use super::branches::drop_branch;
use super::fetch::network;
use super::name_locks;
use super::push::{Answer, Push};
use super::rig::{GitRepo, locked, oid};
use super::share;
use crate::domain::ids::Oid;
use crate::ports::repo::{RepoError, TargetState};

/// git's words for a ref that cannot be written, among others because of one above or below it.
const CANNOT_LOCK: &str = "cannot lock ref";
/// The prefix of pushed branches without a remote.
pub(super) const PUSHED: &str = "refs/horde/pushed";

/// Fetches the branch from the remote that is pushed to, and returns its state.
///
/// # Errors
/// [`RepoError::NotFound`] if there is no such branch, [`RepoError::Remote`].
pub(super) fn fetch_target(repo: &GitRepo, branch: &str) -> Result<TargetState, RepoError> {
    let local = format!("refs/heads/{branch}");
    if repo.pushes() {
        fetch(repo, "origin", branch)?;
        return state(repo, &format!("refs/remotes/origin/{branch}"));
    }
    if repo.resolve(&local)?.is_none() {
        fetch(repo, "origin", branch)?;
        let start = state(repo, &format!("refs/remotes/origin/{branch}"))?;
        // The empty old value means: only create the ref.
        repo.git()
            .args(["update-ref", &local, start.tip.as_str(), ""])
            .run()?;
        share::publish(repo, &local, &start.tip);
    }
    state(repo, &local)
}

/// Fetches one branch of one remote into its remote-tracking ref.
///
/// # Errors
/// [`RepoError::NotFound`] if the remote has no such branch, [`RepoError::Remote`].
pub(super) fn fetch(repo: &GitRepo, remote: &str, branch: &str) -> Result<(), RepoError> {
    let _turn = name_locks::take(repo.repo_dir(), &format!("{remote}/{branch}"));
    let name = format!("refs/remotes/{remote}/{branch}");
    let from = repo.url_of(remote)?;
    let get = || {
        let git = repo
            .git_at_remote()
            .args(["fetch", "--quiet", "--no-write-fetch-head", "--no-tags"])
            .args(["--no-recurse-submodules", "--no-auto-maintenance", &from])
            .arg(format!("+refs/heads/{branch}:{name}"));
        network(git, &from, &format!("fetch of {branch}"))
    };
    let fetched = match get() {
        Err(RepoError::Remote(why)) if why.contains(CANNOT_LOCK) && drop_outdated(repo, &name)? => {
            get()
        }
        fetched => fetched,
    };
    match fetched {
        Ok(_) => {
            if let Some(tip) = repo.resolve(&name)? {
                share::publish(repo, &name, &tip);
            }
            Ok(())
        }
        // git has no exit code of its own for that.
        Err(RepoError::Remote(why)) if why.contains("couldn't find remote ref") => {
            Err(RepoError::NotFound(format!("branch {branch} on {remote}")))
        }
        Err(error) => Err(error),
    }
}

/// Deletes the refs that leave no room for this one: `topic` beside `topic/x`. The remote has this one now, so it has
/// them no more. Returns true if there were any.
fn drop_outdated(repo: &GitRepo, name: &str) -> Result<bool, RepoError> {
    let is_in_the_way = |other: &String| {
        let is_below = |one: &str, above: &str| {
            one.strip_prefix(above)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        is_below(name, other) || is_below(other, name)
    };
    let refs = repo.refs()?.into_iter().map(|(_, name)| name);
    let outdated: Vec<String> = refs.filter(is_in_the_way).collect();
    for other in &outdated {
        delete_tracking(repo, other)?;
    }
    Ok(!outdated.is_empty())
}

/// Deletes a remote-tracking ref, if it exists: git fails to delete a missing one that has the name of a directory of
/// refs.
pub(super) fn forget(repo: &GitRepo, name: &str) -> Result<(), RepoError> {
    match repo.resolve(name)? {
        Some(_) => delete_tracking(repo, name),
        None => Ok(()),
    }
}

fn delete_tracking(repo: &GitRepo, name: &str) -> Result<(), RepoError> {
    repo.git()
        .args(["update-ref", "--no-deref", "-d", name])
        .run()?;
    share::withdraw(repo, name);
    Ok(())
}

/// Returns the current commit of the remote's branch.
///
/// # Errors
/// [`RepoError::Remote`].
pub(super) fn remote_head(repo: &GitRepo, branch: &str) -> Result<Option<Oid>, RepoError> {
    if !repo.pushes() {
        return repo.resolve(&format!("{PUSHED}/{branch}"));
    }
    let name = format!("refs/heads/{branch}");
    let url = repo.push_url()?;
    let git = repo.git_at_remote();
    let git = git.args(["ls-remote", "--refs", &url, &name]);
    let text = network(git, &url, &format!("reading of {branch}"))?.text();
    // The pattern also matches `x/refs/heads/<branch>`.
    let found = text.lines().find_map(|line| {
        let (id, ref_name) = line.split_once('\t')?;
        (ref_name == name).then(|| oid(id))
    });
    found.transpose()
}

/// Pushes `head` to the remote branch and reads it back.
///
/// # Errors
/// [`RepoError::Moved`] if the branch is at another commit, [`RepoError::Rejected`], [`RepoError::Remote`].
pub(super) fn push_branch(
    repo: &GitRepo,
    branch: &str,
    head: &Oid,
    expected: Option<&Oid>,
) -> Result<(), RepoError> {
    repo.take(std::slice::from_ref(head))?;
    if !repo.pushes() {
        return keep_branch(repo, branch, head, expected);
    }
    let push = Push {
        repo,
        branch,
        head: Some(head),
        lease: expected,
        is_rehearsal: false,
    };
    match push.run()? {
        Answer::Done => {}
        Answer::Stale(why) => {
            let found = remote_head(repo, branch)?;
            if found.as_ref() == expected {
                // The branch is as expected: another process at the remote locks it for a moment, or it cannot be written.
                return Err(RepoError::Remote(why));
            }
            let wanted = expected.map_or_else(|| format!("at or before {head}"), Oid::to_string);
            return Err(moved(branch, wanted, found.as_ref()));
        }
        Answer::Refused(why) => return Err(RepoError::Rejected(why)),
    }
    match remote_head(repo, branch)? {
        Some(found) if found == *head => track(repo, branch, head),
        found => Err(moved(branch, head.to_string(), found.as_ref())),
    }
}

/// Does what a remote would do with the push: moves the branch only by fast-forward or by lease.
fn keep_branch(
    repo: &GitRepo,
    branch: &str,
    head: &Oid,
    expected: Option<&Oid>,
) -> Result<(), RepoError> {
    let name = format!("{PUSHED}/{branch}");
    let wanted = || expected.map_or_else(|| format!("at or before {head}"), Oid::to_string);
    let current = match repo.resolve(&name)? {
        Some(current) if current == *head => return Ok(()),
        Some(current) => {
            let leased = expected == Some(&current);
            let forward = expected.is_none() && repo.is_ancestor(&current, head)?;
            if !(leased || forward) {
                return Err(moved(branch, wanted(), Some(&current)));
            }
            current.to_string()
        }
        None if expected.is_some() => return Err(moved(branch, wanted(), None)),
        None => String::new(),
    };
    // A sandbox may be removed because of this ref, so it must survive a loss of power.
    repo.git()
        .args(["-c", "core.fsync=committed,reference", "update-ref"])
        .args([&name, head.as_str(), &current])
        .run()
        .map(drop)
}

/// Deletes the remote branch if it is still at `head`, then its remote-tracking ref and the local branch. The local
/// branch stays if nothing else reaches its commit: call this before the pin is dropped.
///
/// # Errors
/// [`RepoError::Moved`], [`RepoError::Rejected`], [`RepoError::Remote`].
pub(super) fn delete_branch(repo: &GitRepo, branch: &str, head: &Oid) -> Result<(), RepoError> {
    if repo.pushes() {
        delete_remote(repo, branch, head)?;
    } else {
        delete_kept(repo, branch, head)?;
    }
    forget(repo, &format!("refs/remotes/origin/{branch}"))?;
    // Locked, so that no worktree checks the branch out meanwhile.
    let _worktrees = locked(&repo.state.worktrees);
    drop_branch(repo, branch).map(drop)
}

fn delete_kept(repo: &GitRepo, branch: &str, head: &Oid) -> Result<(), RepoError> {
    let name = format!("{PUSHED}/{branch}");
    match repo.resolve(&name)? {
        None => Ok(()),
        Some(found) if found == *head => repo
            .git()
            .args(["update-ref", "-d", &name, head.as_str()])
            .run()
            .map(drop),
        Some(found) => Err(moved(branch, head.to_string(), Some(&found))),
    }
}

fn delete_remote(repo: &GitRepo, branch: &str, head: &Oid) -> Result<(), RepoError> {
    let push = Push {
        repo,
        branch,
        head: None,
        lease: Some(head),
        is_rehearsal: false,
    };
    let answer = push.run()?;
    if answer == Answer::Done {
        return Ok(());
    }
    // A missing branch is refused in more than one way; the remote itself decides.
    match (remote_head(repo, branch)?, answer) {
        (None, _) => Ok(()),
        (Some(found), _) if found != *head => Err(moved(branch, head.to_string(), Some(&found))),
        (Some(_), Answer::Refused(why) | Answer::Stale(why)) => Err(RepoError::Rejected(why)),
        (Some(_), Answer::Done) => Ok(()),
    }
}

/// Records the commit of the remote's branch here.
pub(super) fn track(repo: &GitRepo, branch: &str, tip: &Oid) -> Result<(), RepoError> {
    let name = format!("refs/remotes/origin/{branch}");
    let _turn = name_locks::take(repo.repo_dir(), &format!("origin/{branch}"));
    // A sandbox may be removed because of this ref.
    let set = || {
        let git = repo.git();
        let git = git.args(["-c", "core.fsync=committed,reference", "update-ref"]);
        git.args([&name, tip.as_str()]).run()
    };
    match set() {
        Err(RepoError::Git { stderr, .. })
            if stderr.contains(CANNOT_LOCK) && drop_outdated(repo, &name)? =>
        {
            set()?
        }
        set => set?,
    };
    share::publish(repo, &name, tip);
    Ok(())
}

/// The error for a branch at an unexpected commit.
pub(super) fn moved(branch: &str, expected: String, found: Option<&Oid>) -> RepoError {
    RepoError::Moved {
        name: format!("refs/heads/{branch}"),
        expected,
        found: found.map_or_else(|| "absent".to_owned(), Oid::to_string),
    }
}

fn state(repo: &GitRepo, name: &str) -> Result<TargetState, RepoError> {
    let known = || {
        let known = repo.known()?;
        let tip = known.commit(name)?;
        let tree = known.tree(&tip)?;
        Some(TargetState { tip, tree })
    };
    if let Some(state) = known() {
        return Ok(state);
    }
    let output = repo
        .git()
        .arg("rev-parse")
        .args([format!("{name}^{{commit}}"), format!("{name}^{{tree}}")])
        .run()?;
    let text = output.text();
    let mut ids = text.lines();
    let (Some(tip), Some(tree)) = (ids.next(), ids.next()) else {
        return Err(RepoError::NotFound(name.to_owned()));
    };
    Ok(TargetState {
        tip: oid(tip)?,
        tree: oid(tree)?,
    })
}
