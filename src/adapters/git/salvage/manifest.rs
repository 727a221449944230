//! The files that salvage writes in addition to content. The manifest is for people and tools; the list has a line
//! for every entry, with everything that a restore needs to write and verify it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::super::bytes::{self, RelPath};
use super::super::files::text::{decode, encode};
use super::super::files::walk::Kind;
use super::super::measure::Measured;
use super::super::rig::GitRepo;
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::RepoError;

/// The version of this format.
pub(super) const VERSION: u32 = 2;

/// The first line of a list.
const FORMAT: &str = "horde-salvage-files 2";

/// The readable part, `manifest.json` in the tree of `meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of this file.
    pub(super) version: u32,
    /// The raider that owned the sandbox.
    pub(super) raider: RaiderId,
    /// The incarnation of that raider.
    pub(super) incarnation: Incarnation,
    /// The path of the sandbox.
    pub(super) sandbox: String,
    /// The path of its administrative directory.
    pub(super) admin: String,
    /// HEAD's commit.
    pub(super) head: Option<Oid>,
    /// HEAD's branch.
    pub(super) branch: Option<String>,
    /// The fingerprint of the measurement.
    pub(super) fingerprint: String,
    /// Stash entries: messages, in the order of the refs.
    pub(super) stashes: Vec<String>,
    /// Descriptions of other work.
    pub(super) special: Vec<String>,
    /// Ignored paths that were not saved.
    pub(super) ignored: Vec<String>,
    /// Clones of which only the differences from their HEAD were saved.
    pub(super) clones: Vec<Cloned>,
    /// Bytes of file content that only this salvage holds.
    pub(super) bytes: u64,
    /// Pipes, sockets and devices: they have no content and are not restored.
    pub(super) other: Vec<String>,
    /// Commits that could not be copied whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) damaged: Vec<Damaged>,
}

/// A damaged commit, with the objects below it that ours could not take as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Damaged {
    /// Its id.
    pub(super) commit: Oid,
    /// Commits and trees whose bytes are saved in a blob.
    pub(super) bytes: Vec<SavedBytes>,
    /// Objects that cannot be read.
    pub(super) unread: Vec<Oid>,
}

/// An object whose bytes are in a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedBytes {
    /// The object's id.
    pub(super) id: Oid,
    /// Its type, as git names it.
    pub(super) kind: String,
    /// The blob with its bytes.
    pub(super) blob: Oid,
}

/// A clone that can be made again from its URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cloned {
    /// The path of the clone.
    path: String,
    /// Its HEAD.
    head: Option<Oid>,
    /// The URL that it was cloned from.
    url: String,
}

/// Returns the clones in a sandbox.
pub(super) fn clones(measured: &Measured) -> Vec<Cloned> {
    let inner = measured.inner.inner.iter();
    let clone = inner.filter_map(|inner| {
        Some(Cloned {
            path: bytes::lossy(&inner.path),
            head: inner.head.clone(),
            url: inner.origin.clone()?,
        })
    });
    clone.collect()
}

/// The directory that an entry was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryRoot {
    /// In the sandbox.
    Work,
    /// In its administrative directory.
    Admin,
    /// In the administrative directory of a worktree that the agent made inside the sandbox: its repository still
    /// exists, so this entry is kept but not restored.
    Other(usize),
}

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) place: EntryRoot,
    pub(super) path: RelPath,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// The modification time: seconds and nanoseconds.
    pub(super) modified: (i64, u32),
    /// The blob with the file's bytes, or with the target of a link.
    pub(super) id: Option<Oid>,
    /// Paths with the same number are hard links of one file.
    pub(super) file: Option<usize>,
}

/// Formats the list as text.
pub(super) fn render(lines: &[Line]) -> String {
    let mut text = format!("{FORMAT}\n");
    for line in lines {
        let place = match line.place {
            EntryRoot::Work => "w".to_owned(),
            EntryRoot::Admin => "a".to_owned(),
            EntryRoot::Other(n) => format!("o{n}"),
        };
        let kind = match line.kind {
            Kind::File => 'f',
            Kind::Link => 'l',
            Kind::Dir => 'd',
            Kind::Other => 'o',
        };
        let id = line.id.as_ref().map_or("-", Oid::as_str);
        let file = line.file.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let (seconds, nanos) = line.modified;
        text.push_str(&format!(
            "{place} {kind} {:o} {} {seconds} {nanos} {id} {file} {}\n",
            line.mode,
            line.size,
            encode(&line.path)
        ));
    }
    text
}

/// Reads a list.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Line>, RepoError> {
    let damaged = || RepoError::Failed("the list of salvaged files is damaged".to_owned());
    let text = std::str::from_utf8(text).map_err(|_| damaged())?;
    let mut lines = text.lines();
    if lines.next() != Some(FORMAT) {
        return Err(damaged());
    }
    lines.map(|text| line(text).ok_or_else(damaged)).collect()
}

fn line(text: &str) -> Option<Line> {
    let fields: Vec<&str> = text.split(' ').collect();
    let &[place, kind, mode, size, seconds, nanos, id, file, path] = fields.as_slice() else {
        return None;
    };
    let path = decode(path)?;
    let mut parts = path.split(|byte| *byte == b'/');
    let is_plain = parts.all(|part| !matches!(part, b"" | b"." | b".."));
    is_plain.then_some(())?;
    Some(Line {
        place: match place {
            "w" => EntryRoot::Work,
            "a" => EntryRoot::Admin,
            other => EntryRoot::Other(other.strip_prefix('o')?.parse().ok()?),
        },
        kind: match kind {
            "f" => Kind::File,
            "l" => Kind::Link,
            "d" => Kind::Dir,
            "o" => Kind::Other,
            _ => return None,
        },
        mode: u32::from_str_radix(mode, 8).ok()?,
        size: size.parse().ok()?,
        modified: (seconds.parse().ok()?, nanos.parse().ok()?),
        id: match id {
            "-" => None,
            id => Some(Oid::new(id).ok()?),
        },
        file: match file {
            "-" => None,
            file => Some(file.parse().ok()?),
        },
        path,
    })
}

/// Numbers files by their inodes.
#[derive(Debug, Default)]
pub(super) struct Numbers(HashMap<u64, usize>);

impl Numbers {
    /// Returns the number of a file that has several hard links.
    pub(super) fn of(&mut self, inode: u64) -> usize {
        let next = self.0.len();
        *self.0.entry(inode).or_insert(next)
    }
}

impl Manifest {
    /// Reads the manifest of a salvage.
    pub(super) fn read(repo: &GitRepo, meta: &str) -> Result<Self, RepoError> {
        let text = file(repo, meta, "manifest.json")?;
        serde_json::from_slice(&text)
            .map_err(|error| RepoError::Failed(format!("{meta} has no valid manifest: {error}")))
    }
}

/// Reads the list of a salvage.
pub(super) fn lines(repo: &GitRepo, meta: &str) -> Result<Vec<Line>, RepoError> {
    parse(&file(repo, meta, "files")?)
}

/// Reads a file in the tree of `meta`, a full ref name.
fn file(repo: &GitRepo, meta: &str, name: &str) -> Result<Vec<u8>, RepoError> {
    if let Some(text) = repo.known().and_then(|known| known.file(meta, name)) {
        return Ok(text);
    }
    let object = format!("{meta}:{name}");
    let read = repo.git().args(["cat-file", "blob", &object]).run()?;
    Ok(read.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_comes_back_whatever_its_paths_are() {
        let line = |place, kind, path: &[u8]| Line {
            place,
            path: path.to_vec(),
            kind,
            mode: 0o4755,
            size: 3,
            modified: (-1, 999_999_999),
            id: (kind == Kind::File).then(|| Oid::new("a".repeat(40)).unwrap()),
            file: (kind == Kind::File).then_some(4),
        };
        let lines = [
            line(EntryRoot::Work, Kind::File, b".GIT/\xff x\n"),
            line(EntryRoot::Admin, Kind::Link, b"logs/HEAD"),
            line(EntryRoot::Other(2), Kind::Dir, b"%"),
            line(EntryRoot::Work, Kind::Other, b"pipe"),
        ];
        assert_eq!(parse(render(&lines).as_bytes()).unwrap(), lines);
        assert!(parse(b"something else\n").is_err());
    }

    #[test]
    fn list_that_leads_out_of_a_directory_is_damaged() {
        for path in ["../x", "/x", "a//b", "a/./b"] {
            let text = format!("{FORMAT}\nw f 644 1 0 0 - - {path}\n");
            assert!(parse(text.as_bytes()).is_err(), "{path}");
        }
    }
}
