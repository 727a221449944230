//! Stores and writes files byte for byte, without filters, line endings or `ident`.
//!
//! A throwaway repository shares the objects of ours, and its attributes switch every conversion off. So git itself
//! hashes and writes the files (large ones, links, odd names), and neither the agent's index nor its configuration
//! takes part.

use std::path::{Path, PathBuf};

use super::admin::failed;
use super::bytes;
use super::command::{CHECKOUT, Git};
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Attributes that take precedence over every `.gitattributes`.
const ATTRIBUTES: &str = "* -text -ident -filter !eol !working-tree-encoding\n";

/// Settings of the throwaway repository, which permit every name that the file system permits.
const CONFIG: &[&str] = &[
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.splitIndex=false",
    "core.bare=false",
    "core.bigFileThreshold=64m",
];

/// A throwaway repository.
#[derive(Debug)]
pub(super) struct Raw {
    scratch: tempfile::TempDir,
    objects: PathBuf,
}

impl Raw {
    /// Makes a throwaway repository.
    pub(super) fn new(repo: &GitRepo) -> Result<Self, RepoError> {
        let format = repo.object_format()?;
        let scratch = super::admin::scratch(repo)?;
        let git_dir = scratch.path().join("raw.git");
        Git::in_dir(scratch.path())
            .args(["init", "--quiet", "--bare", "--template="])
            .arg(format!("--object-format={format}"))
            .arg(&git_dir)
            .run()?;
        let info = git_dir.join("info");
        std::fs::create_dir_all(&info)
            .and_then(|()| std::fs::write(info.join("attributes"), ATTRIBUTES))
            .map_err(|error| failed("cannot write in", &info, &error))?;
        Ok(Self {
            scratch,
            objects: repo.repo_dir().join("objects"),
        })
    }

    /// Returns an index of this name, empty at first.
    pub(super) fn index(&self, name: &str) -> RawIndex<'_> {
        RawIndex {
            raw: self,
            file: self.scratch.path().join(format!("{name}.index")),
        }
    }
}

/// An index of the throwaway repository.
#[derive(Debug)]
pub(super) struct RawIndex<'a> {
    raw: &'a Raw,
    file: PathBuf,
}

impl RawIndex<'_> {
    fn git(&self, work_tree: &Path) -> Git {
        let mut git = Git::in_dir(work_tree)
            .env("GIT_DIR", self.raw.scratch.path().join("raw.git"))
            .env("GIT_OBJECT_DIRECTORY", &self.raw.objects)
            .env("GIT_INDEX_FILE", &self.file)
            .env("GIT_WORK_TREE", work_tree)
            .limit(CHECKOUT);
        for setting in CONFIG {
            git = git.arg("-c").arg(setting);
        }
        git
    }

    fn plumbing(&self) -> Git {
        self.git(self.raw.scratch.path())
    }

    /// Adds entries, `<mode> <oid> <stage>\t<path>` each. Mode 0 removes an entry.
    pub(super) fn load<'a>(
        &self,
        records: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), RepoError> {
        self.plumbing()
            .args(["update-index", "-z", "--index-info"])
            .stdin(bytes::join(records))
            .run()?;
        Ok(())
    }

    /// Reads a tree into the index.
    pub(super) fn read(&self, tree: &Oid) -> Result<(), RepoError> {
        self.plumbing().args(["read-tree", tree.as_str()]).run()?;
        Ok(())
    }

    /// Stores the files byte for byte. They must exist.
    pub(super) fn add<'a>(
        &self,
        work_tree: &Path,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), RepoError> {
        let list = bytes::join(paths);
        if list.is_empty() {
            return Ok(());
        }
        self.git(work_tree)
            .args(["update-index", "--add", "--replace", "-z", "--stdin"])
            .stdin(list)
            .run()?;
        Ok(())
    }

    /// Returns the entries in the form of [`RawIndex::load`].
    pub(super) fn records(&self) -> Result<Vec<Vec<u8>>, RepoError> {
        let output = self.plumbing().args(["ls-files", "-s", "-z"]).run()?;
        Ok(bytes::split(&output.stdout).map(<[u8]>::to_vec).collect())
    }

    /// Writes every file into the directory, over existing ones.
    pub(super) fn write_files(&self, work_tree: &Path) -> Result<(), RepoError> {
        self.git(work_tree)
            .args(["checkout-index", "--all", "--force"])
            .run()?;
        Ok(())
    }
}

/// Returns the path of an index record.
pub(super) fn record_path(record: &[u8]) -> &[u8] {
    let tab = record.iter().position(|byte| *byte == b'\t');
    tab.map_or(&[], |tab| &record[tab + 1..])
}
