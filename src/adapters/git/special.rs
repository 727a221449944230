//! What else holds work in a sandbox: operations in progress, conflicts, nested repositories,
//! hidden edits, commits that only the reflog names, a branch that HEAD has left.

use std::path::Path;

use super::admin::failed;
use super::bytes;
use super::measure::Measured;
use super::nested::Kind;
use crate::domain::facts::{HIDDEN, LEFT_BEHIND};
use crate::ports::repo::RepoError;

/// Files and directories in a worktree's administrative directory that belong to an operation in
/// progress, and what it is.
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

/// How the names of files begin that a repair set aside and that still hold something: what was staged,
/// where HEAD was.
pub(super) const ASIDE: &[&str] = &["index.aside", "HEAD.aside"];

/// A line for each operation that this git directory shows to be in progress.
pub(super) fn in_progress(git_dir: &Path) -> impl Iterator<Item = String> {
    let is_there = |name: &str| std::fs::symlink_metadata(git_dir.join(name)).is_ok();
    let found = IN_PROGRESS.iter().filter(move |(name, _)| is_there(name));
    found.map(|(_, what)| format!("{what} in progress"))
}

/// A line for each file that a repair set aside, unless it is empty.
fn aside(admin: &Path) -> Result<Vec<String>, RepoError> {
    let fail = |error: std::io::Error| failed("cannot list", admin, &error);
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(admin).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if ASIDE.iter().any(|kept| name.starts_with(kept))
            && entry.metadata().map_err(fail)?.len() > 0
        {
            lines.push(format!("{LEFT_BEHIND}what a repair set aside as {name}"));
        }
    }
    lines.sort();
    Ok(lines)
}

/// One line for each, for people. Stable as long as the sandbox does not change.
pub(super) fn list(measured: &Measured) -> Result<Vec<String>, RepoError> {
    let mut lines: Vec<String> = in_progress(&measured.place.admin).collect();
    // Where nobody works any more, nobody is at the wrong place.
    let at_work = !measured.place.is_gone();
    if at_work && measured.status.head.is_none() {
        lines.push("HEAD names a branch without commits".to_owned());
    } else if at_work && measured.status.branch.is_none() {
        lines.push("HEAD is detached".to_owned());
    }
    let conflicts = measured
        .status
        .changes
        .iter()
        .filter(|change| change.conflict);
    let conflicts = conflicts.count();
    if conflicts > 0 {
        lines.push(format!("unresolved conflicts: {conflicts}"));
    }
    for nested in &measured.nested {
        let (path, holds) = (bytes::lossy(&nested.path), &nested.holds);
        lines.push(match nested.kind {
            Kind::Submodule => format!("submodule {path}: {holds}"),
            Kind::Left => format!("{LEFT_BEHIND}what submodule {path} holds: {holds}"),
            Kind::Untracked => format!("nested repository {path}: {holds}"),
            Kind::Ignored => format!("{HIDDEN}{path}: {holds}"),
        });
    }
    for path in &measured.hidden {
        let path = bytes::lossy(path);
        lines.push(format!(
            "edited behind skip-worktree or assume-unchanged: {path}"
        ));
    }
    for tip in &measured.lost.tips {
        lines.push(format!("{LEFT_BEHIND}{}", tip.short()));
    }
    lines.extend(aside(&measured.place.admin)?);
    if let Some(own) = measured.lost.own.as_ref().filter(|_| at_work) {
        lines.push(format!("HEAD has left its own branch at {}", own.short()));
    }
    let own = measured
        .place
        .git()
        .args([
            "for-each-ref",
            "--format=%(refname) %(objectname)",
            "refs/worktree",
        ])
        .run()?;
    lines.extend(
        own.text()
            .lines()
            .map(|line| format!("a ref of this worktree only: {line}")),
    );
    Ok(lines)
}
