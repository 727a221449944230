//! Follows a move of the city. A worktree of theirs and its administrative directory name each other by absolute
//! paths: at another place the index, the HEAD and the detached commits of every sandbox would no longer be found.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::admin::{self, At, read_if_there, write_whole};
use super::bytes;
use super::injected_files;
use super::rig::GitRepo;
use crate::adapters::beneath;
use crate::ports::repo::RepoError;

/// The file of ours with the place of the rig's directory at the last start.
const PLACE: &str = "horde/place";
/// The largest link file that is read.
const LINE_MAX: u64 = 64 * 1024;

/// Corrects the links of all worktrees if the rig's directory is at another place than at the last start. A crash in
/// the middle is repeated from the front at the next start.
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
        tracing::info!(rig = %repo.name(), %from, %to, "the city was moved; the links of its worktrees follow");
        for admin in admin::entries(repo)? {
            relink(repo, &admin, &old, new)?;
        }
    }
    let dir = repo.repo_dir().join("horde");
    std::fs::create_dir_all(&dir).at("cannot make", &dir)?;
    write_whole(&file, bytes::of(new))
}

/// Corrects both links between an administrative directory and its worktree. An agent can have put anything there:
/// what names another place stays as it is, and is found as broken.
fn relink(repo: &GitRepo, admin: &Path, old: &Path, new: &Path) -> Result<(), RepoError> {
    let Some(id) = admin.file_name() else {
        return Ok(());
    };
    let back = Path::new("worktrees").join(id).join("gitdir");
    let Some(named) = line(repo.own_theirs()?, &back)? else {
        return Ok(());
    };
    let named = Path::new(OsStr::from_bytes(&named));
    let way = Path::new("repo.git/worktrees").join(id);
    let former = [b"gitdir: ", bytes::of(&old.join(&way))].concat();
    let now = [b"gitdir: ", bytes::of(&new.join(&way)), b"\n"].concat();
    let Ok(link) = named.strip_prefix(old) else {
        follow_outside(named, &former, &now);
        return Ok(());
    };
    if is_line(new, link, &former)? {
        if let (Some(worktree), Some(from), Some(to)) = (link.parent(), old.parent(), new.parent())
        {
            injected_files::follow(&new.join(worktree), from, to)?;
        }
        replace(new, link, &now)?;
    }
    let text = [bytes::of(&new.join(link)), b"\n"].concat();
    replace(repo.own_theirs()?, &back, &text)
}

/// Corrects the link of a worktree outside of the rig's directory, which did not move: a salvage was restored there.
/// The place is only an agent's word, so that an error there is no reason to stop.
fn follow_outside(link: &Path, former: &[u8], now: &[u8]) {
    let (Some(dir), Some(name)) = (link.parent(), link.file_name()) else {
        return;
    };
    let name = Path::new(name);
    if name == Path::new(".git")
        && is_line(dir, name, former).unwrap_or(false)
        && let Err(error) = replace(dir, name, now)
    {
        tracing::warn!(%error, "a worktree outside of the city could not follow its move");
    }
}

/// Returns true for a file with only this line.
fn is_line(root: &Path, name: &Path, expected: &[u8]) -> Result<bool, RepoError> {
    Ok(line(root, name)?.is_some_and(|found| found == expected))
}

/// Returns the line of a file without the space at its end; none if there is no regular file, or a link on its path.
fn line(root: &Path, name: &Path) -> Result<Option<Vec<u8>>, RepoError> {
    match beneath::read(root, name, LINE_MAX) {
        Ok(text) => Ok(text.map(|text| text.trim_ascii_end().to_vec())),
        Err(error) if admin::is_strange(&error) || admin::is_nothing(&error) => Ok(None),
        Err(error) => Err(admin::failed("cannot read", &root.join(name), &error)),
    }
}

fn replace(root: &Path, name: &Path, text: &[u8]) -> Result<(), RepoError> {
    match beneath::replace_durably(root, name, text) {
        // Replaced by an agent's program meanwhile, or closed to this user.
        Err(error) if admin::is_strange(&error) || admin::is_nothing(&error) => {
            let path = root.join(name);
            tracing::warn!(path = %path.display(), %error, "a link of a worktree could not follow the move of the city; `hd raider repair` makes it again");
            Ok(())
        }
        done => done.at("cannot write", &root.join(name)),
    }
}
