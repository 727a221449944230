//! Keeps the agents' repository intact: it may be removed, closed by permissions, or have something else in place of
//! the files that git and all sandboxes of the rig need. Ours holds the objects that it borrows, so it can be made
//! again.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::admin::{self, At, failed, write_whole};
use super::prepare::{again, is_lent};
use super::rig::{GitRepo, locked};
use super::settings::FILE;
use super::{lists, revive, sandbox, share, theirs};
use crate::adapters::beneath;
use crate::ports::repo::RepoError;

/// The directories that git needs to recognise a repository.
const NEEDED: &[&str] = &["objects", "refs", "refs/heads"];
/// Directories that may be missing.
const SHARED: &[&str] = &[
    "worktrees",
    "logs",
    "logs/refs",
    "logs/refs/heads",
    "refs/remotes",
    "refs/tags",
    "info",
    "horde",
    "horde/retired",
];
/// The mode bits of a directory that is open to its owner.
const OPEN: u32 = 0o700;
/// The HEAD of theirs, which is unused but required by git.
const HEAD: &str = "ref: refs/heads/horde\n";

/// Repairs as much as possible. A failure is only logged, once: each sandbox is judged as far as it can be read.
pub(super) fn heal(repo: &GitRepo) {
    // Before the first loan, no agent can have broken anything.
    if !is_lent(repo) {
        return;
    }
    let _alone = locked(&repo.state.healing);
    let Err(why) = mend(repo) else { return };
    if locked(&repo.state.logged).insert(why.to_string()) {
        let theirs = repo.theirs().display();
        tracing::error!(rig = %repo.name(), %theirs, %why, "the agents' repository is damaged and could not be repaired; sandboxes are judged by their files");
    }
}

fn mend(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.theirs();
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            let aside = share::move_away(repo)?;
            repo.mended(format!(
                "{} was not a directory, and is set aside as {}",
                dir.display(),
                aside.display()
            ));
            return anew(repo, "was replaced");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return anew(repo, "was removed or moved");
        }
        Err(error) => return Err(failed("cannot inspect", dir, &error)),
    }
    open_up(repo, Path::new(""))?;
    let mut gone = Vec::new();
    for name in NEEDED.iter().chain(SHARED) {
        match fs::symlink_metadata(dir.join(name)) {
            Ok(found) if found.is_dir() => open_up(repo, Path::new(name))?,
            Ok(_) => {
                if let Some(aside) = share::set_aside(dir, Path::new(name))? {
                    repo.mended(format!(
                        "{} was not a directory, and is set aside as {}",
                        dir.join(name).display(),
                        aside.display()
                    ));
                }
                gone.push(*name);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => gone.push(*name),
            Err(error) => return Err(failed("cannot inspect", dir, &error)),
        }
    }
    let revival = repo.repo_dir().join("horde/revive");
    if gone.contains(&"refs/heads") {
        // An interrupted repair is continued by the next call.
        write_whole(&revival, b"")?;
    }
    for name in NEEDED.iter().filter(|name| gone.contains(name)) {
        share::own_dir(repo, Path::new(name))?;
        let at = dir.join(name);
        repo.mended(format!(
            "{} of the repository of the agents was removed, and was recreated",
            at.display()
        ));
    }
    if gone.contains(&"objects") {
        share::lend(repo)?;
    }
    mend_files(repo)?;
    // An error of the lists must not stop the other repairs.
    let listed = lists::mend(repo);
    for entry in admin::entries(repo)? {
        // Each look at a sandbox checks the entries of all: an open one costs one look.
        let is_open = fs::symlink_metadata(&entry).is_ok_and(|it| it.mode() & OPEN == OPEN);
        if !is_open {
            open_up(repo, entry.strip_prefix(dir).unwrap_or(&entry))?;
        }
    }
    if !revival.exists() {
        return listed;
    }
    revive::all(repo)?;
    fs::remove_file(&revival).at("cannot remove", &revival)?;
    listed
}

/// Writes the files that git reads before anything else.
fn mend_files(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.theirs();
    if !matches!(theirs::head(dir), Ok(Some(_))) {
        share::write(repo, "HEAD", HEAD.as_bytes())?;
        repo.mended(format!(
            "the HEAD of {} was removed or garbled, and was recreated",
            dir.display()
        ));
    }
    if !dir.join(FILE).exists() {
        again(repo)?;
        repo.mended(format!(
            "the settings of {} were removed, and are written again",
            dir.display()
        ));
    }
    Ok(())
}

/// Makes a missing repository again. `what` happened to it is for the message.
fn anew(repo: &GitRepo, what: &str) -> Result<(), RepoError> {
    // Fails if a disk is not mounted: the repair waits for it.
    sandbox::list(repo)?;
    again(repo)?;
    repo.mended(format!(
        "the repository of the agents, {}, {what}, and was recreated: commits that only it held are missing; if it was \
        moved, put it back",
        repo.theirs().display()
    ));
    Ok(())
}

/// Gives this user access to a directory of theirs that it owns.
fn open_up(repo: &GitRepo, name: &Path) -> Result<(), RepoError> {
    let dir = repo.theirs();
    let path = dir.join(name);
    match beneath::open_up(dir, name) {
        Ok(true) => {
            repo.mended(format!(
                "{} was not accessible to its owner; its mode is restored",
                path.display()
            ));
            Ok(())
        }
        Ok(false) => Ok(()),
        // It is not a directory, or was removed meanwhile.
        Err(error) if admin::is_strange(&error) || error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("cannot open", &path, &error)),
    }
}
