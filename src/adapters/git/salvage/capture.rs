//! Stores the content of a measured sandbox as trees: the index as it is, the work tree byte for
//! byte, git directories of nested repositories, the state of operations in progress.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::bytes::{self, RelPath};
use super::super::links;
use super::super::measure::Measured;
use super::super::nested::walk;
use super::super::raw::{Raw, record_path};
use super::super::special::ASIDE;
use super::super::status::IndexEntry;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Names in the administrative directory that are not state of the agent's work.
const NOT_STATE: &[&str] = &["index", "gitdir", "commondir", "locked", "horde.json"];

/// What was stored. Two captures of the same content are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Capture {
    /// The index as a tree; in a conflict, our side of it.
    pub(super) index: Oid,
    /// The work tree.
    pub(super) worktree: Oid,
    /// Index records of the files stored byte for byte.
    pub(super) raw: Vec<Vec<u8>>,
    /// Tracked paths that are not there.
    pub(super) absent: Vec<RelPath>,
    /// Git directories, in the order of the measured nested repositories.
    pub(super) nested: Vec<Option<Oid>>,
    /// Files of the administrative directory.
    pub(super) state: Oid,
    /// Which those are.
    pub(super) state_files: Vec<RelPath>,
}

/// Stores it all. Changes nothing in the sandbox.
pub(super) fn capture(raw: &Raw, measured: &Measured, round: usize) -> Result<Capture, RepoError> {
    let root = &measured.place.sandbox;
    let (mut files, absent) = sort_out(measured)?;
    let unsure = converted(measured, &files, &absent)?;
    files.extend(
        unsure
            .into_iter()
            .filter(|path| kind(root, path) == Kind::File),
    );
    let index = raw.index(&format!("index-{round}"));
    let staged = staged(measured);
    index.load(staged.iter().map(Vec::as_slice))?;
    let index_tree = index.write_tree()?;
    let tree = raw.index(&format!("worktree-{round}"));
    tree.load(staged.iter().map(Vec::as_slice))?;
    tree.load(
        absent
            .iter()
            .map(|path| removal(&index_tree, path))
            .collect::<Vec<_>>()
            .iter()
            .map(Vec::as_slice),
    )?;
    tree.add(root, files.iter().map(Vec::as_slice))?;
    let worktree = tree.write_tree()?;
    let exact = tree
        .records()?
        .into_iter()
        .filter(|record| files.contains(record_path(record)))
        .collect();
    let mut nested = Vec::new();
    for (n, repository) in measured.nested.iter().enumerate() {
        let stored = match &repository.git_dir {
            Some(dir) => Some(store_dir(
                raw,
                &format!("nested-{n}-{round}"),
                dir,
                &walk(dir, true)?,
            )?),
            None => None,
        };
        nested.push(stored);
    }
    let state_files = state_files(&measured.place.admin)?;
    let name = format!("state-{round}");
    Ok(Capture {
        index: index_tree,
        worktree,
        raw: exact,
        absent: absent.into_iter().collect(),
        nested,
        state: store_dir(raw, &name, &measured.place.admin, &state_files)?,
        state_files,
    })
}

/// Bytes of the files that [`capture`] would store, but for the state of git itself.
pub(super) fn size(measured: &Measured) -> Result<u64, RepoError> {
    let length = |dir: &Path, files: &mut dyn Iterator<Item = &RelPath>| -> u64 {
        let lengths = files.map(|file| fs::symlink_metadata(dir.join(bytes::path(file))));
        lengths.flatten().map(|meta| meta.len()).sum()
    };
    let (mut files, absent) = sort_out(measured)?;
    files.extend(changed_bytes(
        measured,
        converted(measured, &files, &absent)?,
    )?);
    let mut total = length(&measured.place.sandbox, &mut files.iter());
    for dir in measured
        .nested
        .iter()
        .filter_map(|nested| nested.git_dir.as_ref())
    {
        total += length(dir, &mut walk(dir, true)?.iter());
    }
    Ok(total)
}

fn store_dir(raw: &Raw, name: &str, dir: &Path, files: &[RelPath]) -> Result<Oid, RepoError> {
    let index = raw.index(name);
    index.add(dir, files.iter().map(Vec::as_slice))?;
    index.write_tree()
}

/// The record that removes a path from an index.
fn removal(any: &Oid, path: &[u8]) -> Vec<u8> {
    let mut record = format!("0 {} 0\t", "0".repeat(any.as_str().len())).into_bytes();
    record.extend_from_slice(path);
    record
}

/// Paths that the index only promises to have (`git add -N`).
pub(super) fn intents(measured: &Measured) -> BTreeSet<&RelPath> {
    let promised = measured
        .status
        .changes
        .iter()
        .filter(|change| change.intent);
    promised.map(|change| &change.path).collect()
}

/// The index as one tree can hold it: of conflicting paths, our side or else theirs.
fn staged(measured: &Measured) -> Vec<Vec<u8>> {
    let intents = intents(measured);
    let best = |entry: &&IndexEntry| match entry.stage {
        0 | 2 => true,
        stage => !measured.index.iter().any(|other| {
            other.path == entry.path && (other.stage == 2 || (stage == 1 && other.stage == 3))
        }),
    };
    let plain = measured
        .index
        .iter()
        .filter(|entry| !intents.contains(&entry.path));
    let conflicts: Vec<_> = plain
        .clone()
        .filter(|entry| entry.stage > 0)
        .filter(best)
        .collect();
    plain
        .filter(|entry| entry.stage == 0)
        .chain(conflicts)
        .map(|entry| entry.record(&entry.path, 0))
        .collect()
}

/// Files that are to be stored byte for byte whatever git converts, and tracked paths that are not there.
fn sort_out(measured: &Measured) -> Result<(BTreeSet<RelPath>, BTreeSet<RelPath>), RepoError> {
    let root = &measured.place.sandbox;
    let mut files = BTreeSet::new();
    let mut absent = BTreeSet::new();
    let changed = measured
        .status
        .changes
        .iter()
        .filter(|change| change.in_tree || change.conflict);
    let skipped = measured
        .index
        .iter()
        .filter(|entry| entry.skip)
        .map(|entry| &entry.path);
    let tracked = changed
        .map(|change| &change.path)
        .chain(&measured.hidden)
        .chain(skipped);
    for path in tracked {
        match kind(root, path) {
            Kind::File => {
                files.insert(path.clone());
            }
            Kind::Absent => {
                absent.insert(path.clone());
            }
            // A submodule, whose files come below, or a file that became a directory.
            Kind::Directory if is_gitlink(measured, path) => {}
            Kind::Directory => {
                absent.insert(path.clone());
            }
        }
    }
    let hidden_names = links::EXCLUDED.iter().map(|name| name.as_bytes().to_vec());
    let beside: Vec<RelPath> = hidden_names
        .filter(|path| !links::is_ours(root, path))
        .filter(|path| !measured.index.iter().any(|entry| &entry.path == path))
        .collect();
    for path in measured.untracked().chain(&beside) {
        match kind(root, path) {
            Kind::File => {
                files.insert(path.clone());
            }
            Kind::Absent => {}
            Kind::Directory if path.ends_with(b"/") => {}
            Kind::Directory => {
                let inner = walk(&root.join(bytes::path(path)), false)?;
                files.extend(inner.iter().map(|name| bytes::below(path, name)));
            }
        }
    }
    for nested in &measured.nested {
        if nested.closed {
            let path = bytes::lossy(&nested.path);
            let what = format!("not all of {path} can be read: it cannot be saved");
            return Err(RepoError::Failed(what));
        }
        files.extend(nested.files.iter().cloned());
    }
    Ok((files, absent))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Absent,
}

fn kind(root: &Path, path: &[u8]) -> Kind {
    match fs::symlink_metadata(root.join(bytes::path(path))) {
        Ok(meta) if meta.is_dir() => Kind::Directory,
        Ok(meta) if meta.is_file() || meta.is_symlink() => Kind::File,
        // Sockets and pipes hold nothing; what cannot be read is noticed by the second look.
        Ok(_) | Err(_) => Kind::Absent,
    }
}

fn is_gitlink(measured: &Measured, path: &[u8]) -> bool {
    measured
        .index
        .iter()
        .any(|entry| entry.is_gitlink() && entry.path == path)
}

/// Unchanged files whose bytes git does not vouch for, because line endings, `ident` or an encoding
/// are converted: two different files can both be "unchanged". Filters (LFS) do vouch.
fn converted(
    measured: &Measured,
    files: &BTreeSet<RelPath>,
    absent: &BTreeSet<RelPath>,
) -> Result<Vec<RelPath>, RepoError> {
    let git = || measured.place.git();
    let auto = git()
        .args(["config", "--get", "core.autocrlf"])
        .output()?
        .text();
    let auto = matches!(auto.as_str(), "true" | "input" | "yes" | "on" | "1");
    let rest = measured.index.iter().filter(|entry| {
        !entry.is_gitlink() && !files.contains(&entry.path) && !absent.contains(&entry.path)
    });
    let listed = git()
        .args([
            "check-attr",
            "-z",
            "--stdin",
            "filter",
            "text",
            "eol",
            "ident",
        ])
        .arg("working-tree-encoding")
        .stdin(bytes::join(rest.map(|entry| entry.path.as_slice())))
        .run()?;
    let fields: Vec<&[u8]> = listed.stdout.split(|byte| *byte == 0).collect();
    let mut found = Vec::new();
    for about in fields.chunks_exact(15) {
        let value = |n: usize| about[3 * n + 2];
        let set = |n: usize| !matches!(value(n), b"unspecified" | b"unset");
        let text = set(1) || (auto && value(1) == b"unspecified");
        if !set(0) && (text || set(2) || set(3) || set(4)) {
            found.push(about[0].to_vec());
        }
    }
    Ok(found)
}

/// Of files that are unchanged but for what git converts, those of another length than their blobs: the
/// others are stored already, as good as all of them.
fn changed_bytes(measured: &Measured, unsure: Vec<RelPath>) -> Result<Vec<RelPath>, RepoError> {
    let unsure: BTreeSet<RelPath> = unsure.into_iter().collect();
    let entries = measured.index.iter();
    let entries: Vec<_> = entries
        .filter(|entry| unsure.contains(&entry.path))
        .collect();
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| format!("{}\n", entry.oid))
        .collect();
    let git = measured.place.git();
    let sizes = git
        .args(["cat-file", "--batch-check=%(objectsize)"])
        .stdin(lines.concat())
        .run()?
        .text();
    let other = |(entry, size): &(&IndexEntry, &str)| {
        let file = measured.place.sandbox.join(bytes::path(&entry.path));
        let length = fs::symlink_metadata(file).map(|meta| meta.len().to_string());
        length.is_ok_and(|length| length != *size)
    };
    let pairs = entries.into_iter().zip(sizes.lines()).filter(other);
    Ok(pairs.map(|(entry, _)| entry.path.clone()).collect())
}

/// Files of the administrative directory that describe the agent's work.
pub(super) fn state_files(admin: &Path) -> Result<Vec<RelPath>, RepoError> {
    let mut files = walk(admin, true)?;
    files.retain(|path| {
        let text = bytes::lossy(path);
        let first = text.split('/').next().unwrap_or_default();
        first != "modules"
            && !NOT_STATE.contains(&text.as_str())
            && !text.ends_with(".lock")
            && (!first.contains(".aside") || ASIDE.iter().any(|kept| first.starts_with(kept)))
            && !first.starts_with("sharedindex.")
    });
    Ok(files)
}
