//! Finds work that is on a branch without being its ancestor: equal patches, one by one (a rebase) or all in one (a
//! squash).

use std::path::Path;

use super::bytes;
use super::command::Git;
use super::rig::oid;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The largest number of commits that are compared one by one.
const COMMITS_MAX: usize = 20_000;
/// The largest number of paths that narrow the search.
const PATHS_MAX: usize = 1_000;

/// Returns true if `ancestor` is `descendant` or one of its ancestors.
pub(super) fn is_ancestor(dir: &Path, ancestor: &Oid, descendant: &Oid) -> Result<bool, RepoError> {
    let output = Git::in_dir(dir)
        .args(["merge-base", "--is-ancestor"])
        .args([ancestor.as_str(), descendant.as_str()])
        .output()?;
    match output.code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(RepoError::NotFound(output.stderr.trim().to_owned())),
    }
}

/// Returns true if all of `head` is on `main`: as an ancestor, commit by commit, or squashed into one commit. A patch
/// that was reverted there as often as it was applied does not count.
pub(super) fn work(dir: &Path, main: &Oid, head: &Oid) -> Result<bool, RepoError> {
    if is_ancestor(dir, head, main)? {
        return Ok(true);
    }
    let bases = Git::in_dir(dir)
        .args(["merge-base", "--all", main.as_str(), head.as_str()])
        .output()?;
    let bases = bases.text();
    let bases: Vec<&str> = bases.lines().collect();
    let [base] = bases[..] else {
        return Ok(false);
    };
    let base = oid(base)?;
    let upstream = ids(
        dir,
        patches(dir, &upstream(dir, &base, main, head)?, Way::Forth)?,
    )?;
    let (all, undone) = (diff(dir, &base, head)?, diff(dir, head, &base)?);
    if shows_no_bytes(&all) {
        return Ok(false);
    }
    if let ([all], [undone]) = (&ids(dir, all)?[..], &ids(dir, undone)?[..])
        && is_in(&upstream, all, undone)
    {
        return Ok(true);
    }
    // A merge commit's own changes have no patch to compare.
    let range = format!("{base}..{head}");
    if !list(dir, &["--merges", "--max-count=1", &range])?.is_empty() {
        return Ok(false);
    }
    let own = list(dir, &[&range])?;
    let forth = patches(dir, &own, Way::Forth)?;
    if shows_no_bytes(&forth) {
        return Ok(false);
    }
    let (forth, back) = (ids(dir, forth)?, ids(dir, patches(dir, &own, Way::Back)?)?);
    // A commit without a patch proves nothing.
    let complete = [forth.len(), back.len()] == [own.lines().count(); 2];
    let mut pairs = forth.iter().zip(&back);
    Ok(complete && pairs.all(|(patch, back)| is_in(&upstream, patch, back)))
}

/// Returns true if the patch was applied more often than it was reverted.
fn is_in(upstream: &[String], patch: &str, back: &str) -> bool {
    let times = |id: &str| upstream.iter().filter(|other| *other == id).count();
    times(patch) > times(back)
}

/// The direction in which a patch is read.
#[derive(Clone, Copy)]
enum Way {
    Forth,
    Back,
}

/// Returns the commits of `main` that can hold one of the patches: those that touch a path of theirs.
fn upstream(dir: &Path, base: &Oid, main: &Oid, head: &Oid) -> Result<String, RepoError> {
    let touched = Git::in_dir(dir)
        .args(["log", "--format=", "--no-renames", "--name-only", "-z"])
        .arg(format!("{base}..{head}"))
        .run()?;
    let mut paths: Vec<&[u8]> = bytes::split(&touched.stdout).collect();
    paths.sort_unstable();
    paths.dedup();
    let git = Git::in_dir(dir).arg("--literal-pathspecs");
    let mut git = git
        .args(["rev-list", "--no-merges"])
        .arg(format!("--max-count={COMMITS_MAX}"))
        .arg(format!("{base}..{main}"));
    // With more paths, the filter costs more than it saves.
    if paths.len() <= PATHS_MAX {
        git = git
            .arg("--")
            .args(paths.iter().map(|path| bytes::path(path)));
    }
    Ok(git.run()?.text())
}

/// Lists commits, one per line.
fn list(dir: &Path, args: &[&str]) -> Result<String, RepoError> {
    let output = Git::in_dir(dir).arg("rev-list").args(args).run()?;
    Ok(output.text())
}

/// Settings of a diff, equal for two diffs that are compared.
const PATCH: [&str; 8] = [
    "-p",
    // Read backwards, the prefixes would change sides.
    "--no-prefix",
    "-r",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--full-index",
];

/// Returns the commits' patches, in order.
fn patches(dir: &Path, commits: &str, way: Way) -> Result<Vec<u8>, RepoError> {
    let git = Git::in_dir(dir)
        .args(["diff-tree", "--stdin", "--root"])
        .args(PATCH);
    let git = match way {
        Way::Forth => git,
        Way::Back => git.arg("-R"),
    };
    Ok(git.stdin(format!("{commits}\n")).run()?.stdout)
}

/// Returns the whole difference as one patch.
fn diff(dir: &Path, from: &Oid, to: &Oid) -> Result<Vec<u8>, RepoError> {
    let git = Git::in_dir(dir).arg("diff-tree").args(PATCH);
    Ok(git.args([from.as_str(), to.as_str()]).run()?.stdout)
}

/// Returns true if the patches contain a binary file, of which they only say that it changes.
fn shows_no_bytes(patches: &[u8]) -> bool {
    let binary = b"\nBinary files ";
    patches.windows(binary.len()).any(|part| part == binary)
}

/// Returns an id per patch. White space counts, because it has a meaning in some languages.
fn ids(dir: &Path, patches: Vec<u8>) -> Result<Vec<String>, RepoError> {
    let output = Git::in_dir(dir)
        .args(["patch-id", "--verbatim"])
        .stdin(patches)
        .run()?;
    let first = |line: &str| line.split(' ').next().map(str::to_owned);
    Ok(output.text().lines().filter_map(first).collect())
}
