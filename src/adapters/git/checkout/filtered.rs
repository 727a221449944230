//! The files of a checkout that a filter of the person writes, such as that of git-lfs. A filter may be slow, and may fail.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::admin::{At, remove_if_there, scratch};
use super::super::bytes;
use super::super::command::Git;
use super::super::object_copy::borrowing;
use super::super::rig::GitRepo;
use super::changed::{Raw, raw};
use super::fast_forward::git;
use super::parts::STEP;
use super::unfinished::lock_of;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The time that the filters of a landing may take together before it begins.
const REHEARSAL: Duration = Duration::from_secs(8 * 60);
/// The number of files that are given to one git, and so to one process of a filter that serves many files.
const BATCH: usize = 64;

/// Files that a filter writes, each with the time that it takes.
pub(super) type Filtered = HashMap<Vec<u8>, Duration>;

/// Returns those of the paths that a filter writes in this commit. The attributes are read from an index, because git reads none from a
/// commit before its version 2.41.
///
/// # Errors
/// When git cannot tell.
pub(super) fn filtered<'p>(
    git: impl Fn() -> Git,
    index: &Path,
    commit: &Oid,
    paths: impl Iterator<Item = &'p [u8]>,
) -> Result<HashSet<Vec<u8>>, RepoError> {
    let list = paths.flat_map(|path| [path, b"\0"].concat());
    let git = || git().env("GIT_INDEX_FILE", index);
    // A git that was killed leaves its lock.
    remove_if_there(&lock_of(index))?;
    let read = git().args(["read-tree", commit.as_str()]).run();
    let told = read.and_then(|_| {
        git()
            .args(["check-attr", "--cached", "-z", "--stdin", "filter"])
            .stdin(list.collect::<Vec<u8>>())
            .run()
    });
    remove_if_there(index)?;
    // `<path> <attribute> <value>`
    let told = told?;
    let told: Vec<&[u8]> = told.stdout.split(|byte| *byte == 0).collect();
    let has_filter = |told: &&[&[u8]]| !matches!(told[2], b"unspecified" | b"unset");
    let filtered = told.chunks_exact(3).filter(has_filter);
    Ok(filtered.map(|told| told[0].to_vec()).collect())
}

/// Returns the paths that are in the index and not on the disk, because they are outside of a sparse checkout. Elsewhere git writes a
/// file with that flag.
///
/// # Errors
/// When git cannot list the index.
pub(super) fn not_checked_out(worktree: &Path) -> Result<HashSet<Vec<u8>>, RepoError> {
    let asked = git(worktree).args(["config", "--type=bool", "--get", "core.sparseCheckout"]);
    if asked.output()?.text().trim() != "true" {
        return Ok(HashSet::new());
    }
    let listed = git(worktree).args(["ls-files", "-t", "-z"]).run()?;
    // `<tag> <path>`
    let flagged = bytes::split(&listed.stdout).filter_map(|line| line.strip_prefix(b"S "));
    let absent = flagged.filter(|path| {
        let path = worktree.join(bytes::path(path));
        fs::symlink_metadata(path).is_err()
    });
    Ok(absent.map(<[u8]>::to_vec).collect())
}

/// Lets the filters of all files of a landing run before it begins, and before it locks anything. git removes a file before it asks the
/// filter, so one that fails must be found before. Those of git-lfs download what they lack then: git would wait for a download with no
/// file in the place, and overwrite what a person saved there meanwhile. A file outside of a sparse checkout is not written, and so not
/// filtered.
///
/// # Errors
/// When a filter that is required fails, or takes longer than the limit.
pub(super) fn rehearsed(
    repo: &GitRepo,
    worktree: &Path,
    (old, new): (&Oid, &Oid),
) -> Result<Filtered, RepoError> {
    let changed = raw(repo.git(), old, new)?;
    // A link has no filter; `cat-file` would take it for a file.
    let is_file = |it: &&Raw| it.modes.1.starts_with("100");
    let written = changed
        .iter()
        .filter(is_file)
        .filter(|it| !it.is_attributes());
    let contents: HashMap<&[u8], &Oid> = written.map(|it| (&it.path[..], &it.ids.1)).collect();
    let scratch = scratch(repo)?;
    let objects = repo.repo_dir().join("objects");
    let git = || borrowing(git(worktree), &objects);
    let filtered = filtered(
        git,
        &scratch.path().join("attributes"),
        new,
        contents.keys().copied(),
    )?;
    if filtered.is_empty() {
        return Ok(Filtered::new());
    }
    let absent = not_checked_out(worktree)?;
    let (absent, mut asked): (Vec<_>, Vec<_>) =
        filtered.into_iter().partition(|path| absent.contains(path));
    asked.sort();
    let deadline = now() + REHEARSAL;
    let mut took: Filtered = absent
        .into_iter()
        .map(|path| (path, Duration::ZERO))
        .collect();
    for batch in asked.chunks(BATCH) {
        let rehearse = |paths: &[Vec<u8>]| {
            let content = |path: &Vec<u8>| {
                [contents[&path[..]].as_str().as_bytes(), b" ", path, b"\0"].concat()
            };
            let list = paths.iter().flat_map(content).collect();
            let git = git().env("GIT_ATTR_SOURCE", new.as_str());
            rehearse(git, list, deadline).map_err(|why| failed(paths, &why))
        };
        let all = rehearse(batch)?;
        let is_slow = all > STEP && batch.len() > 1 && now() + REHEARSAL / 2 < deadline;
        for path in batch {
            // Now that all is downloaded, each is measured, unless there are very many.
            let one = match is_slow {
                true => rehearse(std::slice::from_ref(path))?,
                false => all,
            };
            took.insert(path.clone(), one);
        }
    }
    Ok(took)
}

/// Lets git filter contents, and writes them nowhere. A content is its id and its path. Returns the time that it took.
fn rehearse(git: Git, contents: Vec<u8>, deadline: Instant) -> Result<Duration, RepoError> {
    let begun = now();
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.at("cannot open", "/dev/null".as_ref())?;
    let limit = deadline.saturating_duration_since(begun).max(STEP);
    let git = git.args(["cat-file", "--batch", "-z", "--filters"]);
    let git = git.stdin(contents).stdout_file(nowhere).limit(limit);
    git.run()?;
    Ok(now().duration_since(begun))
}

fn failed(paths: &[Vec<u8>], why: &RepoError) -> RepoError {
    let first = paths.first().map(|path| bytes::lossy(path));
    let first = first.unwrap_or_default();
    let which = match paths.len() {
        1 => first,
        count => format!("one of {count} files from {first} on"),
    };
    RepoError::Failed(format!(
        "a filter fails for {which}, before anything of the landing is written: {why}"
    ))
}

#[expect(clippy::disallowed_methods, reason = "filters take real time")]
fn now() -> Instant {
    Instant::now()
}
