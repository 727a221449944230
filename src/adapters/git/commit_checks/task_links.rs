//! Refuses commits with links to the files of a task: git would bring them into the sandboxes of others, whose sessions
//! would write into this task.

use std::path::Path;

use super::super::rig::GitRepo;
use super::super::{bytes, injected_files};
use crate::domain::ids::Oid;
use crate::domain::task_names::{is_link_target, is_reserved};
use crate::ports::repo::RepoError;

/// A link that a commit brings.
struct Link {
    commit: String,
    blob: String,
    name: String,
}

/// Refuses a head if it, or a commit below it that no remote has and that may land as well, brings such a link. One that the
/// others have is no fault of the branch. `new` are those commits, where they are known.
///
/// # Errors
/// [`RepoError::Rejected`] says which commit it is.
pub(super) fn check(
    repo: &GitRepo,
    (sandbox, head): (&Path, &Oid),
    old: &[Oid],
    new: Option<&[Oid]>,
) -> Result<(), RepoError> {
    if let Some(new) = new
        && !is_any_tracked(repo, new, head)?
    {
        return Ok(());
    }
    let mut links = brought(repo, head, old)?;
    links.extend(links_of(repo, head)?);
    if links.is_empty() {
        return Ok(());
    }
    let mut before = Vec::new();
    for commit in old {
        before.extend(links_of(repo, commit)?);
    }
    let is_there = |link: &Link| {
        let mut before = before.iter();
        before.any(|before| (&before.name, &before.blob) == (&link.name, &link.blob))
    };
    links.retain(|link| !is_there(link));
    for link in links {
        if is_reserved(&link.name) || leads_to_a_task(repo, sandbox, &link)? {
            let Link { commit, name, .. } = link;
            return Err(RepoError::Rejected(format!(
                "{}: {name} is a link in the place of the supervisor's link to a task file, and no commit may have it",
                commit.get(..10).unwrap_or(&commit)
            )));
        }
    }
    Ok(())
}

fn is_any_tracked(repo: &GitRepo, new: &[Oid], head: &Oid) -> Result<bool, RepoError> {
    for commit in new.iter().chain([head]) {
        let tracked = injected_files::tracked(repo, commit, injected_files::EXCLUDED)?;
        if tracked.contains(&true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn leads_to_a_task(repo: &GitRepo, sandbox: &Path, link: &Link) -> Result<bool, RepoError> {
    let target = repo.git().args(["cat-file", "blob", &link.blob]);
    let target = target.run()?.stdout;
    Ok(is_link_target(sandbox, bytes::path(&target)))
}

/// Returns the links under the names of task files that the commits of a head bring, if no remote has them.
fn brought(repo: &GitRepo, head: &Oid, old: &[Oid]) -> Result<Vec<Link>, RepoError> {
    let log = [
        "log",
        "--full-history",
        "--format=%H",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "-m",
        "--root",
        "-O/dev/null",
    ];
    let git = repo.git().env("GIT_LITERAL_PATHSPECS", "1");
    let log = git.args(log).args([head.as_str(), "--not"]);
    let log = log
        .args(old.iter().map(Oid::as_str))
        .args(["--remotes", "--"]);
    let log = log.args(injected_files::EXCLUDED).run()?.text();
    let (mut commit, mut links) = ("", Vec::new());
    for line in log.lines().filter(|line| !line.is_empty()) {
        let Some(change) = line.strip_prefix(':') else {
            commit = line;
            continue;
        };
        // `<mode before> <mode after> <id before> <id after> <status>\t<path>`
        let (fields, name) = change.split_once('\t').unwrap_or((change, ""));
        if let [_, "120000", _, blob, _] = fields.split(' ').collect::<Vec<_>>()[..] {
            links.push(Link {
                commit: commit.to_owned(),
                blob: blob.to_owned(),
                name: name.to_owned(),
            });
        }
    }
    Ok(links)
}

/// Returns the links under those names that a commit has.
fn links_of(repo: &GitRepo, commit: &Oid) -> Result<Vec<Link>, RepoError> {
    let git = repo.git().env("GIT_LITERAL_PATHSPECS", "1");
    let list = git.args(["ls-tree", commit.as_str(), "--"]);
    let list = list.args(injected_files::EXCLUDED).run()?.text();
    // `120000 blob <id>\t<path>`
    let link = |line: &str| {
        let (blob, name) = line.strip_prefix("120000 blob ")?.split_once('\t')?;
        Some(Link {
            commit: commit.to_string(),
            blob: blob.to_owned(),
            name: name.to_owned(),
        })
    };
    Ok(list.lines().filter_map(link).collect())
}
