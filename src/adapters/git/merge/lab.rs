//! Test repositories that are made from maps.

use std::collections::BTreeMap;
use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository};

use crate::domain::ids::Oid;

/// Content and mode by path. The content of a submodule is the id of its commit.
pub(super) type Files = BTreeMap<String, (Vec<u8>, FileMode)>;

/// A bare repository in a temporary directory.
pub(super) struct Lab {
    dir: tempfile::TempDir,
    repo: Repository,
}

impl Lab {
    pub(super) fn new() -> Self {
        let dir = crate::testing::scratch();
        let repo = Repository::init_bare(dir.path()).unwrap();
        let mut config = repo.config().unwrap();
        // The user's global settings may differ.
        for (key, value) in [
            ("user.name", "Test"),
            ("user.email", "test@example.invalid"),
            ("commit.gpgsign", "false"),
            ("merge.renames", "true"),
            ("merge.directoryRenames", "conflict"),
            ("core.attributesFile", "/dev/null"),
        ] {
            config.set_str(key, value).unwrap();
        }
        Self { dir, repo }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn repo(&self) -> &Repository {
        &self.repo
    }

    /// Makes a commit with exactly these files.
    pub(super) fn commit(&self, files: &Files, parents: &[&Oid]) -> Oid {
        self.commit_as("Ann <ann@example.invalid>", "work\n", files, parents)
    }

    pub(super) fn commit_as(
        &self,
        author: &str,
        message: &str,
        files: &Files,
        parents: &[&Oid],
    ) -> Oid {
        let empty = self.repo.treebuilder(None).unwrap().write().unwrap();
        let empty = self.repo.find_tree(empty).unwrap();
        let mut builder = TreeUpdateBuilder::new();
        for (path, (content, mode)) in files {
            let id = match mode {
                FileMode::Commit => {
                    let id = std::str::from_utf8(content).unwrap();
                    git2::Oid::from_str(id).unwrap()
                }
                _ => self.repo.blob(content).unwrap(),
            };
            builder.upsert(path.as_str(), id, *mode);
        }
        let tree = if files.is_empty() {
            empty.id()
        } else {
            builder.create_updated(&self.repo, &empty).unwrap()
        };
        let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
        let body = format!(
            "tree {tree}\n{parents}author {author} 1700000000 +0200\n\
             committer {author} 1700000000 +0200\n\n{message}"
        );
        self.store(body.as_bytes())
    }

    /// Makes a commit of an existing tree.
    pub(super) fn commit_tree(&self, tree: &str, parents: &[&Oid]) -> Oid {
        let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
        let who = "Ann <ann@example.invalid> 1700000000 +0200";
        let body = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nwork\n");
        self.store(body.as_bytes())
    }

    /// Stores a commit with this body.
    pub(super) fn store(&self, body: &[u8]) -> Oid {
        let odb = self.repo.odb().unwrap();
        let id = odb.write(git2::ObjectType::Commit, body).unwrap();
        Oid::new(id.to_string()).unwrap()
    }

    /// Returns the tree of a commit.
    pub(super) fn tree(&self, commit: &Oid) -> String {
        let id = git2::Oid::from_str(commit.as_str()).unwrap();
        self.repo.find_commit(id).unwrap().tree_id().to_string()
    }

    /// Returns the files of a commit, as text by path.
    pub(super) fn files(&self, commit: &Oid) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let id = git2::Oid::from_str(commit.as_str()).unwrap();
        let tree = self.repo.find_commit(id).unwrap().tree().unwrap();
        tree.walk(git2::TreeWalkMode::PreOrder, |root, entry| {
            if let Ok(blob) = self.repo.find_blob(entry.id()) {
                let text = String::from_utf8_lossy(blob.content()).into_owned();
                files.insert(format!("{root}{}", entry.name().unwrap()), text);
            }
            git2::TreeWalkResult::Ok
        })
        .unwrap();
        files
    }

    /// Returns a commit's body, as git stores it.
    pub(super) fn body(&self, commit: &Oid) -> String {
        let id = git2::Oid::from_str(commit.as_str()).unwrap();
        let odb = self.repo.odb().unwrap();
        String::from_utf8_lossy(odb.read(id).unwrap().data()).into_owned()
    }
}

/// Makes regular files with these contents.
pub(super) fn files(list: &[(&str, &str)]) -> Files {
    list.iter()
        .map(|(path, text)| {
            let entry = (text.as_bytes().to_vec(), FileMode::Blob);
            ((*path).to_owned(), entry)
        })
        .collect()
}
