//! Compares the work of a raider with its target, for people: pushed work as it would land, a sandbox against the commit at which
//! it left its target. No program of a repository or a configuration runs for it, and no ref is moved.

mod landing;

use std::collections::HashSet;
use std::fs;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

pub(super) use self::landing::{of_landing, sum_of_landing};
use super::admin::{At, failed, scratch};
use super::bytes;
use super::command::Git;
use super::facts::merge_base;
use super::files::compare::Item;
use super::files::open::Root;
use super::files::store::{LARGE, Store, Unstored};
use super::measure::{Files, Measured, measure};
use super::object_copy::borrowing;
use super::rig::{GitRepo, oid};
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::domain::work_diff::{Diff, FileChange};
use crate::ports::repo::RepoError;

/// The bytes of a patch that are returned.
const TEXT_MAX: u64 = 4 * 1024 * 1024;
/// The number of files that are returned.
const FILES_MAX: usize = 10_000;
/// The bytes of files in no commit that are compared.
const UNCOMMITTED_MAX: u64 = 64 * 1024 * 1024;
/// The size above which git counts a file as no text: for each line of a text it needs 50 bytes of memory.
const BIG: &str = "core.bigFileThreshold=8m";
/// The longest time of a comparison.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the paths that a commit of ours changes.
///
/// # Errors
/// [`RepoError::NotFound`] when ours has no such commit; when git cannot read it, or takes long.
pub(super) fn paths_of_commit(
    repo: &GitRepo,
    head: &Oid,
    target: &str,
) -> Result<Vec<String>, RepoError> {
    if repo.resolve(head.as_str())?.is_none() {
        return Err(RepoError::NotFound(format!("commit {head}")));
    }
    let base = merge_base(repo, head, repo.target_tip(target)?.as_ref())?;
    let from = origin(repo, base.as_ref())?;
    let how = ["--name-only", "--no-renames", "-z"];
    let listed = compared(repo.git(), &how, [&from, head.as_str()]).limit(LIMIT);
    let listed = listed.run()?;
    Ok(bytes::split(&listed.stdout).map(bytes::lossy).collect())
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

/// A place for objects and an index that are needed once: a bare repository that borrows the objects of ours.
struct Scratch(TempDir);

impl Scratch {
    fn new(repo: &GitRepo) -> Result<Self, RepoError> {
        let scratch = Self(scratch(repo)?);
        let at = |name: &str| scratch.0.path().join(name);
        for dir in [at("refs"), at("objects/info")] {
            city_root::make_dirs(&dir).at("cannot make", &dir)?;
        }
        let lender = [bytes::of(&repo.repo_dir().join("objects")), b"\n"].concat();
        let files: [(_, &[u8]); 2] = [
            (at("HEAD"), b"ref: refs/heads/none\n"),
            (at("objects/info/alternates"), &lender),
        ];
        for (file, text) in files {
            fs::write(&file, text).at("cannot write", &file)?;
        }
        Ok(scratch)
    }

    /// Returns a command that writes its objects here, and reads those of ours.
    fn git(&self, repo: &GitRepo) -> Git {
        borrowing(repo.git(), &repo.repo_dir().join("objects"))
            .env("GIT_OBJECT_DIRECTORY", self.0.path().join("objects"))
            .env("GIT_INDEX_FILE", self.0.path().join("index"))
    }
}

/// Writes a tree of the files as they are. Names what it leaves out: large files, repositories inside, pipes, and names that git
/// refuses.
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
    let (mut removals, mut lines, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let (items, mut bytes) = (&measured.files.items, 0);
    for path in measured.dirty().chain(measured.untracked()) {
        let there = items.binary_search_by(|item| item.entry.path.cmp(path));
        let Some(item) = there.ok().map(|at| &items[at]) else {
            match path.ends_with(b"/") {
                true => left_out.push(bytes::lossy(path)),
                false => removals.extend_from_slice(&line("0", &zero, path)),
            }
            continue;
        };
        let Item { entry, id } = item;
        let (Some(mode), Some(id)) = (entry.git_mode(), id) else {
            left_out.push(bytes::lossy(path));
            continue;
        };
        let size = entry.stamp.size;
        if size > LARGE || bytes + size > UNCOMMITTED_MAX {
            left_out.push(bytes::lossy(path));
            continue;
        }
        bytes += size;
        store.entry(&root, entry, id).map_err(|why| match why {
            Unstored::Failed(why) => why,
            Unstored::Changed => {
                let path = bytes::lossy(path);
                RepoError::Failed(format!("{path} changes while it is read; try again"))
            }
        })?;
        lines.extend_from_slice(&line(mode, id.as_str(), path));
        written.push(path);
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
    let listed = git().args(["ls-files", "-z"]).run()?;
    let listed: HashSet<&[u8]> = bytes::split(&listed.stdout).collect();
    let refused = written.iter().filter(|path| !listed.contains(&path[..]));
    left_out.extend(refused.map(|path| bytes::lossy(path)));
    let tree = git().args(["write-tree", "--missing-ok"]).run()?;
    oid(tree.text().trim())
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
    let from = origin(repo, base.as_ref())?;
    let mut files = counted(git(), [&from, to], LIMIT)?;
    let (text, is_cut) = first(compared(git(), &["-p", "-M"], [&from, to]).limit(LIMIT))?;
    let is_cut = is_cut || files.len() > FILES_MAX;
    files.truncate(FILES_MAX);
    Ok(Diff {
        base,
        files,
        text: String::from_utf8_lossy(&text).into_owned(),
        is_cut,
        ..Diff::default()
    })
}

/// Returns what the work is compared with: the base, or an empty tree.
fn origin(repo: &GitRepo, base: Option<&Oid>) -> Result<String, RepoError> {
    match base {
        Some(base) => Ok(base.to_string()),
        None => {
            let empty = repo.git().args(["hash-object", "-t", "tree", "--stdin"]);
            Ok(empty.run()?.text())
        }
    }
}

fn compared(git: Git, how: &[&str], [from, to]: [&str; 2]) -> Git {
    git.args(["-c", BIG])
        .args(["diff-tree", "-r", "--no-ext-diff", "--no-textconv"])
        .args(["--no-color"])
        .args(how)
        .args([from, to])
}

fn counted(git: Git, between: [&str; 2], limit: Duration) -> Result<Vec<FileChange>, RepoError> {
    let counted = compared(git, &["--numstat", "--no-renames", "-z"], between);
    Ok(files(&counted.limit(limit).run()?.stdout))
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
