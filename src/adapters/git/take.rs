//! Copies objects from the repository that agents write to into ours. Each one is hashed anew: what is in
//! ours is what its id says.

use std::fs::{self, File};
use std::path::Path;

use super::admin::{self, failed};
use super::bytes;
use super::command::{CHECKOUT, Git};
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// An agent's own `git gc` may move objects while they are copied.
const ATTEMPTS: usize = 2;

impl GitRepo {
    /// A `git` command in ours that also reads the objects of theirs. What it sees is not safe there.
    pub(super) fn lens(&self) -> Git {
        self.through(self.git())
    }

    /// Lets a command that runs on ours read the objects of theirs, too.
    pub(super) fn through(&self, git: Git) -> Git {
        let mut list = b"\"".to_vec();
        for byte in bytes::of(&self.theirs().join("objects")) {
            if matches!(byte, b'"' | b'\\') {
                list.push(b'\\');
            }
            list.push(*byte);
        }
        list.push(b'"');
        git.env(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            bytes::path(&list).as_os_str(),
        )
        // Indexes that an agent can write, of what is in commits and packs.
        .args(["-c", "core.commitGraph=false"])
        .args(["-c", "core.multiPackIndex=false"])
    }

    /// A `git` command on the files of a sandbox and an index, with our configuration and attributes.
    pub(super) fn work(&self, sandbox: &Path, index: &Path) -> Git {
        let git = Git::in_dir(sandbox)
            .env("GIT_DIR", self.repo_dir())
            .env("GIT_WORK_TREE", sandbox)
            .env("GIT_INDEX_FILE", index);
        self.through(git)
    }

    /// Copies what these objects reach and ours lacks. What ours has is there with all that it reaches.
    ///
    /// # Errors
    /// [`RepoError::NotFound`] when theirs has none of that name either; [`RepoError::Failed`] when
    /// something that it reaches is missing or damaged.
    pub(super) fn take(&self, ids: &[Oid]) -> Result<(), RepoError> {
        let wanted = missing(self.git(), ids)?;
        if wanted.is_empty() {
            return Ok(());
        }
        if let Some(absent) = missing(self.lens(), &wanted)?.first() {
            return Err(RepoError::NotFound(format!("commit {absent}")));
        }
        self.take_all(&wanted)
    }

    /// As [`GitRepo::take`], for objects that ours may have without all that they reach.
    pub(super) fn take_all(&self, ids: &[Oid]) -> Result<(), RepoError> {
        let mut attempt = 1;
        loop {
            match copy(self, ids) {
                Err(error) if attempt < ATTEMPTS => {
                    tracing::debug!(rig = %self.name(), %error, "objects are copied again");
                    attempt += 1;
                }
                done => return done,
            }
        }
    }
}

fn copy(repo: &GitRepo, ids: &[Oid]) -> Result<(), RepoError> {
    let list = lines(ids);
    let listed = repo
        .lens()
        .args(["rev-list", "--objects", "--stdin", "--not", "--all"])
        .stdin(list)
        .limit(CHECKOUT)
        .run()?;
    if listed.stdout.is_empty() {
        return Ok(());
    }
    let scratch = admin::scratch(repo)?;
    let fail = |error: std::io::Error| failed("cannot read the pack in", scratch.path(), &error);
    // Deltas would cost more time than they save space: what is copied is a task's work.
    repo.lens()
        .args(["pack-objects", "--quiet", "--window=0"])
        .arg(scratch.path().join("take"))
        .stdin(listed.stdout.clone())
        .limit(CHECKOUT)
        .run()?;
    let mut packs = Vec::new();
    for entry in fs::read_dir(scratch.path()).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        packs.extend((path.extension() == Some("pack".as_ref())).then_some(path));
    }
    for pack in packs {
        repo.git()
            .args(["index-pack", "--stdin"])
            .stdin_file(File::open(pack).map_err(fail)?)
            .limit(CHECKOUT)
            .run()?;
    }
    let text = String::from_utf8_lossy(&listed.stdout);
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let names: Vec<Oid> = names.filter_map(|name| Oid::new(name).ok()).collect();
    match missing(repo.git(), &names)?.first() {
        None => Ok(()),
        Some(id) => Err(RepoError::Failed(format!(
            "the object {id} of {} is damaged: its content is another than its name says",
            repo.theirs().display()
        ))),
    }
}

/// Those of these objects that are not there.
fn missing(git: Git, ids: &[Oid]) -> Result<Vec<Oid>, RepoError> {
    let found = git
        .args(["cat-file", "--batch-check=%(objectname)", "--buffer"])
        .stdin(lines(ids))
        .run()?
        .text();
    let answers = ids.iter().zip(found.lines());
    let absent = answers.filter(|(_, answer)| answer.ends_with(" missing"));
    Ok(absent.map(|(id, _)| id.clone()).collect())
}

fn lines(ids: &[Oid]) -> String {
    ids.iter().map(|id| format!("{id}\n")).collect()
}
