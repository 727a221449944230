//! The repository that agents write to: made here, it borrows the objects of ours, and gets the remote-tracking refs
//! from ours. No git runs in it once agents had access.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, mkdirat};

use super::admin::{At, failed, free_name};
use super::bytes;
use super::prepare::{init_bare, is_lent};
use super::rig::{GitRepo, oid};
use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::adapters::removal;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Refs of ours that are copied for agents.
const SHOWN: &[&str] = &["refs/remotes", "refs/tags"];

/// The number of path components of `.horde/custody/<rig>.git/objects`, below the city.
const CUSTODY_DEPTH: usize = 4;

/// The file with git's list of alternate object directories.
pub(super) const LENDERS: &str = "objects/info/alternates";

/// Makes the repository if there is none. git runs only in a directory that no agent has seen, because it would
/// follow a link or a pipe in theirs.
pub(super) fn init(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.theirs();
    match fs::symlink_metadata(dir) {
        // Damage by agents is repaired elsewhere.
        Ok(found) if found.is_dir() && (is_lent(repo) || dir.join("HEAD").exists()) => {
            return Ok(());
        }
        // A killed start may have left half of a repository.
        Ok(found) if found.is_dir() || is_lent(repo) => drop(move_away(repo)?),
        Ok(_) => {
            let what = format!("{} is not a directory: move it away", dir.display());
            return Err(RepoError::Failed(what));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("cannot inspect", dir, &error)),
    }
    let made = birthplace(repo)?;
    init_bare(&made, repo.object_format()?)?;
    // The configuration of a new repository is written with the settings of the checkout.
    let config = made.join("config");
    fs::remove_file(&config).at("cannot remove", &config)?;
    if let Some(parent) = dir.parent() {
        city_root::make_dirs(parent).at("cannot make", parent)?;
    }
    fs::rename(&made, dir).at("cannot make", dir)
}

/// Makes the empty directory in which theirs is made before it is renamed to its place. It is on the rig's file system
/// ([`places::fault`](super::places::fault)); ours may be on another one. Removes that of a killed attempt.
fn birthplace(repo: &GitRepo) -> Result<PathBuf, RepoError> {
    let (room, name) = (repo.state_dir().join("new"), repo.name().as_str());
    let dir = room.join(name);
    let make = || -> io::Result<()> {
        let room = beneath::make_room(&room)?;
        match removal::remove_at(&room, OsStr::new(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(mkdirat(&room, name, Mode::RWXU)?)
    };
    make().at("cannot make", &dir)?;
    Ok(dir)
}

/// Renames anything in the place of theirs. Returns the new path.
pub(super) fn move_away(repo: &GitRepo) -> Result<PathBuf, RepoError> {
    let dir = repo.theirs();
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let aside = free_name(parent, "repo.git.aside");
    match fs::rename(dir, &aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failed("cannot rename", dir, &error))
        }
        _ => Ok(aside),
    }
}

/// Returns true if it borrows the objects of ours already.
pub(super) fn borrows(repo: &GitRepo) -> bool {
    let objects = repo.repo_dir().join("objects");
    lenders(repo)
        .split(|byte| *byte == b'\n')
        .any(|line| line == bytes::of(&objects))
}

fn lenders(repo: &GitRepo) -> Vec<u8> {
    let text = beneath::read(repo.theirs(), Path::new(LENDERS), 1 << 20);
    text.ok().flatten().unwrap_or_default()
}

/// Makes it borrow the objects of ours, so that neither a charge nor a fetch copies any. Removes the path of ours
/// from before a move of the city: there is nothing, or the custody of a copy of the city, which is independent.
pub(super) fn lend(repo: &GitRepo) -> Result<(), RepoError> {
    let own = repo.repo_dir().join("objects");
    let lenders = lenders(repo);
    let line = bytes::of(&own).to_vec();
    let place = own.iter().rev().take(CUSTODY_DEPTH);
    let place: PathBuf = place.collect::<Vec<_>>().into_iter().rev().collect();
    let is_former = |other: &&[u8]| bytes::path(other).ends_with(&place);
    let others = lenders.split(|byte| *byte == b'\n');
    let others = others.filter(|other| !other.is_empty() && !is_former(other));
    let lines: Vec<&[u8]> = std::iter::once(&line[..]).chain(others).collect();
    let text = [&lines.join(&b'\n')[..], b"\n"].concat();
    match text == lenders {
        true => Ok(()),
        false => write(repo, LENDERS, &text),
    }
}

/// As [`lend`], if an agent undid that. Does nothing before the first [`lend`].
pub(super) fn lend_again(repo: &GitRepo) -> Result<(), RepoError> {
    match is_lent(repo) {
        true => lend(repo),
        false => Ok(()),
    }
}

/// The largest length of the path in the name of a set-aside entry: file systems limit a name to 255 bytes.
const ASIDE_MAX: usize = 200;

/// Moves what agents put in place of a file or directory of theirs to the top, as `a-b-c.aside` for `a/b/c`: git would
/// open or follow it in its directory under any name. Follows no link. Returns the new path; none if it is gone
/// meanwhile.
pub(super) fn set_aside(dir: &Path, name: &Path) -> Result<Option<PathBuf>, RepoError> {
    let mut flat = name.display().to_string().replace('/', "-");
    while flat.len() > ASIDE_MAX {
        flat.pop();
    }
    let (at, aside) = (dir.join(name), free_name(dir, &format!("{flat}.aside")));
    match beneath::rename(dir, name, aside.strip_prefix(dir).unwrap_or(&aside)) {
        Ok(()) => {
            let (at, aside) = (at.display(), aside.display());
            tracing::warn!(%at, %aside, "an entry of the agents' repository that git cannot use is set aside");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("cannot rename", &at, &error)),
    }
    Ok(Some(aside))
}

/// Returns a directory of theirs, made if needed. Renames anything else on its path: through a link, files would be
/// written outside.
pub(super) fn own_dir(repo: &GitRepo, name: &Path) -> Result<PathBuf, RepoError> {
    let dir = repo.own_theirs()?;
    let mut above = PathBuf::new();
    for part in name {
        above.push(part);
        if fs::symlink_metadata(dir.join(&above)).is_ok_and(|meta| !meta.is_dir()) {
            set_aside(dir, &above)?;
        }
    }
    let made = beneath::make_dirs(dir, name);
    made.at("cannot make", &dir.join(name))?;
    Ok(dir.join(name))
}

/// Writes a file of theirs. Agents may have put anything in its place: links are not followed, a pipe does not block,
/// and a directory is renamed.
pub(super) fn write(repo: &GitRepo, name: &str, text: &[u8]) -> Result<(), RepoError> {
    let (dir, name) = (repo.own_theirs()?, Path::new(name));
    let max = text.len() as u64;
    if beneath::read(dir, name, max).is_ok_and(|found| found.as_deref() == Some(text)) {
        return Ok(());
    }
    if let Some(above) = name.parent().filter(|above| *above != Path::new("")) {
        beneath::make_dir_anew(dir, above).at("cannot write", &dir.join(name))?;
    }
    let mut part = name.as_os_str().to_owned();
    part.push(".new");
    for place in [name, Path::new(&part)] {
        if fs::symlink_metadata(dir.join(place)).is_ok_and(|meta| meta.is_dir()) {
            set_aside(dir, place)?;
        }
    }
    beneath::replace_durably(dir, name, text).at("cannot write", &dir.join(name))
}

/// Copies a ref of ours into theirs, for agents. A failure is only logged: agents can block the write, and no landing
/// depends on it. The next change of the ref writes it again.
pub(super) fn publish(repo: &GitRepo, name: &str, at: &Oid) {
    let theirs = repo.their_refs();
    let told = match theirs.resolve(name) {
        Ok(Some(found)) if found == *at => Ok(()),
        _ => theirs.create(name, at),
    };
    if let Err(error) = told {
        tracing::warn!(rig = %repo.name(), name, %error, "a ref could not be copied into the agents' repository; its next change tries again");
    }
}

/// Removes the copy of a ref that ours no longer has. A failure is only logged, as in [`publish`].
pub(super) fn withdraw(repo: &GitRepo, name: &str) {
    let theirs = repo.their_refs();
    let gone = theirs.resolve(name).and_then(|found| match found {
        Some(found) => theirs.delete(name, &found),
        None => Ok(true),
    });
    match gone {
        Ok(true) => {}
        Ok(false) => {
            tracing::warn!(rig = %repo.name(), name, "a deleted ref stays in the agents' repository: git holds its lock; the next preparation of the rig retries")
        }
        Err(error) => {
            tracing::warn!(rig = %repo.name(), name, %error, "a deleted ref could not be removed from the agents' repository; the next preparation of the rig retries")
        }
    }
}

/// Copies the remote-tracking refs, the tags and the default branch into theirs. A failure is only logged, as in
/// [`publish`].
pub(super) fn publish_all(repo: &GitRepo) {
    if let Err(error) = copy_remote_refs(repo) {
        tracing::warn!(rig = %repo.name(), %error, "the refs of the remotes could not be copied into the agents' repository; agents see older ones until the next \
            preparation of the rig");
    }
}

fn copy_remote_refs(repo: &GitRepo) -> Result<(), RepoError> {
    let format = "--format=%(objectname)%09%(refname)%09%(symref)";
    let list = repo
        .git()
        .args(["for-each-ref", format])
        .args(SHOWN)
        .run()?;
    let text = list.text();
    let theirs = repo.their_refs();
    let mut news = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            [_, name, target] if !target.is_empty() => theirs.create_symbolic(name, target)?,
            [id, name, _] => {
                let id = oid(id)?;
                // An unreadable ref is written again.
                if theirs.resolve(name).ok().flatten().as_ref() != Some(&id) {
                    news.push((name.to_owned(), id));
                }
            }
            _ => {}
        }
    }
    if news.is_empty() || theirs.pack(&news)? {
        return Ok(());
    }
    // git holds the lock of the packed refs, so they are written one by one.
    news.iter()
        .try_for_each(|(name, id)| theirs.create(name, id))
}
