//! Fetches history into our repository (`.horde/custody/RIG.git`): all of it at first, single pushed branches later. Also finds the default branch.

use std::collections::BTreeSet;
use std::time::Duration;

use super::command::{Git, NETWORK, Output};
use super::push::{git_messages, without_password};
use super::remote;
use super::rig::GitRepo;
use super::settings_read::Checkout;
use super::share;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The timeout of the first fetch, which transfers the whole history.
const CLONE: Duration = Duration::from_secs(3600);
/// The user's choice of the tags that are fetched.
const TAGS: &str = "remote.origin.tagopt";
/// The prefix of the checkout's refs during the first fetch.
pub(super) const SEED: &str = "refs/horde/seed";

/// Runs a command that talks to a remote, and is named `what` in a timeout. Its failure is a [`RepoError::Remote`].
pub(super) fn network(git: Git, url: &str, what: &str) -> Result<Output, RepoError> {
    let output = git.limit(NETWORK).output();
    let output = output.map_err(|error| without_password(error, what))?;
    if output.ok() {
        return Ok(output);
    }
    Err(RepoError::Remote(git_messages(&output, url)))
}

/// Fetches the history from the checkout as far as possible, and the rest from the origin. If the origin is
/// unreachable, the checkout's remote-tracking refs are used; not for another origin than before, which `has_moved` says.
pub(super) fn fetch_all(
    repo: &GitRepo,
    checkout: Option<&Checkout>,
    has_moved: bool,
) -> Result<(), RepoError> {
    let own = repo.own_origin()?.is_some();
    if let Some(checkout) = checkout.filter(|_| !own) {
        seed(repo, checkout)?;
    }
    let before = tracked(&repo.refs()?);
    let url = repo.push_url()?;
    let git = repo.git_at_remote().arg("fetch");
    let git = git.args(["--quiet", "--prune", "--no-auto-maintenance"]);
    // `--tags` or `--no-tags`, which git itself reads for a remote that is named.
    let git = git.args(repo.known().and_then(|known| known.setting(TAGS)));
    let git = git.arg(&url).arg("+refs/heads/*:refs/remotes/origin/*");
    let fetched = git.limit(CLONE).output()?;
    let refs = repo.refs()?;
    let known = tracked(&refs);
    for pruned in before.difference(&known) {
        share::withdraw(repo, pruned);
    }
    drop_seeds(repo, &refs)?;
    let why = git_messages(&fetched, &url);
    if !fetched.ok() && (known.is_empty() || has_moved) {
        return Err(RepoError::Remote(why));
    }
    if known.is_empty() {
        return Err(RepoError::Failed("the origin has no branches".to_owned()));
    }
    if !fetched.ok() {
        tracing::warn!(rig = %repo.name(), why, "the origin is unreachable; its last known refs are used");
    }
    Ok(())
}

/// Returns the full names of the remote-tracking refs of the origin.
fn tracked(refs: &[(Oid, String)]) -> BTreeSet<String> {
    let names = refs.iter().map(|it| it.1.clone());
    names
        .filter(|name| name.starts_with("refs/remotes/origin/"))
        .collect()
}

/// Copies the checkout's objects and remote-tracking refs. This only saves time (and helps offline), so a checkout
/// without a complete history (shallow, partial) is skipped.
fn seed(repo: &GitRepo, checkout: &Checkout) -> Result<(), RepoError> {
    let partial = checkout
        .config
        .iter()
        .any(|(key, _)| key.ends_with(".promisor"));
    if checkout.top.is_shallow || partial {
        return Ok(());
    }
    let heads = format!("+refs/heads/*:{SEED}/*");
    let output = repo
        .git_at_remote()
        .args(["fetch", "--quiet", "--no-tags", "--no-auto-maintenance"])
        .arg(&checkout.top.dir)
        .args([&heads, "+refs/remotes/origin/*:refs/remotes/origin/*"])
        .limit(CLONE)
        .output()?;
    if !output.ok() {
        return Err(RepoError::Failed(format!(
            "{} cannot be copied: {}",
            checkout.top.dir.display(),
            output.stderr.trim()
        )));
    }
    Ok(())
}

fn drop_seeds(repo: &GitRepo, refs: &[(Oid, String)]) -> Result<(), RepoError> {
    let seeds = refs.iter().filter(|(_, name)| name.starts_with(SEED));
    let list: String = seeds.map(|(_, name)| format!("delete {name}\n")).collect();
    if list.is_empty() {
        return Ok(());
    }
    let git = repo.git().args(["update-ref", "--stdin"]);
    git.stdin(list).run().map(drop)
}

/// Returns the branch that a remote's HEAD names.
pub(super) fn head_of(repo: &GitRepo, remote: &str) -> Result<Option<String>, RepoError> {
    let (git, url) = (repo.git_at_remote(), repo.url_of(remote)?);
    let git = git.args(["ls-remote", "--symref", &url, "HEAD"]);
    let text = network(git, &url, &format!("reading of {remote}"))?.text();
    let mut lines = text.lines();
    let named = lines.find_map(|line| {
        line.strip_prefix("ref: refs/heads/")?
            .strip_suffix("\tHEAD")
    });
    Ok(named.map(str::to_owned))
}

/// Returns the branch that the origin's HEAD names, by the origin itself or by the checkout.
pub(super) fn remote_head(
    repo: &GitRepo,
    checkout: Option<&Checkout>,
) -> Result<Option<String>, RepoError> {
    let told = match head_of(repo, "origin") {
        Err(RepoError::Remote(_)) => None,
        told => told?,
    };
    let tracked = |branch: Option<&str>| -> Result<Option<String>, RepoError> {
        let Some(branch) = branch else {
            return Ok(None);
        };
        let at = repo.resolve(&format!("refs/remotes/origin/{branch}"))?;
        Ok(at.map(|_| branch.to_owned()))
    };
    let mut found = tracked(told.as_deref())?;
    for (name, prefix) in [
        ("refs/remotes/origin/HEAD", "refs/remotes/origin/"),
        ("HEAD", "refs/heads/"),
    ] {
        let Some(checkout) = checkout.filter(|_| found.is_none()) else {
            return Ok(found);
        };
        let git = Git::in_dir(&checkout.top.dir).as_user();
        let asked = git.args(["symbolic-ref", "--quiet", name]);
        found = tracked(asked.output()?.text().strip_prefix(prefix))?;
    }
    Ok(found)
}

/// Returns the default branch, as discovered when our repository was made.
pub(super) fn default_branch(repo: &GitRepo) -> Result<String, RepoError> {
    const HEAD: &str = "refs/remotes/origin/HEAD";
    let text = match repo.known().and_then(|known| known.target(HEAD)) {
        Some(target) => target,
        None => {
            let git = repo.git().args(["symbolic-ref", "--quiet", HEAD]);
            git.output()?.text()
        }
    };
    if let Some(branch) = text.strip_prefix("refs/remotes/origin/") {
        return Ok(branch.to_owned());
    }
    let list = repo
        .git()
        .args([
            "for-each-ref",
            "--format=%(refname:lstrip=3)",
            "refs/remotes/origin",
        ])
        .run()?
        .text();
    let branches: Vec<&str> = list.lines().collect();
    let usual = ["main", "master", "trunk"]
        .into_iter()
        .find(|name| branches.contains(name));
    let only = (branches.len() == 1).then(|| branches[0]);
    only.or(usual).map(str::to_owned).ok_or_else(|| {
        RepoError::NotFound(
            "the default branch: the origin's HEAD names none; set default_branch".to_owned(),
        )
    })
}

/// Fetches one pushed branch; none if the remote has no such branch.
pub(super) fn fetch_branch(repo: &GitRepo, branch: &str) -> Result<Option<Oid>, RepoError> {
    if !repo.pushes() {
        return remote::remote_head(repo, branch);
    }
    let tracking = format!("refs/remotes/origin/{branch}");
    match remote::fetch(repo, "origin", branch) {
        Ok(()) => repo.resolve(&tracking),
        Err(RepoError::NotFound(_)) => {
            // The remote-tracking ref is outdated.
            remote::forget(repo, &tracking)?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
