//! Follows a move of the city. A worktree of theirs and its administrative directory name each other by absolute
//! paths: at another place the index, the HEAD and the detached commits of every sandbox would no longer be found.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::admin::{self, At, read_if_there, write_whole};
use super::bytes;
use super::injected_files;
use super::rig::GitRepo;
use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::ports::repo::RepoError;

/// The file of ours with the place of the rig's directory at the last start.
const PLACE: &str = "horde/place";
/// The largest link file that is read.
const LINE_MAX: u64 = 64 * 1024;

/// Corrects the links of all worktrees if the rig's directory is at another place than at the last start. A crash in
/// the middle is repeated from the front at the next start.
///
/// # Errors
/// When a file of ours cannot be written, or the system has no space or descriptors. An entry that an agent put in the
/// way of one worktree stops neither the others nor the rig.
pub(super) fn follow(repo: &GitRepo) -> Result<(), RepoError> {
    let Some(new) = repo.theirs().parent() else {
        return Ok(());
    };
    let file = repo.repo_dir().join(PLACE);
    let old = read_if_there(&file)?;
    if old.as_deref() == Some(bytes::of(new)) {
        return Ok(());
    }
    if let Some(old) = old {
        let old = PathBuf::from(OsStr::from_bytes(&old));
        let (from, to) = (old.display(), new.display());
        // A link that leads nowhere yet, or a disk that is away: no worktree could follow.
        let raiders = repo.raiders_dir();
        let raiders = match fs::canonicalize(raiders) {
            Err(error) if raiders.is_symlink() || error.kind() != ErrorKind::NotFound => {
                return Err(admin::failed("cannot find", raiders, &error));
            }
            found => found.unwrap_or_else(|_| raiders.to_owned()),
        };
        tracing::info!(rig = %repo.name(), %from, %to, "the city was moved; the links of its worktrees follow");
        let theirs = repo.own_theirs()?;
        for admin in admin::entries(repo)? {
            match relink((repo, &raiders), theirs, &admin, (&old, new)) {
                Err(error) if admin::is_passing(&error) => {
                    return Err(admin::failed("cannot correct the links of", &admin, &error));
                }
                Err(error) => {
                    tracing::warn!(admin = %admin.display(), %error, "the links of a worktree could not follow the move of the city; `hd raider repair` makes them again");
                }
                Ok(()) => {}
            }
        }
    }
    let dir = repo.repo_dir().join("horde");
    city_root::make_dirs(&dir).at("cannot make", &dir)?;
    write_whole(&file, bytes::of(new))
}

/// Corrects both links between an administrative directory and its worktree. An agent can have put anything there:
/// what names another place stays as it is, and is found as broken.
fn relink(
    raiders: (&GitRepo, &Path),
    theirs: &Path,
    admin: &Path,
    (old, new): (&Path, &Path),
) -> io::Result<()> {
    let Some(id) = admin.file_name() else {
        return Ok(());
    };
    let back = Path::new("worktrees").join(id).join("gitdir");
    let Some(named) = line(theirs, &back)? else {
        return Ok(());
    };
    let named = Path::new(OsStr::from_bytes(&named));
    if named.file_name() != Some(OsStr::new(".git")) {
        return Ok(());
    }
    let way = Path::new("repo.git/worktrees").join(id);
    let former = [b"gitdir: ", bytes::of(&old.join(&way))].concat();
    let now = [b"gitdir: ", bytes::of(&new.join(&way)), b"\n"].concat();
    let own = Path::new(".git");
    if let Ok(link) = named.strip_prefix(old) {
        // First: a worktree without its own link is found by the link back.
        let text = [bytes::of(&new.join(link)), b"\n"].concat();
        beneath::replace_durably(theirs, &back, &text)?;
        follow_worktree(raiders, (old, new), link, (&former, &now))
    } else if let Ok(link) = named.strip_prefix(new) {
        // A start that was killed has changed the link back.
        follow_worktree(raiders, (old, new), link, (&former, &now))
    } else if let Some(dir) = named.parent()
        && is_line(dir, own, &former)?
    {
        // A salvage that was restored to another place did not move.
        beneath::replace_durably(dir, own, &now)
    } else {
        Ok(())
    }
}

/// Corrects the links in a worktree.
fn follow_worktree(
    (repo, raiders): (&GitRepo, &Path),
    (old, new): (&Path, &Path),
    link: &Path,
    (former, now): (&[u8], &[u8]),
) -> io::Result<()> {
    let path = new.join(link);
    // The directory of the sandboxes may be a link, which was verified before the preparation.
    let (root, name) = match path.strip_prefix(repo.raiders_dir()) {
        Ok(name) => (raiders, name),
        Err(_) => (new, link),
    };
    if is_line(root, name, former)? {
        beneath::replace_durably(root, name, now)?;
    } else if !is_line(root, name, now.trim_ascii_end())? {
        return Ok(());
    }
    match (link.parent(), old.parent(), new.parent()) {
        (Some(worktree), Some(from), Some(to)) => {
            injected_files::follow(&new.join(worktree), from, to)
        }
        _ => Ok(()),
    }
}

/// Returns true for a file with only this line.
fn is_line(root: &Path, name: &Path, expected: &[u8]) -> io::Result<bool> {
    Ok(line(root, name)?.is_some_and(|found| found == expected))
}

/// Returns the line of a file without the space at its end; none if there is no regular file, or a link on its path.
fn line(root: &Path, name: &Path) -> io::Result<Option<Vec<u8>>> {
    match beneath::read(root, name, LINE_MAX) {
        Ok(text) => Ok(text.map(|text| text.trim_ascii_end().to_vec())),
        Err(error) if admin::is_strange(&error) || admin::is_nothing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
