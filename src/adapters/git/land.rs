//! Moving the target, and knowing what is on it.

use super::command::{Git, NETWORK};
use super::equal::{self, is_ancestor};
use super::push::{Answer, Push, said, without_password};
use super::remote::{fetch, fetch_target, moved, remote_head, track};
use super::rig::GitRepo;
use super::share;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// So many changed files of a checkout are named.
const NAMED_MAX: usize = 20;

/// Moves the target from `old` to `new` and reads it back. Done already is done.
///
/// # Errors
/// [`RepoError::Moved`] when somebody else pushed, [`RepoError::CheckoutDirty`],
/// [`RepoError::Rejected`], [`RepoError::Remote`].
pub(super) fn land(repo: &GitRepo, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
    // A lease switches git's own fast-forward check off.
    if !is_ancestor(repo.repo_dir(), old, new)? {
        return Err(RepoError::Failed(format!(
            "{new} does not contain {old}: landing it would take commits off {target}"
        )));
    }
    if !repo.pushes() {
        return land_here(repo, target, old, new);
    }
    let url = repo.push_url()?;
    let checkout = repo.own_origin()?;
    let hooks = repo.hooks()?;
    let push = Push {
        dir: repo.repo_dir(),
        hooks: hooks.as_deref(),
        url: &url,
        branch: target,
        head: Some(new),
        lease: Some(old),
        update_checkout: checkout.is_some(),
    };
    match push.run()? {
        Answer::Done => match remote_head(repo, target)? {
            Some(found) if found == *new => track(repo, target, new),
            found => arrived(repo, target, new, new, found),
        },
        Answer::Stale(_) => {
            let found = remote_head(repo, target)?;
            arrived(repo, target, old, new, found)
        }
        Answer::CheckoutDirty(why) => Err(match checkout {
            Some(path) => RepoError::CheckoutDirty {
                path: path.to_owned(),
                detail: changed_files(path).unwrap_or(why),
            },
            None => RepoError::Rejected(why),
        }),
        Answer::Refused(why) => Err(RepoError::Rejected(why)),
    }
}

/// The target is not at `new`: fine when it is past it.
fn arrived(
    repo: &GitRepo,
    target: &str,
    expected: &Oid,
    new: &Oid,
    found: Option<Oid>,
) -> Result<(), RepoError> {
    let Some(found) = found else {
        return Err(moved(target, expected.to_string(), None));
    };
    let tip = fetch_target(repo, target)?.tip;
    if is_ancestor(repo.repo_dir(), new, &tip)? {
        return Ok(());
    }
    Err(moved(target, expected.to_string(), Some(&found)))
}

/// Without pushing, the target is a branch of ours.
fn land_here(repo: &GitRepo, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
    let name = format!("refs/heads/{target}");
    let swap = repo
        .git()
        .args(["update-ref", "-m", "landed", &name])
        .args([new.as_str(), old.as_str()])
        .output()?;
    if swap.ok() {
        return share::publish(repo, &name, new);
    }
    match repo.resolve(&name)? {
        Some(found) if is_ancestor(repo.repo_dir(), new, &found)? => Ok(()),
        Some(found) if found == *old => Err(RepoError::Failed(format!(
            "{name} cannot be moved: {}",
            swap.stderr.trim()
        ))),
        found => Err(moved(target, old.to_string(), found.as_ref())),
    }
}

/// What is changed in a checkout, for people.
fn changed_files(path: &std::path::Path) -> Option<String> {
    let status = Git::in_dir(path)
        .args(["--no-optional-locks", "status", "--porcelain", "-uno"])
        .output()
        .ok()?;
    let text = status.text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.get(3..)).collect();
    if names.is_empty() {
        return None;
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let tail = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{}{tail}", names.join(", ")))
}

/// Whether `commit` is on the target as the remote has it now.
///
/// # Errors
/// [`RepoError::Remote`], [`RepoError::NotFound`] when there is no such target.
pub(super) fn landed(repo: &GitRepo, target: &str, commit: &Oid) -> Result<bool, RepoError> {
    let tip = fetch_target(repo, target)?.tip;
    // All of the target is here now, so a commit that is not here is not on it.
    if repo.resolve(commit.as_str())?.is_none() {
        return Ok(false);
    }
    is_ancestor(repo.repo_dir(), commit, &tip)
}

/// Whether every commit of `head` is on some remote's target or default branch, as ancestor or
/// as an equal patch.
///
/// # Errors
/// A remote that could not be asked, when no other one has the work.
pub(super) fn on_main(repo: &GitRepo, head: &Oid, target: &str) -> Result<bool, RepoError> {
    let mut unknown = None;
    match fetch_target(repo, target) {
        Ok(state) if equal::work(repo.repo_dir(), &state.tip, head)? => return Ok(true),
        Ok(_) | Err(RepoError::NotFound(_)) => {}
        Err(error) => unknown = Some(error),
    }
    for remote in repo.git().arg("remote").run()?.text().lines() {
        match remote_has(repo, remote, head, target) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => {
                unknown.get_or_insert(error);
            }
        }
    }
    unknown.map_or(Ok(false), Err)
}

fn remote_has(repo: &GitRepo, remote: &str, head: &Oid, target: &str) -> Result<bool, RepoError> {
    let mut branches = vec![target.to_owned()];
    branches.extend(default_of(repo, remote)?.filter(|branch| branch != target));
    for branch in branches {
        match fetch(repo, remote, remote, &branch) {
            Err(RepoError::NotFound(_)) => continue,
            other => other?,
        }
        let tip = repo.resolve(&format!("refs/remotes/{remote}/{branch}"))?;
        if let Some(tip) = tip
            && equal::work(repo.repo_dir(), &tip, head)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The branch that a remote's HEAD names.
fn default_of(repo: &GitRepo, remote: &str) -> Result<Option<String>, RepoError> {
    let output = repo
        .git()
        .args(["ls-remote", "--symref", remote, "HEAD"])
        .limit(NETWORK)
        .output()
        .map_err(|error| without_password(error, &format!("reading of {remote}")))?;
    if !output.ok() {
        return Err(RepoError::Remote(said(&output, remote)));
    }
    let text = output.text();
    let head = text.lines().find_map(|line| {
        let name = line.strip_prefix("ref: refs/heads/")?;
        Some(name.split_once('\t')?.0.to_owned())
    });
    Ok(head)
}
