//! Saves what can be read of commits that cannot be copied whole: a commit or tree of another form than git's, or one
//! that names a missing object. Objects that are whole are copied as they are; the bytes of the others are stored as
//! blobs, which the manifest lists.

use std::collections::BTreeSet;

use super::super::bytes;
use super::super::command::Git;
use super::super::files::store::Store;
use super::super::reflog_commits::kinds;
use super::super::rig::GitRepo;
use super::manifest::{Damaged, SavedBytes};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of damaged trees of a commit that are read: each costs a git process.
const TREES_MAX: usize = 1_000;

/// The result of saving damaged commits.
#[derive(Default)]
pub(super) struct Saved {
    /// The commits, for the manifest.
    pub(super) commits: Vec<Damaged>,
    /// Blobs that must stay.
    pub(super) blobs: BTreeSet<Oid>,
    /// Whole trees that must stay.
    pub(super) trees: BTreeSet<Oid>,
}

/// Saves these commits with the trees of their parents. The history of the parents is saved where a ref names it.
pub(super) fn save<F: Fn() -> Git>(
    repo: &GitRepo,
    store: &mut Store<F>,
    commits: &BTreeSet<Oid>,
) -> Result<Saved, RepoError> {
    let mut saved = Saved::default();
    for commit in commits {
        let mut of = Damaged {
            commit: commit.clone(),
            bytes: Vec::new(),
            unread: Vec::new(),
        };
        let text = keep_bytes(repo, store, (commit, "commit"), &mut of, &mut saved)?;
        let mut trees = of_head(&text, b"tree ");
        // A stash entry has its index and its untracked files in parents that no other ref names.
        for parent in of_head(&text, b"parent ") {
            let text = keep_bytes(repo, store, (&parent, "commit"), &mut of, &mut saved)?;
            trees.extend(of_head(&text, b"tree "));
        }
        below(repo, store, trees, &mut of, &mut saved)?;
        saved.commits.push(of);
    }
    Ok(saved)
}

/// Returns the objects that the head of a commit names with this key.
fn of_head(commit: &[u8], key: &[u8]) -> BTreeSet<Oid> {
    let lines = commit.split(|byte| *byte == b'\n');
    let head = lines.take_while(|line| !line.is_empty());
    let named = head.filter_map(|line| line.strip_prefix(key));
    named
        .filter_map(|id| Oid::new(bytes::lossy(id).to_ascii_lowercase()).ok())
        .collect()
}

/// Saves these objects and everything below them.
fn below<F: Fn() -> Git>(
    repo: &GitRepo,
    store: &mut Store<F>,
    mut open: BTreeSet<Oid>,
    of: &mut Damaged,
    saved: &mut Saved,
) -> Result<(), RepoError> {
    let (mut done, mut read) = (BTreeSet::new(), 0);
    while !open.is_empty() {
        done.extend(open.iter().cloned());
        let there = kinds(repo, &open)?;
        let has = |id: &&Oid| there.iter().any(|(found, _)| found == *id);
        of.unread.extend(open.iter().filter(|id| !has(id)).cloned());
        let ids: Vec<Oid> = there.iter().map(|(id, _)| id.clone()).collect();
        let damaged: BTreeSet<Oid> = repo.take_whole(&ids)?.into_iter().collect();
        open.clear();
        for (id, kind) in there {
            match (kind.as_str(), damaged.contains(&id)) {
                ("blob", false) => drop(saved.blobs.insert(id)),
                ("tree", false) => drop(saved.trees.insert(id)),
                ("tree", true) if read < TREES_MAX => {
                    read += 1;
                    let text = keep_bytes(repo, store, (&id, "tree"), of, saved)?;
                    open.extend(named(&text, id.as_str().len() / 2));
                }
                _ => of.unread.push(id),
            }
        }
        open.retain(|id| !done.contains(id));
    }
    Ok(())
}

/// Stores the bytes of an object that git can read but not take for what it is. Returns them; none if it cannot be
/// read.
fn keep_bytes<F: Fn() -> Git>(
    repo: &GitRepo,
    store: &mut Store<F>,
    (id, kind): (&Oid, &str),
    of: &mut Damaged,
    saved: &mut Saved,
) -> Result<Vec<u8>, RepoError> {
    let read = repo.lens().args(["cat-file", kind, id.as_str()]).output()?;
    if !read.ok() {
        of.unread.push(id.clone());
        return Ok(Vec::new());
    }
    let blob = store.bytes(&read.stdout)?;
    saved.blobs.insert(blob.clone());
    of.bytes.push(SavedBytes {
        id: id.clone(),
        kind: kind.to_owned(),
        blob,
    });
    Ok(read.stdout)
}

/// Returns the objects that the entries of a tree name, `<mode> <name>\0<id>` each, whatever their modes are. A
/// submodule's commit is in another repository.
fn named(tree: &[u8], id_len: usize) -> Vec<Oid> {
    let (mut found, mut rest) = (Vec::new(), tree);
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let Some(id) = rest.get(end + 1..=end + id_len) else {
            break;
        };
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        found.extend(Oid::new(hex).ok().filter(|_| !rest.starts_with(b"160000 ")));
        rest = &rest[end + 1 + id_len..];
    }
    found
}
