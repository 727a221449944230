//! Lists other work in a sandbox: operations in progress, conflicts, nested repositories, hidden edits, commits that
//! only the reflog names, a branch that HEAD has left, mount points.

use std::collections::BTreeSet;
use std::path::Path;

use super::admin::At;
use super::bytes;
use super::files::list::list as files_of;
use super::inner::Kind;
use super::measure::Measured;
use crate::adapters::beneath;
use crate::domain::other_work::OtherWork;
use crate::ports::repo::RepoError;

/// Files and directories of an operation in progress, in a worktree's administrative directory, with the operation's
/// name.
pub(super) const IN_PROGRESS: &[(&str, &str)] = &[
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or am"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a sequence of picks"),
    ("BISECT_LOG", "a bisect"),
    ("MERGE_AUTOSTASH", "an autostash"),
];

/// Prefixes of the files that a repair set aside and that still hold information: the staged content, the former
/// HEAD.
pub(super) const ASIDE: &[&str] = &["index.aside", "HEAD.aside"];

/// A ref is one line.
const LINE_MAX: u64 = 64 * 1024;

/// The number of converted files that are listed; the others are saved all the same.
const TOLD: usize = 100;

/// Returns a line for each operation in progress in this git directory.
pub(super) fn in_progress(git_dir: &Path) -> impl Iterator<Item = String> {
    let is_there = |name: &str| std::fs::symlink_metadata(git_dir.join(name)).is_ok();
    let found = IN_PROGRESS.iter().filter(move |(name, _)| is_there(name));
    found.map(|(_, what)| format!("{what} in progress"))
}

/// Returns the files that a repair set aside, except empty ones.
fn aside(admin: &Path) -> Result<Vec<OtherWork>, RepoError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(admin).at("cannot list", admin)? {
        let entry = entry.at("cannot list", admin)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if ASIDE.iter().any(|kept| name.starts_with(kept))
            && entry.metadata().at("cannot list", admin)?.len() > 0
        {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names.iter().map(OtherWork::set_aside).collect())
}

/// Lists all other work. Stable as long as the sandbox does not change.
pub(super) fn list(measured: &Measured) -> Result<Vec<OtherWork>, RepoError> {
    let ground = &measured.ground;
    let mut work: Vec<OtherWork> = state(measured)
        .into_iter()
        .map(OtherWork::unfinished)
        .collect();
    work.extend(files(measured));
    let lost = measured.lost.tips.iter();
    work.extend(lost.map(|tip| OtherWork::left_behind(tip.short())));
    work.extend(measured.dropped.iter().map(|commit| {
        let short = commit.short();
        OtherWork::left_behind(format!(
            "{short}, a stash entry that is no longer in the list"
        ))
    }));
    // HEAD is not among them: without a HEAD that is whole, the sandbox is garbled.
    let damaged = measured.damaged.iter();
    work.extend(damaged.map(|commit| OtherWork::damaged(commit.short())));
    if let Some(admin) = &ground.admin {
        work.extend(aside(admin)?);
    }
    if let Some(own) = measured.lost.own.as_ref().filter(|_| at_work(measured)) {
        let text = format!("HEAD has left its own branch at {}", own.short());
        work.push(OtherWork::unfinished(text));
    }
    if let Some(admin) = &ground.admin {
        work.extend(own_refs(admin)?.into_iter().map(OtherWork::unfinished));
    }
    Ok(work)
}

/// Returns false if there are no files, or HEAD is garbled: then no work can be at the wrong place.
fn at_work(measured: &Measured) -> bool {
    !measured.ground.gone && measured.ground.garbled.is_none()
}

/// Returns lines about the sandbox itself, its HEAD and its index.
fn state(measured: &Measured) -> Vec<String> {
    let ground = &measured.ground;
    let mut lines = Vec::new();
    if let Some(why) = &ground.broken {
        lines.push(format!("its .git is not its original link: {why}"));
    }
    lines.extend(ground.garbled.clone());
    if let Some(why) = &measured.index.odd {
        lines.push(format!("its index cannot be read: {why}"));
    }
    if let Some(why) = &measured.odd_log {
        lines.push(format!("the commits that HEAD left are unknown: {why}"));
    }
    for path in &measured.mounts {
        let path = bytes::lossy(path);
        lines.push(format!(
            "{path} is a mount point: its content does not belong to the sandbox; run `umount`"
        ));
    }
    lines.extend(ground.admin.iter().flat_map(|admin| in_progress(admin)));
    if at_work(measured) && ground.head.is_none() {
        lines.push("HEAD names a branch without commits".to_owned());
    } else if at_work(measured) && ground.branch.is_none() {
        lines.push("HEAD is detached".to_owned());
    }
    let conflicts = measured.index.entries.iter().filter(|it| it.stage > 0);
    let conflicts: BTreeSet<_> = conflicts.map(|it| &it.path).collect();
    if !conflicts.is_empty() {
        lines.push(format!("unresolved conflicts: {}", conflicts.len()));
    }
    lines
}

/// Lists the work in repositories and files.
fn files(measured: &Measured) -> Vec<OtherWork> {
    let mut work = Vec::new();
    for inner in &measured.inner.inner {
        let (path, holds) = (bytes::lossy(&inner.path), &inner.holds);
        work.push(match inner.kind {
            Kind::Submodule => OtherWork::unfinished(format!("submodule {path}: {holds}")),
            Kind::Left => {
                OtherWork::left_behind(format!("the content of submodule {path}: {holds}"))
            }
            Kind::Untracked => OtherWork::unfinished(format!("nested repository {path}: {holds}")),
            Kind::Ignored => OtherWork::hidden(path, holds),
        });
    }
    let flagged = measured
        .index
        .entries
        .iter()
        .filter(|it| it.skip || it.assume);
    let files = &measured.files;
    let edited =
        flagged.filter(|it| files.dirty.contains(&it.path) && !files.staged.contains(&it.path));
    if !measured.ground.gone {
        for staged in edited {
            let path = bytes::lossy(&staged.path);
            work.push(OtherWork::unfinished(format!(
                "edited, but hidden by skip-worktree or assume-unchanged: {path}"
            )));
        }
    }
    let converted = files.converted.iter().take(TOLD);
    work.extend(converted.map(|path| OtherWork::converted(bytes::lossy(path))));
    work
}

/// Returns the refs that only this worktree has.
fn own_refs(admin: &Path) -> Result<Vec<String>, RepoError> {
    let dir = admin.join("refs").join("worktree");
    if std::fs::symlink_metadata(&dir).is_err() {
        return Ok(Vec::new());
    }
    let mut lines = Vec::new();
    for name in files_of(&dir, true)? {
        let text = beneath::read(&dir, bytes::path(&name), LINE_MAX)
            .ok()
            .flatten();
        let text = bytes::lossy(text.unwrap_or_default().trim_ascii_end());
        let name = bytes::lossy(&name);
        lines.push(format!(
            "a ref of this worktree only: refs/worktree/{name} {text}"
        ));
    }
    Ok(lines)
}
