//! Refuses commits with links to the files of a task: git would bring them into the sandboxes of others, whose sessions
//! would write into this task.

use std::path::Path;

use super::super::rig::GitRepo;
use super::super::{bytes, facts, injected_files};
use crate::domain::ids::Oid;
use crate::domain::task_names::{is_link_target, is_reserved};
use crate::ports::repo::RepoError;

/// A link that a commit brings.
struct Link {
    commit: String,
    blob: String,
    name: String,
}

/// Refuses a head if it or a commit below it, which may land as well, brings such a link. One that the others have is no
/// fault of the branch. `new` are the commits that no remote has, where they are known.
///
/// # Errors
/// [`RepoError::Rejected`] says which commit it is, and what helps.
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
    for link in brought(repo, head, old)? {
        let blob = ["cat-file", "blob", &link.blob];
        let leads = || -> Result<bool, RepoError> {
            let target = repo.git().args(blob).run()?.stdout;
            Ok(is_link_target(sandbox, bytes::path(&target)))
        };
        if is_reserved(&link.name) || leads()? {
            return Err(refused(repo, head, old, &link));
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

/// Returns the links under the names of task files that the commits of a head bring.
fn brought(repo: &GitRepo, head: &Oid, old: &[Oid]) -> Result<Vec<Link>, RepoError> {
    let git = || repo.git().env("GIT_LITERAL_PATHSPECS", "1");
    let log = [
        "log",
        "--full-history",
        "--format=%H",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "-m",
        "--root",
    ];
    let log = git().args(log).args([head.as_str(), "--not"]);
    let log = log.args(old.iter().map(Oid::as_str)).arg("--");
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
    if links.is_empty() {
        return Ok(links);
    }
    for commit in old {
        let list = git().args(["ls-tree", commit.as_str(), "--"]);
        let list = list.args(injected_files::EXCLUDED).run()?.text();
        // `120000 blob <id>\t<path>`
        let is_there = |link: &Link| {
            let own = format!("120000 blob {}\t{}", link.blob, link.name);
            list.lines().any(|line| line == own)
        };
        links.retain(|link| !is_there(link));
    }
    Ok(links)
}

/// Returns the refusal, with the commands that rewrite the branch: a later commit without the link is not enough.
fn refused(repo: &GitRepo, head: &Oid, old: &[Oid], link: &Link) -> RepoError {
    let Link { commit, name, .. } = link;
    let commit = commit.get(..10).unwrap_or(commit);
    let base = facts::merge_base(repo, head, old.first()).ok().flatten();
    let base = base.map_or_else(
        || "the commit that the branch began at".to_owned(),
        |base| base.short().to_owned(),
    );
    RepoError::Rejected(format!(
        "{commit}: {name} is a link in the place of the supervisor's link to a task file; make the commits anew without it: \
         `git reset --soft {base}`, `git rm --cached -f {name}`, `git commit`"
    ))
}
