//! What `git status` and the index say of a work tree.

use super::bytes::{self, RelPath};
use super::command::Git;
use super::rig::oid;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A path that differs between HEAD, index and work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The path.
    pub(super) path: RelPath,
    /// Whether the index differs from HEAD.
    pub(super) in_index: bool,
    /// Whether the work tree differs from the index.
    pub(super) in_tree: bool,
    /// Whether it is only promised to the index (`git add -N`).
    pub(super) intent: bool,
    /// Whether it is in conflict.
    pub(super) conflict: bool,
    /// What is inside when it is a submodule, for people; none when nothing is.
    pub(super) submodule: Option<String>,
}

/// The answer of `git status`.
#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    /// HEAD's commit; none on a branch without commits.
    pub(super) head: Option<Oid>,
    /// HEAD's branch; none when detached.
    pub(super) branch: Option<String>,
    /// Tracked paths that differ.
    pub(super) changes: Vec<Change>,
    /// Untracked paths; a nested repository ends with `/`.
    pub(super) untracked: Vec<RelPath>,
    /// Paths that ignore rules hide, directories as one and ending with `/`.
    pub(super) ignored: Vec<RelPath>,
    /// The records without headers and ignored paths, as printed.
    pub(super) raw: Vec<u8>,
}

/// Asks `git status`, which changes nothing: not even the stat data of the index.
pub(super) fn read(git: Git) -> Result<Status, RepoError> {
    let output = git
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args([
            "-c",
            "core.untrackedCache=false",
            "-c",
            "core.checkStat=default",
        ])
        .args(["status", "--porcelain=v2", "-z", "--branch", "--no-renames"])
        .args(["--untracked-files=all", "--ignored=matching"])
        .arg("--ignore-submodules=none")
        .run()?;
    // git goes on without what it may not read; nobody could say what is in there.
    if let Some(line) = output
        .stderr
        .lines()
        .find(|line| line.contains("could not open directory"))
    {
        return Err(RepoError::Failed(line.to_owned()));
    }
    parse(&output.stdout)
}

fn parse(list: &[u8]) -> Result<Status, RepoError> {
    let mut status = Status::default();
    for record in bytes::split(list) {
        let odd = || RepoError::Failed(format!("git status printed {:?}", bytes::lossy(record)));
        match record {
            [b'#', b' ', header @ ..] => read_header(&mut status, header)?,
            [b'?', b' ', path @ ..] => status.untracked.push(path.to_vec()),
            [b'!', b' ', path @ ..] => {
                // What tools build comes and goes, and is no work.
                status.ignored.push(path.to_vec());
                continue;
            }
            [b'1', b' ', ..] => status.changes.push(change(record, 8).ok_or_else(odd)?),
            [b'u', b' ', ..] => status.changes.push(change(record, 10).ok_or_else(odd)?),
            _ => return Err(odd()),
        }
        if !record.starts_with(b"# ") {
            status.raw.extend_from_slice(record);
            status.raw.push(0);
        }
    }
    Ok(status)
}

fn read_header(status: &mut Status, header: &[u8]) -> Result<(), RepoError> {
    let header = bytes::lossy(header);
    if let Some(head) = header.strip_prefix("branch.oid ")
        && head != "(initial)"
    {
        status.head = Some(oid(head)?);
    }
    if let Some(branch) = header.strip_prefix("branch.head ")
        && branch != "(detached)"
    {
        status.branch = Some(branch.to_owned());
    }
    Ok(())
}

/// A record of a tracked path: the path follows so many fields.
fn change(record: &[u8], fields: usize) -> Option<Change> {
    let mut parts = record.splitn(fields + 1, |byte| *byte == b' ');
    let kind = parts.next()?;
    let xy = parts.next()?;
    let sub = parts.next()?;
    let path = parts.nth(fields - 3)?;
    Some(Change {
        path: path.to_vec(),
        in_index: xy.first() != Some(&b'.'),
        in_tree: xy.get(1) != Some(&b'.'),
        intent: kind == b"1" && xy.get(1) == Some(&b'A'),
        conflict: kind == b"u",
        submodule: submodule(sub),
    })
}

/// `S<c><m><u>`: new commits, modified, untracked.
fn submodule(field: &[u8]) -> Option<String> {
    let &[b'S', commits, modified, untracked] = field else {
        return None;
    };
    let says = [
        (commits != b'.', "other commits"),
        (modified != b'.', "changed files"),
        (untracked != b'.', "untracked files"),
    ];
    let found: Vec<_> = says
        .iter()
        .filter(|says| says.0)
        .map(|says| says.1)
        .collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// `100644`, `100755`, `120000` or `160000`.
    pub(super) mode: String,
    /// The blob, or a submodule's commit.
    pub(super) oid: Oid,
    /// 0, or 1 to 3 in a conflict.
    pub(super) stage: u8,
    /// The path.
    pub(super) path: RelPath,
    /// git is told not to look at the file (`skip-worktree`).
    pub(super) skip: bool,
    /// git is told that the file is unchanged (`assume-unchanged`).
    pub(super) assume: bool,
}

impl IndexEntry {
    /// Whether it is a submodule.
    pub(super) fn is_gitlink(&self) -> bool {
        self.mode == "160000"
    }

    /// The record that `git update-index -z --index-info` reads.
    pub(super) fn record(&self, path: &[u8], stage: u8) -> Vec<u8> {
        let mut record = format!("{} {} {stage}\t", self.mode, self.oid).into_bytes();
        record.extend_from_slice(path);
        record
    }
}

/// Lists the index with its flags.
pub(super) fn index(git: Git) -> Result<Vec<IndexEntry>, RepoError> {
    let output = git.args(["ls-files", "-v", "-s", "-z"]).run()?;
    bytes::split(&output.stdout)
        .map(|record| {
            entry(record).ok_or_else(|| {
                RepoError::Failed(format!("git ls-files printed {:?}", bytes::lossy(record)))
            })
        })
        .collect()
}

/// `<tag> <mode> <oid> <stage>\t<path>`.
fn entry(record: &[u8]) -> Option<IndexEntry> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let mut fields = head.split(' ');
    let tag = fields.next()?;
    Some(IndexEntry {
        mode: fields.next()?.to_owned(),
        oid: Oid::new(fields.next()?).ok()?,
        stage: fields.next()?.parse().ok()?,
        path: record[tab + 1..].to_vec(),
        skip: tag.eq_ignore_ascii_case("s"),
        assume: tag.chars().all(|tag| tag.is_ascii_lowercase()),
    })
}
