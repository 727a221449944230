//! The real places of the directories of a rig. An operator may keep the rig, or its sandboxes, elsewhere on the city's
//! file system behind a link. A link that comes later is not the operator's word: what is in a directory that it leads to
//! would be taken for sandboxes and for the agents' repository, and be removed or written to.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::admin::{failed, read_if_there, write_whole};
use super::bytes;
use super::rig::GitRepo;
use crate::ports::repo::RepoError;

/// The file of ours with the places, two for each directory: the text of its link, and its real path.
const FILE: &str = "horde/places";

/// Notes the places when the rig is prepared for the first time.
pub(super) fn note(repo: &GitRepo) -> Result<(), RepoError> {
    let file = repo.repo_dir().join(FILE);
    if read_if_there(&file)?.is_some() {
        return Ok(());
    }
    let places = dirs(repo).map(|dir| Place::of(repo, &dir));
    let paths = places.iter().flat_map(|place| [&place.link, &place.real]);
    let paths: Vec<_> = paths.map(|path| bytes::of(path)).collect();
    write_whole(&file, &paths.join(&b'\0'))
}

/// Returns the reason why the directories must not be used: one of them leads to another place than at first. A disk
/// that does not answer gives none.
pub(super) fn fault(repo: &GitRepo) -> Option<String> {
    let file = repo.repo_dir().join(FILE);
    let noted = read_if_there(&file).ok().flatten()?;
    let noted: Vec<_> = noted.split(|byte| *byte == 0).map(bytes::path).collect();
    let (noted, _) = noted.as_chunks();
    dirs(repo).iter().zip(noted).find_map(|(dir, [link, real])| {
        let now = Place::of(repo, dir);
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

fn shown(link: &Path, real: &Path) -> String {
    match link == real || real.as_os_str().is_empty() {
        true => link.display().to_string(),
        false => format!("{} ({})", link.display(), real.display()),
    }
}

/// Refuses directories on another file system than the supervisor's own: sandboxes are removed, and the agents' repository
/// is made, by a rename, and a crash could halve a copy.
pub(super) fn on_one_disk(repo: &GitRepo) -> Result<(), RepoError> {
    let disk = |dir: &Path| match fs::metadata(dir) {
        Ok(found) => Ok(Some(found.dev())),
        // It is made there later, or its place is reported elsewhere.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("cannot inspect", dir, &error)),
    };
    // `<city>/.horde/custody/<rig>.git`
    let state = repo.repo_dir().ancestors().nth(2);
    let state = state.unwrap_or(Path::new("/"));
    let own = disk(state)?;
    for dir in dirs(repo) {
        let other = disk(&dir)?;
        if own.is_some() && other.is_some() && other != own {
            let (dir, state) = (dir.display(), state.display());
            return Err(RepoError::Failed(format!(
                "{dir} is on another file system than {state}, and directories are renamed from one to the other: keep \
                both on one. The whole city may be on any"
            )));
        }
    }
    Ok(())
}

/// Returns the directory of the rig, and that of its sandboxes.
fn dirs(repo: &GitRepo) -> [PathBuf; 2] {
    let rig = repo.theirs().parent().unwrap_or(Path::new("/"));
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
    fn of(repo: &GitRepo, dir: &Path) -> Self {
        let real = || -> io::Result<PathBuf> {
            let real = fs::canonicalize(dir)?;
            // `<city>/.horde/custody/<rig>.git`
            let city = repo.repo_dir().ancestors().nth(3).unwrap_or(dir);
            let city = fs::canonicalize(city)?;
            Ok(real
                .strip_prefix(&city)
                .map_or_else(|_| real.clone(), Path::to_owned))
        };
        Self {
            link: fs::read_link(dir).unwrap_or_default(),
            real: real().unwrap_or_default(),
        }
    }
}
