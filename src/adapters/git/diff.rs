//! What a raider changed, for people: a patch against the commit at which the work left its target. No program of a repository or a
//! configuration runs for it, and nothing is kept.

use std::fs;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

use tempfile::TempDir;

use super::admin::{At, failed, scratch};
use super::bytes;
use super::command::{CHECKOUT, Git};
use super::facts::merge_base;
use super::files::compare::Item;
use super::files::open::Root;
use super::files::store::{LARGE, Store, Unstored};
use super::measure::{Files, Measured, measure};
use super::object_copy::borrowing;
use super::rig::{GitRepo, oid};
use crate::domain::ids::Oid;
use crate::domain::work_diff::{Diff, FileChange};
use crate::ports::repo::RepoError;

/// The bytes of a patch that are returned.
const TEXT_MAX: u64 = 4 * 1024 * 1024;

/// Returns what a commit of ours changes.
///
/// # Errors
/// When git cannot read it.
pub(super) fn of_commit(repo: &GitRepo, head: &Oid, target: &str) -> Result<Diff, RepoError> {
    let base = merge_base(repo, head, repo.target_tip(target)?.as_ref())?;
    let git = || repo.git();
    Ok(Diff {
        head: Some(head.clone()),
        ..between(repo, git, base, head.as_str())?
    })
}

/// Returns what is in a sandbox, committed or not.
///
/// # Errors
/// When the sandbox cannot be read, or its files change meanwhile.
pub(super) fn of_sandbox(repo: &GitRepo, sandbox: &Path, target: &str) -> Result<Diff, RepoError> {
    let measured = measure(repo, sandbox, Files::Known)?;
    let ground = &measured.ground;
    let Some(head) = ground.head.clone().or_else(|| ground.stands_for.clone()) else {
        return Ok(Diff::default());
    };
    let base = merge_base(repo, &head, repo.target_tip(target)?.as_ref())?;
    let scratch = Scratch::new(repo)?;
    let mut left_out = Vec::new();
    let tree = tree(repo, &scratch, &measured, &head, &mut left_out)?;
    Ok(Diff {
        head: Some(head),
        left_out,
        ..between(repo, || scratch.git(repo), base, tree.as_str())?
    })
}

/// A place for objects and an index that are needed once.
struct Scratch(TempDir);

impl Scratch {
    fn new(repo: &GitRepo) -> Result<Self, RepoError> {
        let scratch = Self(scratch(repo)?);
        let objects = scratch.0.path().join("objects");
        fs::create_dir(&objects).at("cannot make", &objects)?;
        Ok(scratch)
    }

    /// Returns a command that writes its objects here, and reads those of ours.
    fn git(&self, repo: &GitRepo) -> Git {
        borrowing(repo.git(), &repo.repo_dir().join("objects"))
            .env("GIT_OBJECT_DIRECTORY", self.0.path().join("objects"))
            .env("GIT_INDEX_FILE", self.0.path().join("index"))
    }
}

/// Writes a tree of the files as they are.
fn tree(
    repo: &GitRepo,
    scratch: &Scratch,
    measured: &Measured,
    head: &Oid,
    left_out: &mut Vec<String>,
) -> Result<Oid, RepoError> {
    let sandbox = &measured.ground.sandbox;
    let root = Root::open(sandbox).map_err(|error| failed("cannot read", sandbox, &error))?;
    let mut store = Store::new(|| scratch.git(repo), measured.format);
    let zero = "0".repeat(head.as_str().len());
    let (mut removals, mut lines) = (Vec::new(), Vec::new());
    let items = &measured.files.items;
    for path in measured.dirty().chain(measured.untracked()) {
        // A repository inside is shown by `hd raider show`.
        if path.ends_with(b"/") {
            continue;
        }
        let there = items.binary_search_by(|item| item.entry.path.cmp(path));
        let found = there.ok().map(|at| &items[at]);
        let Some((
            mode,
            Item {
                entry,
                id: Some(id),
            },
        )) = found.and_then(|item| Some((item.entry.git_mode()?, item)))
        else {
            removals.extend_from_slice(&line("0", &zero, path));
            continue;
        };
        if entry.stamp.size > LARGE {
            left_out.push(bytes::lossy(path));
            continue;
        }
        store.entry(&root, entry, id).map_err(|why| match why {
            Unstored::Failed(why) => why,
            Unstored::Changed => {
                let path = bytes::lossy(path);
                RepoError::Failed(format!("{path} changes while it is read; try again"))
            }
        })?;
        lines.extend_from_slice(&line(mode, id.as_str(), path));
    }
    store.flush()?;
    let git = || scratch.git(repo);
    git().args(["read-tree", head.as_str()]).run()?;
    // First, because a file may be in the place of a directory, or the reverse.
    removals.extend_from_slice(&lines);
    git()
        .args(["update-index", "-z", "--index-info"])
        .stdin(removals)
        .run()?;
    let written = git().args(["write-tree", "--missing-ok"]).run()?;
    oid(written.text().trim())
}

/// Returns a line as `git update-index --index-info` reads it.
fn line(mode: &str, id: &str, path: &[u8]) -> Vec<u8> {
    [format!("{mode} {id}\t").as_bytes(), path, b"\0"].concat()
}

/// Compares a tree with the base, or with nothing.
fn between(
    repo: &GitRepo,
    git: impl Fn() -> Git,
    base: Option<Oid>,
    to: &str,
) -> Result<Diff, RepoError> {
    let from = match &base {
        Some(base) => base.to_string(),
        None => {
            let empty = repo.git().args(["hash-object", "-t", "tree", "--stdin"]);
            empty.run()?.text()
        }
    };
    let diff = |args: &[&str]| {
        git()
            .args([
                "diff-tree",
                "-r",
                "--no-ext-diff",
                "--no-textconv",
                "--no-color",
            ])
            .args(args)
            .args([&from[..], to])
            .limit(CHECKOUT)
    };
    let counted = diff(&["--numstat", "--no-renames", "-z"]).run()?;
    let (text, is_cut) = first(diff(&["-p", "-M"]))?;
    Ok(Diff {
        base,
        files: files(&counted.stdout),
        text: String::from_utf8_lossy(&text).into_owned(),
        is_cut,
        ..Diff::default()
    })
}

/// Parses `<added> <removed> <path>`, separated by tabs and ended by zeros; `-` stands for a file that is no text.
fn files(text: &[u8]) -> Vec<FileChange> {
    let file = |line: &[u8]| {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let mut count = || String::from_utf8_lossy(parts.next()?).parse().ok();
        let (added, removed) = (count(), count());
        let path = bytes::lossy(parts.next()?);
        Some(FileChange {
            path,
            added,
            removed,
        })
    };
    bytes::split(text).filter_map(file).collect()
}

/// Returns the beginning of a command's output, and whether there is more.
fn first(git: Git) -> Result<(Vec<u8>, bool), RepoError> {
    let pipe = |error: io::Error| RepoError::Failed(format!("a pipe to git: {error}"));
    let (from, into) = io::pipe().map_err(pipe)?;
    let git = git.stdout_file(fs::File::from(OwnedFd::from(into)));
    let (ended, read) = thread::scope(|scope| {
        // A reader that is gone ends the command.
        let reader = scope.spawn(move || read(from));
        (git.output(), reader.join())
    });
    let text = read.map_err(|_| RepoError::Failed("the reader of git panicked".to_owned()))?;
    let (text, is_cut) = text.map_err(pipe)?;
    let ended = ended?;
    match ended.ok() || is_cut {
        true => Ok((text, is_cut)),
        false => Err(RepoError::Failed(format!(
            "git cannot compare: {}",
            ended.stderr.trim()
        ))),
    }
}

fn read(from: PipeReader) -> io::Result<(Vec<u8>, bool)> {
    let mut text = Vec::new();
    from.take(TEXT_MAX + 1).read_to_end(&mut text)?;
    let is_cut = text.len() as u64 > TEXT_MAX;
    if is_cut {
        text.pop();
        let lines = text.iter().rposition(|byte| *byte == b'\n');
        text.truncate(lines.map_or(0, |end| end + 1));
    }
    Ok((text, is_cut))
}
