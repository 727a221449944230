//! Finds the work in a sandbox by its bytes alone: files are read from the disk and compared with those of the commit,
//! which are read from ours. No git looks at the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::{ObjectType, Oid, Repository, TreeWalkMode, TreeWalkResult};

use crate::custody_bytes::Bytes;
use horde_supervisor::domain::facts::GitFacts;
use horde_supervisor::domain::other_work::OtherWork;

/// Kind (`file`, `exec`, `link`) and bytes of every file of a commit.
type Files = BTreeMap<Vec<u8>, (&'static str, Vec<u8>)>;

/// Every file of a disk.
type Disk = BTreeMap<Vec<u8>, Bytes>;

/// A sandbox as it was checked out.
pub struct Born {
    disk: Disk,
    files: Files,
}

impl Born {
    /// Makes it from the disk, and the commit that was checked out.
    pub fn of(ours: &Path, base: &str, disk: Disk) -> Self {
        let files = committed(ours, base);
        Self { disk, files }
    }

    /// Returns whether a file has the bytes that were checked out from its blob: it holds nothing of an agent's then.
    fn made(&self, path: &Vec<u8>, now: &[u8], blob: &[u8]) -> bool {
        let same_blob = self.files.get(path).is_some_and(|(_, text)| text == blob);
        same_blob && self.disk.get(path).is_some_and(|then| then.3 == now)
    }
}

/// The differences between a disk and a commit.
pub struct Verdict {
    /// Paths that hold other bytes, or another kind of file, than the commit.
    other: BTreeSet<String>,
    /// Paths of the commit that have no file.
    absent: BTreeSet<String>,
}

impl Verdict {
    /// Compares a disk with a commit; without a commit, every file differs.
    pub fn of(ours: &Path, head: &str, disk: &Disk, born: &Born) -> Self {
        let committed = match head {
            "" => Files::new(),
            head => committed(ours, head),
        };
        let converts = committed
            .get(&b".gitattributes"[..])
            .is_some_and(|(_, text)| text.windows(8).any(|part| part == b"eol=crlf"));
        let other = disk.iter().filter(|(path, (kind, mode, _, bytes))| {
            let kind = match (*kind, mode & 0o111) {
                ("file", 1..) => "exec",
                (kind, _) => kind,
            };
            // The only conversion of these commits: it can be made again from the commit.
            let given = |blob: &[u8]| {
                blob == bytes || (converts && crlf(blob) == *bytes) || born.made(path, bytes, blob)
            };
            let known = committed.get(*path);
            !known.is_some_and(|(as_kind, blob)| *as_kind == kind && given(blob))
        });
        let absent = committed.keys().filter(|path| !disk.contains_key(*path));
        Self {
            other: other.map(|(path, _)| lossy(path)).collect(),
            absent: absent.map(|path| lossy(path)).collect(),
        }
    }

    /// Returns the differences that the facts do not name. In a sparse sandbox a file may be absent.
    pub fn unseen(&self, facts: &GitFacts, sparse: bool) -> Vec<String> {
        let named: BTreeSet<&str> = facts
            .dirty
            .iter()
            .chain(&facts.untracked)
            .map(String::as_str)
            .collect();
        let inside = |path: &str| {
            let nested = facts.other_work.iter().filter_map(|line| {
                let rest = line.strip_prefix("nested repository ")?;
                Some(rest.split(": ").next().unwrap_or_default())
            });
            let dirs = named.iter().filter_map(|name| name.strip_suffix('/'));
            let mut dirs = dirs.chain(nested);
            dirs.any(|dir| {
                path.strip_prefix(dir)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let is_named = |path: &str| {
            let converted = OtherWork::converted(path);
            named.contains(path) || facts.other_work.contains(&converted) || inside(path)
        };
        let absent = self.absent.iter().filter(|_| !sparse);
        let unseen: BTreeSet<_> = self
            .other
            .iter()
            .chain(absent)
            .filter(|path| !is_named(path))
            .collect();
        unseen.into_iter().cloned().collect()
    }
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Returns the text with CRLF line ends.
fn crlf(text: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    for byte in text {
        if *byte == b'\n' {
            all.push(b'\r');
        }
        all.push(*byte);
    }
    all
}

/// Returns the files of a commit, as they are stored.
fn committed(ours: &Path, head: &str) -> Files {
    let repo = Repository::open_bare(ours).expect("ours");
    let commit = repo.find_commit(Oid::from_str(head).expect("an id"));
    let tree = commit.and_then(|commit| commit.tree()).expect("a tree");
    let mut files = Files::new();
    let walked = tree.walk(TreeWalkMode::PreOrder, |dir, entry| {
        if entry.kind() == Some(ObjectType::Blob) {
            let kind = match entry.filemode() {
                0o120_000 => "link",
                0o100_755 => "exec",
                _ => "file",
            };
            let path = [dir.as_bytes(), entry.name_bytes()].concat();
            let blob = repo.find_blob(entry.id()).expect("a blob");
            files.insert(path, (kind, blob.content().to_vec()));
        }
        TreeWalkResult::Ok
    });
    walked.expect("walked");
    files
}
