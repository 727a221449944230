//! Saves what can be read of commits that cannot be copied whole: a commit or tree of another form than git's, or one
//! that names a missing object. Objects that are whole are copied as they are; the bytes of the others are stored as
//! blobs, which the manifest lists.

use std::collections::{BTreeMap, BTreeSet};

use super::super::bytes;
use super::super::command::Git;
use super::super::files::store::Store;
use super::super::object_copy::is_damage;
use super::super::reflog_commits::kinds;
use super::super::rig::GitRepo;
use super::super::unreadable;
use super::manifest::{Damaged, SavedBytes};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of damaged trees of all commits that are read: each costs a git process. The others are listed as unread.
const TREES_MAX: usize = 5_000;

/// The number of ancestors of a damaged commit that are looked at. Those after them are listed as unread.
const COMMITS_MAX: usize = 5_000;

/// The result of saving damaged commits.
#[derive(Default)]
pub(super) struct Saved {
    /// The commits, for the manifest.
    pub(super) commits: Vec<Damaged>,
    /// Blobs that must stay.
    pub(super) blobs: BTreeSet<Oid>,
    /// Whole trees that must stay.
    pub(super) trees: BTreeSet<Oid>,
    /// Whole ancestors that must stay, each with its history.
    pub(super) whole: BTreeSet<Oid>,
}

/// Saves these commits and their ancestors.
pub(super) fn save<F: Fn() -> Git>(
    repo: &GitRepo,
    store: &mut Store<F>,
    commits: &BTreeSet<Oid>,
) -> Result<Saved, RepoError> {
    let mut parts = Parts {
        repo,
        store,
        known: BTreeMap::new(),
        texts: BTreeMap::new(),
        trees: 0,
        saved: Saved::default(),
    };
    for commit in commits {
        let of = parts.commit(commit)?;
        parts.saved.commits.push(of);
    }
    Ok(parts.saved)
}

/// An object that was looked at.
#[derive(Clone)]
enum Part {
    /// Copied as it is, or with everything below it.
    Whole,
    /// Its bytes are in a blob; it names these objects.
    Bytes(SavedBytes, BTreeSet<Oid>),
    /// It cannot be read.
    Unread,
}

/// The objects of all damaged commits: each is read once, as commits of one history share most of them.
struct Parts<'a, F> {
    repo: &'a GitRepo,
    store: &'a mut Store<F>,
    known: BTreeMap<Oid, Part>,
    /// The texts of commits that are not whole; none of those that cannot be read.
    texts: BTreeMap<Oid, Option<(SavedBytes, Vec<u8>)>>,
    /// The number of damaged trees that were read.
    trees: usize,
    saved: Saved,
}

impl<F: Fn() -> Git> Parts<'_, F> {
    /// Saves a commit, and everything below it and its ancestors.
    fn commit(&mut self, commit: &Oid) -> Result<Damaged, RepoError> {
        let mut of = Damaged {
            commit: commit.clone(),
            bytes: Vec::new(),
            unread: Vec::new(),
        };
        let (mut open, mut done) = (BTreeSet::new(), BTreeSet::new());
        // A stash entry has its index and its untracked files in parents that no other ref names, and a pull moves a
        // branch by many commits with one line of its reflog.
        let mut ancestors = vec![commit.clone()];
        while let Some(id) = ancestors.pop() {
            if !done.insert(id.clone()) {
                continue;
            }
            if done.len() > COMMITS_MAX {
                of.unread.push(id);
                continue;
            }
            let text = self.text_of(&id, &mut of)?;
            open.extend(of_head(&text, b"tree "));
            let parents = of_head(&text, b"parent ");
            self.look_at(&parents)?;
            let is_left = |id: &Oid| !matches!(self.known.get(id), Some(Part::Whole));
            ancestors.extend(parents.into_iter().filter(is_left));
        }
        while !open.is_empty() {
            self.look_at(&open)?;
            let mut next = BTreeSet::new();
            for id in &open {
                match self.known.get(id) {
                    Some(Part::Whole) => {}
                    Some(Part::Bytes(bytes, names)) => {
                        of.bytes.push(bytes.clone());
                        next.extend(names.iter().cloned());
                    }
                    Some(Part::Unread) | None => of.unread.push(id.clone()),
                }
            }
            done.append(&mut open);
            open = next.difference(&done).cloned().collect();
        }
        Ok(of)
    }

    /// Saves these objects, apart from what they name.
    fn look_at(&mut self, ids: &BTreeSet<Oid>) -> Result<(), RepoError> {
        let new = ids.iter().filter(|id| !self.known.contains_key(id));
        let new: BTreeSet<Oid> = new.cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let there = kinds(self.repo, &new)?;
        let ids: Vec<Oid> = there.iter().map(|(id, _)| id.clone()).collect();
        let damaged: BTreeSet<Oid> = self.repo.take_whole(&ids)?.into_iter().collect();
        self.known
            .extend(new.into_iter().map(|id| (id, Part::Unread)));
        for (id, kind) in there {
            let part = match (kind.as_str(), damaged.contains(&id)) {
                ("blob", false) => {
                    self.saved.blobs.insert(id.clone());
                    Part::Whole
                }
                ("tree", false) => {
                    self.saved.trees.insert(id.clone());
                    Part::Whole
                }
                ("commit", false) => {
                    self.saved.whole.insert(id.clone());
                    Part::Whole
                }
                ("tree", true) if self.trees < TREES_MAX => {
                    self.trees += 1;
                    let id_len = id.as_str().len() / 2;
                    match self.keep_bytes(&id, "tree")? {
                        Some((bytes, text)) => Part::Bytes(bytes, named(&text, id_len)),
                        None => Part::Unread,
                    }
                }
                _ => Part::Unread,
            };
            self.known.insert(id, part);
        }
        Ok(())
    }

    /// Saves the text of a commit, and returns it; none if it cannot be read.
    fn text_of(&mut self, commit: &Oid, of: &mut Damaged) -> Result<Vec<u8>, RepoError> {
        if !self.texts.contains_key(commit) {
            let read = self.keep_bytes(commit, "commit")?;
            self.texts.insert(commit.clone(), read);
        }
        let Some((bytes, text)) = self.texts.get(commit).and_then(Option::as_ref) else {
            of.unread.push(commit.clone());
            return Ok(Vec::new());
        };
        of.bytes.push(bytes.clone());
        Ok(text.clone())
    }

    /// Stores the bytes of an object that git can read but not take for what it is; none if it cannot be read.
    fn keep_bytes(
        &mut self,
        id: &Oid,
        kind: &str,
    ) -> Result<Option<(SavedBytes, Vec<u8>)>, RepoError> {
        let read = self.repo.lens().args(["cat-file", kind, id.as_str()]);
        let read = match read.run() {
            Ok(read) => read,
            Err(why) if is_damage(&why) => {
                let id = std::slice::from_ref(id);
                unreadable::check(self.repo, id, &why.to_string())?;
                return Ok(None);
            }
            Err(why) => return Err(why),
        };
        let blob = self.store.bytes(&read.stdout)?;
        self.saved.blobs.insert(blob.clone());
        let bytes = SavedBytes {
            id: id.clone(),
            kind: kind.to_owned(),
            blob,
        };
        Ok(Some((bytes, read.stdout)))
    }
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

/// Returns the objects that the entries of a tree name, `<mode> <name>\0<id>` each, whatever their modes are. A
/// submodule's commit is in another repository.
fn named(tree: &[u8], id_len: usize) -> BTreeSet<Oid> {
    let (mut found, mut rest) = (BTreeSet::new(), tree);
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
