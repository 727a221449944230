//! Shows salvaged work as commits, for people and agents: plain git can read them. A restore does not use them.

use std::collections::BTreeSet;

use super::super::admin::{Note, scratch};
use super::super::command::CHECKOUT;
use super::super::files::walk::Kind;
use super::super::measure::Measured;
use super::super::rig::{GitRepo, oid};
use super::manifest::{Damaged, EntryRoot, Line};
use super::store::commit_tree;
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::domain::saved_work::SavedWork;
use crate::ports::repo::RepoError;

/// The last part of the name of the ref with the files.
pub(super) const FILES: &str = "worktree";

/// Makes a commit with the files on top of HEAD; none if all of them were committed. A failure is only logged,
/// because salvage has the files all the same.
pub(super) fn files(
    repo: &GitRepo,
    measured: &Measured,
    lines: &[Line],
    raider: &RaiderId,
) -> Option<Oid> {
    let changed = measured.dirty().chain(measured.untracked());
    let changed: BTreeSet<&[u8]> = changed.map(Vec::as_slice).collect();
    if changed.is_empty() {
        return None;
    }
    match commit(repo, measured, lines, &changed, raider) {
        Ok(commit) => Some(commit),
        Err(error) => {
            tracing::warn!(%raider, %error, "salvage: no commit could be made of the files; the files themselves are saved");
            None
        }
    }
}

fn commit(
    repo: &GitRepo,
    measured: &Measured,
    lines: &[Line],
    changed: &BTreeSet<&[u8]>,
    raider: &RaiderId,
) -> Result<Oid, RepoError> {
    let dir = scratch(repo)?;
    // The files exist under these names, so names that other systems forbid are no danger.
    let git = || {
        let git = repo.git().env("GIT_INDEX_FILE", dir.path().join("index"));
        let git = git.args([
            "-c",
            "core.protectHFS=false",
            "-c",
            "core.protectNTFS=false",
        ]);
        git.limit(CHECKOUT)
    };
    let on = &measured.ground;
    let on = on.head.as_ref().or(on.stands_for.as_ref());
    if let Some(on) = on {
        git().args(["read-tree", on.as_str()]).run()?;
    }
    let update = ["update-index", "-z", "--replace", "--index-info"];
    git()
        .args(update)
        .stdin(changes(measured, lines, changed))
        .run()?;
    let tree = oid(&git().arg("write-tree").run()?.text())?;
    let message = format!("Files of {raider} that were in no commit");
    commit_tree(
        repo,
        raider,
        &tree,
        on.map(std::slice::from_ref).unwrap_or_default(),
        &message,
    )
}

/// Returns the removals from the index, then the additions, as input of `git update-index`.
fn changes(measured: &Measured, lines: &[Line], changed: &BTreeSet<&[u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut put = |head: String, path: &[u8]| {
        text.extend_from_slice(head.as_bytes());
        text.push(b'\t');
        text.extend_from_slice(path);
        text.push(0);
    };
    for (path, (mode, id)) in measured.tree.iter() {
        // The files of a submodule are in no tree of this repository.
        if changed.contains(path.as_slice()) && mode != "160000" {
            put(format!("0 {}", "0".repeat(id.as_str().len())), path);
        }
    }
    // An untracked repository is listed as one path, with a slash at its end.
    let is_changed = |path: &[u8]| {
        let mut slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        changed.contains(path) || slashes.any(|(at, _)| changed.contains(&path[..=at]))
    };
    for line in lines {
        let Some(id) = &line.id else { continue };
        let mode = match line.kind {
            Kind::Link => "120000",
            Kind::File if line.mode & 0o100 != 0 => "100755",
            Kind::File => "100644",
            Kind::Dir | Kind::Other => continue,
        };
        if line.place == EntryRoot::Work && is_named(line) && is_changed(&line.path) {
            put(format!("{mode} {id}"), &line.path);
        }
    }
    text
}

/// Returns true if an index accepts the name.
fn is_named(line: &Line) -> bool {
    let mut parts = line.path.split(|byte| *byte == b'/');
    let is_link =
        |part: &[u8]| line.kind == Kind::Link && part.eq_ignore_ascii_case(b".gitmodules");
    parts.all(|part| !part.eq_ignore_ascii_case(b".git") && !is_link(part))
}

/// Returns the commits that the refs of a salvage name, and those of `damaged` that were saved in part.
///
/// # Errors
/// When git cannot read them.
pub(super) fn work(
    repo: &GitRepo,
    raider: &RaiderId,
    incarnation: Incarnation,
    refs: &[String],
    damaged: &[Damaged],
) -> Result<SavedWork, RepoError> {
    let named = |last: &str| {
        let end = format!("/{last}");
        let name = refs.iter().find(|name| name.ends_with(&end));
        Ok::<_, RepoError>(name.map(|name| repo.resolve(name)).transpose()?.flatten())
    };
    let (head, files) = (named("head")?, named(FILES)?);
    let sandbox = repo.raiders_dir().join(raider.name.as_str());
    let note = Note::read(repo, &sandbox).filter(|note| note.incarnation == incarnation);
    let base = note.map(|note| note.base);
    let commits = head
        .as_ref()
        .and_then(|head| count(repo, head, base.as_ref()));
    let is_left = |name: &&String| {
        let last = name.rsplit('/').next().unwrap_or_default();
        last.starts_with("reflog-") || last.starts_with("stash-")
    };
    let left = refs.iter().filter(is_left);
    let left = left.map(|name| repo.resolve(name));
    let left: Vec<Option<Oid>> = left.collect::<Result<_, _>>()?;
    let in_part = damaged.iter().filter(|of| !of.unread.is_empty());
    Ok(SavedWork {
        base,
        head,
        commits,
        files,
        left: left.into_iter().flatten().collect(),
        damaged: in_part.map(|of| of.commit.clone()).collect(),
    })
}

/// Counts the commits that are reachable neither from the base nor from a branch other than a raider's.
fn count(repo: &GitRepo, head: &Oid, base: Option<&Oid>) -> Option<u64> {
    let git = repo
        .git()
        .args(["rev-list", "--count", head.as_str(), "--not"]);
    let git = git.args(base.map(Oid::as_str));
    let git = git.args(["--exclude=*/raider/*", "--remotes"]);
    let git = git.args(["--exclude=raider/*", "--branches"]);
    git.run().ok()?.text().parse().ok()
}
