//! Work that is on a branch without being its ancestor: equal patches, one by one (a rebase) or
//! all in one (a squash).

use std::path::Path;

use super::command::Git;
use super::rig::oid;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// More commits than this are not compared one by one.
const COMMITS_MAX: usize = 20_000;

/// Whether `ancestor` is `descendant` or before it.
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

/// Whether all of `head` is on `main`: as an ancestor, commit by commit, or squashed into one.
pub(super) fn work(dir: &Path, main: &Oid, head: &Oid) -> Result<bool, RepoError> {
    if is_ancestor(dir, head, main)? {
        return Ok(true);
    }
    // A merge commit's own changes have no patch to compare.
    let merges = Git::in_dir(dir)
        .args(["rev-list", "--merges", "--max-count=1", head.as_str()])
        .arg(format!("^{main}"))
        .run()?;
    if merges.stdout.is_empty() && commits(dir, main, head, None)? {
        return Ok(true);
    }
    squashed(dir, main, head)
}

/// Whether every commit of `head` that is not on `main` (nor on `limit`) has an equal there.
pub(super) fn commits(
    dir: &Path,
    main: &Oid,
    head: &Oid,
    limit: Option<&Oid>,
) -> Result<bool, RepoError> {
    let output = Git::in_dir(dir)
        .args(["cherry", main.as_str(), head.as_str()])
        .args(limit.map(Oid::as_str))
        .run()?;
    Ok(output.text().lines().all(|line| line.starts_with('-')))
}

/// Whether one commit of `main` holds the same patch as all of `head` together.
fn squashed(dir: &Path, main: &Oid, head: &Oid) -> Result<bool, RepoError> {
    let bases = Git::in_dir(dir)
        .args(["merge-base", "--all", main.as_str(), head.as_str()])
        .output()?;
    let bases = bases.text();
    let bases: Vec<&str> = bases.lines().collect();
    let [base] = bases[..] else {
        return Ok(false);
    };
    let base = oid(base)?;
    let Some(wanted) = patch_ids(dir, diff(dir, &base, head)?)?.pop() else {
        // No patch at all proves nothing.
        return Ok(false);
    };
    // Only a commit that touches the same paths can be it, which spares most of the diffs.
    let paths = Git::in_dir(dir)
        .args(["diff-tree", "-r", "--no-renames", "--name-only", "-z"])
        .args([base.as_str(), head.as_str()])
        .run()?;
    let first = paths.stdout.split(|byte| *byte == 0).next();
    let first = String::from_utf8_lossy(first.unwrap_or_default()).into_owned();
    let candidates = Git::in_dir(dir)
        .arg("--literal-pathspecs")
        .args(["rev-list", "--no-merges"])
        .arg(format!("--max-count={COMMITS_MAX}"))
        .arg(format!("{base}..{main}"))
        .args(["--", &first])
        .run()?;
    let patches = Git::in_dir(dir)
        .args(["diff-tree", "--stdin", "-p", "-r", "--root", "--no-renames"])
        .args(PATCH)
        .stdin(candidates.stdout)
        .run()?;
    Ok(patch_ids(dir, patches.stdout)?.contains(&wanted))
}

/// Settings of a diff that must not differ between two that are compared.
const PATCH: [&str; 4] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--full-index",
];

fn diff(dir: &Path, from: &Oid, to: &Oid) -> Result<Vec<u8>, RepoError> {
    let output = Git::in_dir(dir)
        .args(["diff-tree", "-p", "-r", "--no-renames"])
        .args(PATCH)
        .args([from.as_str(), to.as_str()])
        .run()?;
    Ok(output.stdout)
}

fn patch_ids(dir: &Path, patches: Vec<u8>) -> Result<Vec<String>, RepoError> {
    let output = Git::in_dir(dir)
        .args(["patch-id", "--verbatim"])
        .stdin(patches)
        .run()?;
    let first = |line: &str| line.split(' ').next().map(str::to_owned);
    Ok(output.text().lines().filter_map(first).collect())
}
