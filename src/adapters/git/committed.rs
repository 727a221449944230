//! Tells whether a file in a sandbox came with a commit, or from the session. Reads ours, the index and the objects of theirs
//! only, without any configuration of an agent.

use std::fs;
use std::path::Path;

use super::admin::{At, Note};
use super::entry_links;
use super::files::hash::{self, Format};
use super::files::index::Staged;
use super::files::walk;
use super::ground::ground;
use super::measure::lens;
use super::names_in_git;
use super::object_copy::missing;
use super::repair::is_stale;
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::{Committed, RepoError};

/// The number of branches that an agent has fetched which are asked for a commit: more do not fit into a command.
const FETCHED_MAX: usize = 1000;

/// Returns where these bytes are committed under that name, and whether git has them, or a file of that name, at all: a file
/// that a merge, a checkout or a stash wrote stays in the sandbox after HEAD and index have forgotten it. Without bytes,
/// returns where anything of that name is.
pub(super) fn committed(
    repo: &GitRepo,
    sandbox: &Path,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<Committed, RepoError> {
    if is_written(sandbox) {
        return Ok(Committed::Unsettled);
    }
    let found = found(repo, sandbox, name, bytes)?;
    // HEAD and index may be those from before a git that has worked meanwhile.
    Ok(match is_written(sandbox) {
        true => Committed::Unsettled,
        false => found,
    })
}

fn found(
    repo: &GitRepo,
    sandbox: &Path,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<Committed, RepoError> {
    let head = ground(repo, sandbox)?.head;
    let now = match &head {
        Some(head) => {
            repo.take(std::slice::from_ref(head))?;
            blob_of(repo, head, name)?
        }
        // A new branch without a commit.
        None => None,
    };
    let format = Format::named(repo.object_format()?);
    let same = bytes.map(|bytes| hash::bytes(format, bytes)).transpose();
    let same = same.at("cannot hash the content of", sandbox)?;
    let staged = staged(repo, sandbox, name)?;
    let file = walk::stamp_in(sandbox, name)
        .filter(|file| bytes.is_none_or(|bytes| file.size == bytes.len() as u64));
    let as_written = staged.iter().flatten().find(|staged| {
        let is_refreshed = |file| staged.is_refreshed(file);
        !staged.promised && file.as_ref().is_some_and(is_refreshed)
    });
    // git gives a file other bytes than its object has, and the index knows the file that git wrote.
    let is_it = |blob: &Oid| {
        let is_same = same.as_ref().is_none_or(|same| same == blob);
        is_same || as_written.is_some_and(|staged| staged.id == *blob)
    };
    if let Some(head) = head.filter(|_| now.as_ref().is_some_and(is_it)) {
        return by_commit(repo, sandbox, &head, name);
    }
    let is_staged = staged
        .as_ref()
        .is_none_or(|staged| staged.iter().any(|staged| is_it(&staged.id)));
    let is_brought = || entry_links::linked(sandbox).is_some_and(|admin| is_bringing(&admin));
    match same {
        None if !is_staged => Ok(Committed::No),
        _ if is_staged && is_brought() => Ok(Committed::Before),
        None => Ok(Committed::OnBranch),
        Some(_) if as_written.is_some() => Ok(Committed::Known),
        Some(same) => {
            let is_known = missing(repo.lens(), &[same])?.is_empty();
            Ok(match is_known || names_in_git::is_named(repo, name)? {
                true => Committed::Known,
                false => Committed::No,
            })
        }
    }
}

/// Returns true in the middle of an operation that brings files of other commits.
fn is_bringing(admin: &Path) -> bool {
    let marks = [
        "MERGE_HEAD",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "rebase-merge",
        "rebase-apply",
    ];
    let mut marks = marks.iter().map(|mark| admin.join(mark));
    marks.any(|mark| fs::symlink_metadata(mark).is_ok())
}

/// Tells whether a commit of this branch alone has brought the file, or has changed it.
fn by_commit(
    repo: &GitRepo,
    sandbox: &Path,
    head: &Oid,
    name: &str,
) -> Result<Committed, RepoError> {
    let Some(note) = Note::read(repo, sandbox) else {
        return Ok(Committed::Before);
    };
    // The branch's own commits: what it was rebased on, or has merged, is on another branch as well. The agent may have
    // fetched that since the supervisor did.
    let own = [
        format!("--exclude=refs/remotes/*/{}", note.branch),
        format!("--exclude=refs/heads/{}", note.branch),
    ];
    let fetched = repo.their_refs().list("refs/remotes/")?.into_iter();
    let fetched = fetched.filter(|(name, _)| !name.ends_with(&note.branch));
    let fetched = fetched.map(|(_, tip)| tip.to_string()).take(FETCHED_MAX);
    let commits = repo
        .lens()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args([
            "rev-list",
            "--ignore-missing",
            "--simplify-merges",
            "--max-count=1",
            head.as_str(),
        ])
        .args(["--not", note.base.as_str()])
        .args(fetched)
        .args(&own)
        .arg("--glob=refs/remotes/*")
        .args(&own)
        .args(["--glob=refs/heads/*", "--", name])
        .run()?
        .text();
    Ok(match commits.trim().is_empty() {
        true => Committed::Before,
        false => Committed::OnBranch,
    })
}

/// Returns the object that a commit has under a name.
fn blob_of(repo: &GitRepo, commit: &Oid, name: &str) -> Result<Option<Oid>, RepoError> {
    let listed = repo
        .git()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["ls-tree", commit.as_str(), "--", name])
        .run()?
        .text();
    // `<mode> <kind> <oid>\t<path>`
    let blob = listed.split_ascii_whitespace().nth(2);
    Ok(blob.and_then(|blob| Oid::new(blob).ok()))
}

/// Returns the entries that the index has under a name: the agent is about to commit them, or a merge that it is to finish
/// brings them. None where the index cannot be read.
fn staged(repo: &GitRepo, sandbox: &Path, name: &str) -> Result<Option<Vec<Staged>>, RepoError> {
    let Some(admin) = entry_links::linked(sandbox) else {
        return Ok(None);
    };
    let index = lens(repo)?.1.index(&admin, &repo.recent)?;
    let entries = index.entries.iter();
    let found = entries.filter(|staged| staged.path == name.as_bytes());
    Ok(index.odd.is_none().then(|| found.cloned().collect()))
}

/// Returns true while git changes the files of a sandbox: index and HEAD are the old ones until it has ended.
fn is_written(sandbox: &Path) -> bool {
    let lock = entry_links::linked(sandbox).map(|admin| admin.join("index.lock"));
    lock.is_some_and(|lock| fs::symlink_metadata(&lock).is_ok() && !is_stale(&lock))
}
