//! What salvage writes beside content: enough to put index, flags and nested repositories back as
//! they were.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::admin::failed;
use super::super::bytes::{self, RelPath};
use super::super::command::Git;
use super::super::measure::Measured;
use super::super::nested::Nested;
use super::super::rig::GitRepo;
use super::capture::{Capture, intents};
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::RepoError;

/// The readable part, `manifest.json` in the tree of `meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Of this file.
    pub(super) version: u32,
    /// Whose sandbox.
    pub(super) raider: RaiderId,
    /// Which incarnation's.
    pub(super) incarnation: Incarnation,
    /// Where it was.
    pub(super) sandbox: String,
    /// HEAD's commit.
    pub(super) head: Option<Oid>,
    /// HEAD's branch.
    pub(super) branch: Option<String>,
    /// What was measured.
    pub(super) fingerprint: String,
    /// Stash entries: messages, in the order of the refs.
    pub(super) stashes: Vec<String>,
    /// What else held work.
    pub(super) special: Vec<String>,
    /// Ignored paths that were not saved.
    pub(super) ignored: Vec<String>,
    /// Clones of which only what differs from their HEAD was saved.
    #[serde(default)]
    pub(super) clones: Vec<Cloned>,
}

/// A clone, which can be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cloned {
    /// Where it was.
    path: String,
    /// Its HEAD.
    head: Option<Oid>,
    /// Where it was cloned from.
    url: String,
}

/// Those in a sandbox.
pub(super) fn clones(measured: &Measured) -> Vec<Cloned> {
    let clone = |nested: &Nested| {
        Some(Cloned {
            path: bytes::lossy(&nested.path),
            head: nested.head.clone(),
            url: nested.origin.clone()?,
        })
    };
    measured.nested.iter().filter_map(clone).collect()
}

/// The lists for machines: NUL-separated, names of files in the tree of `meta`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lists {
    /// Index records, all stages.
    pub(super) index: Vec<Vec<u8>>,
    /// Index records of files stored byte for byte.
    pub(super) raw: Vec<Vec<u8>>,
    /// Tracked paths that were not there.
    pub(super) absent: Vec<RelPath>,
    /// Paths only promised to the index.
    pub(super) intent: Vec<RelPath>,
    /// Paths with skip-worktree.
    pub(super) skip: Vec<RelPath>,
    /// Paths with assume-unchanged.
    pub(super) assume: Vec<RelPath>,
    /// Nested repositories: path, and where its git directory was (`s:` in the sandbox, `a:` in the
    /// administrative directory, `-` elsewhere), in turns.
    pub(super) nested: Vec<RelPath>,
}

impl Lists {
    /// The lists of a captured sandbox.
    pub(super) fn of(measured: &Measured, capture: &Capture) -> Self {
        let intents = intents(measured);
        let flagged = |flag: fn(&super::super::status::IndexEntry) -> bool| {
            let entries = measured
                .index
                .iter()
                .filter(|entry| entry.stage == 0 && flag(entry));
            entries.map(|entry| entry.path.clone()).collect()
        };
        let index = measured
            .index
            .iter()
            .filter(|entry| !intents.contains(&entry.path));
        let mut nested = Vec::new();
        for repository in &measured.nested {
            nested.push(repository.path.clone());
            nested.push(home(measured, repository.git_dir.as_deref()));
        }
        Self {
            index: index
                .map(|entry| entry.record(&entry.path, entry.stage))
                .collect(),
            raw: capture.raw.clone(),
            absent: capture.absent.clone(),
            intent: intents.into_iter().cloned().collect(),
            skip: flagged(|entry| entry.skip),
            assume: flagged(|entry| entry.assume),
            nested,
        }
    }

    fn files(&self) -> [(&'static str, &Vec<Vec<u8>>); 7] {
        [
            ("index", &self.index),
            ("raw", &self.raw),
            ("absent", &self.absent),
            ("intent", &self.intent),
            ("skip", &self.skip),
            ("assume", &self.assume),
            ("nested", &self.nested),
        ]
    }

    /// Writes manifest and lists into a directory; returns the files' names.
    pub(super) fn write(&self, manifest: &Manifest, dir: &Path) -> Result<Vec<RelPath>, RepoError> {
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| RepoError::Failed(format!("the manifest: {error}")))?;
        let put = |name: &str, content: &[u8]| {
            let file = dir.join(name);
            fs::write(&file, content).map_err(|error| failed("cannot write", &file, &error))
        };
        put("manifest.json", &text)?;
        let mut names = vec![b"manifest.json".to_vec()];
        for (name, list) in self.files() {
            put(name, &bytes::join(list.iter().map(Vec::as_slice)))?;
            names.push(name.as_bytes().to_vec());
        }
        Ok(names)
    }

    /// Reads the lists back.
    pub(super) fn read(repo: &GitRepo, meta: &str) -> Result<Self, RepoError> {
        let list = |name: &str| -> Result<Vec<Vec<u8>>, RepoError> {
            let list = blob(repo.git(), meta, name)?;
            Ok(bytes::split(&list).map(<[u8]>::to_vec).collect())
        };
        Ok(Self {
            index: list("index")?,
            raw: list("raw")?,
            absent: list("absent")?,
            intent: list("intent")?,
            skip: list("skip")?,
            assume: list("assume")?,
            nested: list("nested")?,
        })
    }
}

impl Manifest {
    /// Reads it back.
    pub(super) fn read(repo: &GitRepo, meta: &str) -> Result<Self, RepoError> {
        let text = blob(repo.git(), meta, "manifest.json")?;
        serde_json::from_slice(&text)
            .map_err(|error| RepoError::Failed(format!("{meta} has no valid manifest: {error}")))
    }
}

fn blob(git: Git, meta: &str, name: &str) -> Result<Vec<u8>, RepoError> {
    let object = format!("{meta}:{name}");
    Ok(git.args(["cat-file", "blob", &object]).run()?.stdout)
}

/// Where a git directory was, relative to what goes with the sandbox.
fn home(measured: &Measured, git_dir: Option<&Path>) -> Vec<u8> {
    let Some(dir) = git_dir.and_then(|dir| fs::canonicalize(dir).ok()) else {
        return b"-".to_vec();
    };
    let homes = [
        (b"s:", &measured.place.sandbox),
        (b"a:", &measured.place.admin),
    ];
    for (mark, home) in homes {
        let home = fs::canonicalize(home).unwrap_or_else(|_| home.clone());
        if let Ok(below) = dir.strip_prefix(&home) {
            return [mark, bytes::of(below)].concat();
        }
    }
    b"-".to_vec()
}
