//! The presence of ours, which holds all salvages and the work in the queue. Once made, it is never made anew by itself:
//! a directory that was moved away can be moved back, and its successor would be in the way.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::{At, write_whole};
use super::rig::GitRepo;
use super::share;
use crate::ports::repo::RepoError;

/// The directory beside that of all custody, with a file for each repository that was made.
const KNOWN: &str = "custody.known";

/// Verifies that ours is there before work on it, if it was prepared. If it is not, the rig is held from then on.
pub(super) fn check(repo: &GitRepo) -> Result<(), RepoError> {
    if repo.is_prepared() && is_gone(repo.repo_dir()) {
        let why = missing(repo);
        tracing::error!(rig = %repo.name(), why, "the rig is held until its repository is back");
        repo.set_unprepared(why);
    }
    repo.unprepared()
        .map_or(Ok(()), |why| Err(RepoError::Held(why)))
}

/// Verifies, before ours is prepared, that it is there if it ever was. An empty directory in its place is the word of
/// a person that it is lost.
pub(super) fn expect(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.repo_dir();
    let was_made = || share::borrows(repo) || known(repo).exists();
    if is_gone(dir) && !is_empty(dir) && was_made() {
        return Err(RepoError::Failed(missing(repo)));
    }
    Ok(())
}

/// Remembers that ours was made.
pub(super) fn remember(repo: &GitRepo) -> Result<(), RepoError> {
    let file = known(repo);
    if file.exists() {
        return Ok(());
    }
    let dir = file.parent().unwrap_or(&file);
    match fs::create_dir(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
    .at("cannot make", dir)?;
    write_whole(&file, b"")
}

fn known(repo: &GitRepo) -> PathBuf {
    let dir = repo.repo_dir();
    let all = dir.parent().unwrap_or(dir).with_file_name(KNOWN);
    all.join(dir.file_name().unwrap_or_default())
}

/// Returns true if there is no repository, nor a part of one that git can complete. A disk that does not answer has it.
fn is_gone(dir: &Path) -> bool {
    ["HEAD", "objects"].iter().all(|part| {
        let found = fs::symlink_metadata(dir.join(part));
        let gone = [ErrorKind::NotFound, ErrorKind::NotADirectory];
        found.is_err_and(|error| gone.contains(&error.kind()))
    })
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn missing(repo: &GitRepo) -> String {
    let dir = repo.repo_dir().display();
    format!(
        "the supervisor's own repository of the rig, {dir}, is missing, and with it its salvages and the work in its \
        queue. Move it back; or, if it is lost, run `mkdir -p {dir}`, and a new one is made there without them"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::adapters::git::testing::Rigged;
    use crate::ports::repo::{Repo, RepoError};

    #[test]
    fn repository_that_vanishes_holds_its_rig_until_it_is_back() {
        let rig = Rigged::new();
        rig.repo.prepare().unwrap();
        let ours = rig.repo.repo_dir();
        let custody = ours.parent().unwrap();
        let away = custody.with_file_name("away");
        rig.repo.ready().unwrap();
        fs::rename(custody, &away).unwrap();
        let held = rig.repo.ready().unwrap_err();
        assert!(matches!(&held, RepoError::Held(why) if why.contains("Move it back")));
        assert!(rig.repo.held().is_some());
        for _ in 0..2 {
            assert!(rig.repo.prepare().is_err());
            assert!(!custody.exists(), "nothing is in the way of the original");
        }
        fs::rename(&away, custody).unwrap();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
    }

    /// An agent can take the list of lenders away, and a person all that the agents had.
    #[test]
    fn repository_that_was_made_once_is_made_anew_only_for_a_person() {
        let rig = Rigged::new();
        rig.repo.prepare().unwrap();
        let ours = rig.repo.repo_dir();
        fs::remove_dir_all(ours.parent().unwrap()).unwrap();
        fs::remove_dir_all(rig.repo.theirs()).unwrap();
        assert!(rig.repo.prepare().is_err());
        assert!(!ours.exists() && !rig.repo.theirs().exists());
        fs::create_dir_all(ours).unwrap();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
        assert!(ours.join("HEAD").exists());
    }
}
