//! The objects that refs reach: any other object is lost.

use std::collections::HashSet;
use std::path::Path;

use git2::{ObjectType, Oid, Repository};

/// Objects that refs reach.
pub struct Reach(HashSet<Oid>);

impl Reach {
    /// Starts with these objects.
    pub fn of(known: impl IntoIterator<Item = Oid>) -> Self {
        Self(known.into_iter().collect())
    }

    /// Adds the objects that these refs of a repository reach.
    pub fn add(&mut self, repo: &Path, wanted: impl Fn(&str) -> bool) {
        let repo = Repository::open(repo).expect("a repository");
        let mut open = Vec::new();
        for found in repo.references().expect("refs") {
            let found = found.expect("a ref");
            let name = String::from_utf8_lossy(found.name_bytes()).into_owned();
            if let (true, Some(id)) = (wanted(&name), found.target()) {
                open.push(id);
            }
        }
        while let Some(id) = open.pop() {
            if !self.0.insert(id) {
                continue;
            }
            let object = repo
                .find_object(id, None)
                .expect("what a ref reaches is there");
            if let Some(commit) = object.as_commit() {
                open.push(commit.tree_id());
                open.extend(commit.parent_ids());
            } else if let Some(tree) = object.as_tree() {
                let below = tree
                    .iter()
                    .filter(|entry| entry.kind() != Some(ObjectType::Commit));
                open.extend(below.map(|entry| entry.id()));
            }
        }
    }

    /// Returns whether the commit is reached, or all of its contents: a rebased commit has another id.
    pub fn has_work(&self, repo: &Path, commit: Oid) -> bool {
        if self.has(&commit) {
            return true;
        }
        let repo = Repository::open(repo).expect("a repository");
        let tree = repo.find_commit(commit).and_then(|commit| commit.tree());
        let mut all = true;
        let walked = tree
            .expect("a tree")
            .walk(git2::TreeWalkMode::PreOrder, |_, entry| {
                all &= entry.kind() != Some(ObjectType::Blob) || self.has(&entry.id());
                git2::TreeWalkResult::Ok
            });
        walked.is_ok() && all
    }

    /// Returns whether the object is reached.
    pub fn has(&self, id: &Oid) -> bool {
        self.0.contains(id)
    }
}
