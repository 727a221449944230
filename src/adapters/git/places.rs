//! The real places of the directories of a rig. An operator may keep the rig, or its sandboxes, elsewhere on the city's
//! file system behind a link. An agent may have made a link that comes later: what is in a directory that it leads to
//! would be taken for sandboxes and for the agents' repository, and be removed or written to.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::admin::{At, write_whole};
use super::bytes;
use super::rig::GitRepo;
use crate::ports::repo::RepoError;
use crate::regular::{self, Links};

/// The file of ours with the places, two for each directory: the text of its link, and its real path.
const FILE: &str = "horde/places";

/// Notes the places when the rig is prepared for the first time.
pub(super) fn note(repo: &GitRepo) -> Result<(), RepoError> {
    let file = repo.repo_dir().join(FILE);
    if file.symlink_metadata().is_ok() {
        return Ok(());
    }
    let place = |dir: &PathBuf| Place::of(repo, dir).at("cannot inspect", dir);
    let places: Vec<_> = dirs(repo).iter().map(place).collect::<Result<_, _>>()?;
    let paths = places.iter().flat_map(|place| [&place.link, &place.real]);
    let paths: Vec<_> = paths.map(|path| bytes::of(path)).collect();
    write_whole(&file, &paths.join(&b'\0'))
}

/// Returns the reason why the directories must not be used: one of them leads to another place than at first, or cannot be
/// renamed to and from the supervisor's own. A disk that does not answer gives none.
pub(super) fn fault(repo: &GitRepo) -> Option<String> {
    let dirs = dirs(repo);
    let fault = dirs.iter().find_map(|dir| leads_nowhere(dir));
    fault
        .or_else(|| {
            let mut own = dirs.iter().map(PathBuf::as_path).chain([repo.theirs()]);
            own.find_map(|dir| is_apart(repo, dir))
        })
        .or_else(|| is_elsewhere(repo, &dirs))
}

/// Reads a link whose target does not exist: its disk is not mounted, and without it every sandbox would count as gone.
fn leads_nowhere(dir: &Path) -> Option<String> {
    let link = fs::read_link(dir).ok()?;
    let is_absent = fs::metadata(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let (dir, link) = (dir.display(), link.display());
    is_absent.then(|| {
        format!("{dir} leads to {link}, which does not exist: mount its disk, or put it back")
    })
}

/// Compares the mount of a directory with that of the supervisor's own: sandboxes are removed, and the agents' repository
/// is made, by a rename, and a crash could halve a copy.
fn is_apart(repo: &GitRepo, dir: &Path) -> Option<String> {
    let state = repo.state_dir();
    let (own, other) = (mount(state)?, mount(dir)?);
    let (dir, state) = (dir.display(), state.display());
    (own != other).then(|| {
        format!(
            "{dir} is on another file system than {state}, or below another mount, and directories are renamed from one \
            to the other: keep both on one. The whole city may be on any"
        )
    })
}

/// The mount that a directory is in, and its device: a mount may have several, with no rename from one to the other
/// (subvolumes of btrfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mount {
    id: u64,
    device: (u32, u32),
}

/// Returns the mount that a directory is in.
pub(super) fn mount(dir: &Path) -> Option<Mount> {
    let found = statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    is_known.then_some(Mount {
        id: found.stx_mnt_id,
        device: (found.stx_dev_major, found.stx_dev_minor),
    })
}

/// Compares the places with those that were noted.
fn is_elsewhere(repo: &GitRepo, dirs: &[PathBuf]) -> Option<String> {
    let file = repo.repo_dir().join(FILE);
    let noted = match regular::read(&file, Links::Refuse, regular::TEXT_MAX) {
        Ok(noted) => noted,
        Err(error) if ODD.contains(&error.kind()) => return Some(garbled(&file)),
        Err(_) => return None,
    };
    let noted: Vec<_> = noted.split(|byte| *byte == 0).map(bytes::path).collect();
    let (noted, rest) = noted.as_chunks();
    if noted.len() != dirs.len() || !rest.is_empty() {
        return Some(garbled(&file));
    }
    dirs.iter().zip(noted).find_map(|(dir, [link, real])| {
        let now = Place::of(repo, dir).ok()?;
        let is_unknown = |path: &Path| path.as_os_str().is_empty();
        if now.link == *link && (now.real == *real || is_unknown(&now.real) || is_unknown(real)) {
            return None;
        }
        let was = match is_unknown(link) {
            true => "was a directory".to_owned(),
            false => format!("led to {}", shown(link, real)),
        };
        let now = match (is_unknown(&now.link), is_unknown(&now.real)) {
            (true, true) => "is missing now".to_owned(),
            (true, false) => "is one now".to_owned(),
            (false, _) => format!("leads to {} now", shown(&now.link, &now.real)),
        };
        let (dir, file) = (dir.display(), file.display());
        Some(format!(
            "{dir} {was} when the rig was prepared, and {now}; nothing there is touched. Put it back, or, if you moved it, \
            remove {file} and reload"
        ))
    })
}

/// The errors of a file that is no regular one, or too long.
const ODD: [ErrorKind; 3] = [
    ErrorKind::InvalidData,
    ErrorKind::FileTooLarge,
    ErrorKind::IsADirectory,
];

fn garbled(file: &Path) -> String {
    let file = file.display();
    format!("{file}, which tells where the rig's directories are, is garbled: remove it and reload")
}

fn shown(link: &Path, real: &Path) -> String {
    match link == real || real.as_os_str().is_empty() {
        true => link.display().to_string(),
        false => format!("{} ({})", link.display(), real.display()),
    }
}

/// Returns the directory of the rig, and that of its sandboxes.
fn dirs(repo: &GitRepo) -> [PathBuf; 2] {
    let rig = repo.rig_dir();
    [rig.to_owned(), repo.raiders_dir().to_owned()]
}

/// The place of a directory.
struct Place {
    /// The text of the link in its place; empty for a directory, and where there is nothing yet.
    link: PathBuf,
    /// Its real path, from the city's where it is in the city, which may move. Empty where it is unknown: its disk may be
    /// away.
    real: PathBuf,
}

impl Place {
    fn of(repo: &GitRepo, dir: &Path) -> io::Result<Self> {
        let real = || -> io::Result<PathBuf> {
            let real = fs::canonicalize(dir)?;
            let city = fs::canonicalize(repo.state_dir().parent().unwrap_or(dir))?;
            Ok(real
                .strip_prefix(&city)
                .map_or_else(|_| real.clone(), Path::to_owned))
        };
        let link = match fs::read_link(dir) {
            // There is nothing, or no link.
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::InvalidInput].contains(&error.kind()) =>
            {
                PathBuf::new()
            }
            link => link?,
        };
        let real = real().unwrap_or_default();
        Ok(Self { link, real })
    }
}
