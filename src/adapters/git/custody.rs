//! The presence of ours, which holds all salvages and the work in the queue. Once made, it is never made anew by itself:
//! a directory that was moved away can be moved back, and its successor would be in the way.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::admin::{At, read_if_there, write_whole};
use super::places;
use super::prepare::READY;
use super::rig::GitRepo;
use super::share;
use crate::ports::repo::RepoError;

/// The directory beside that of all custody, with a file for each repository that was made.
const KNOWN: &str = "custody.known";

/// The file of ours with an id, which the file in [`KNOWN`] repeats: another repository in its place has another.
const ID: &str = "horde.id";
/// The second line of the file in [`KNOWN`] once the first fetch is done. Before that, ours may be incomplete.
const FETCHED: &[u8] = b"fetched";
/// Its HEAD. Nothing depends on the branch that it names.
const HEAD: &[u8] = b"ref: refs/heads/horde\n";

/// Verifies ours before work on it, if it was prepared. If it is not whole, the rig is held from then on.
pub(super) fn check(repo: &GitRepo) -> Result<(), RepoError> {
    if repo.is_prepared()
        && let Some(why) = fault(repo, &PARTS).or_else(|| places::fault(repo))
    {
        tracing::error!(rig = %repo.name(), why, "the rig is held");
        repo.set_unprepared(why);
    }
    repo.unprepared()
        .map_or(Ok(()), |why| Err(RepoError::Held(why)))
}

/// Verifies, before ours is prepared, that it is there and whole if it ever was made. An empty directory in its place is
/// the word of a person that it is lost.
pub(super) fn expect(repo: &GitRepo) -> Result<(), RepoError> {
    if let Some(why) = places::fault(repo) {
        return Err(RepoError::Failed(why));
    }
    let (dir, known) = (repo.repo_dir(), known(repo));
    if is_empty(dir) {
        let mark = mounted(repo);
        if mark.exists() && !is_on_another_disk(repo) {
            let (dir, mark) = (dir.display(), mark.display());
            return Err(RepoError::Failed(format!(
                "the disk of the supervisor's own repository of the rig, {dir}, is not mounted. Mount it; or, if it is \
                lost, remove {mark}, and a new one is made in {dir}"
            )));
        }
        // The new one gets an id of its own.
        return match known.exists() {
            true => write_whole(&known, b""),
            false => Ok(()),
        };
    }
    if !share::borrows(repo) && !known.exists() {
        return Ok(());
    }
    let is_awaited = read_known(repo)?.is_some_and(|known| known.id.is_empty());
    if is_awaited && dir.is_dir() && is_gone(dir) {
        // git was killed while it made the new one in place.
        return Ok(());
    }
    let is_whole = is_fetched(repo)?;
    let parts = if is_whole { &PARTS[..] } else { &PARTS[4..] };
    match fault(repo, parts) {
        None => Ok(()),
        Some(_) if !has_head(dir) && part_fault(repo, &PARTS[1..]).is_none() && !is_gone(dir) => {
            repo.mended(format!(
                "HEAD of {} was damaged, and is written anew",
                dir.display()
            ));
            write_whole(&dir.join("HEAD"), HEAD)
        }
        Some(why) => Err(RepoError::Failed(why)),
    }
}

/// Returns true if the first fetch into ours is done.
pub(super) fn is_fetched(repo: &GitRepo) -> Result<bool, RepoError> {
    let is_noted = || Ok(read_known(repo)?.is_some_and(|known| known.fetched));
    match repo.repo_dir().join(READY).exists() {
        true => Ok(true),
        false => is_noted(),
    }
}

/// Remembers that ours was made.
pub(super) fn remember(repo: &GitRepo) -> Result<(), RepoError> {
    let file = known(repo);
    let dir = file.parent().unwrap_or(&file);
    match fs::create_dir(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
    .at("cannot make", dir)?;
    if is_on_another_disk(repo) && !mounted(repo).exists() {
        write_whole(&mounted(repo), b"")?;
    }
    if read_known(repo)?.is_some_and(|known| !known.id.is_empty()) {
        return Ok(());
    }
    let own = repo.repo_dir().join(ID);
    let id = match read_if_there(&own)? {
        Some(id) => id,
        None => {
            let now = jiff::Timestamp::now().as_nanosecond();
            let id = format!("{now}-{}", std::process::id()).into_bytes();
            write_whole(&own, &id)?;
            id
        }
    };
    write_whole(&file, &id)
}

/// Remembers that the first fetch is done, outside of ours: a part that is missing from now on was lost.
pub(super) fn remember_fetched(repo: &GitRepo) -> Result<(), RepoError> {
    match read_known(repo)? {
        Some(Known { id, fetched: false }) => {
            write_whole(&known(repo), &[&id[..], b"\n", FETCHED].concat())
        }
        _ => Ok(()),
    }
}

/// The content of the file in [`KNOWN`].
struct Known {
    /// The id of ours; empty from when a person said that it is lost until it is made again.
    id: Vec<u8>,
    fetched: bool,
}

fn read_known(repo: &GitRepo) -> Result<Option<Known>, RepoError> {
    Ok(read_if_there(&known(repo))?.map(|text| {
        let mut lines = text.splitn(2, |byte| *byte == b'\n');
        Known {
            id: lines.next().unwrap_or_default().to_vec(),
            fetched: lines.next() == Some(FETCHED),
        }
    }))
}

fn known(repo: &GitRepo) -> PathBuf {
    let dir = repo.repo_dir();
    let all = dir.parent().unwrap_or(dir).with_file_name(KNOWN);
    all.join(dir.file_name().unwrap_or_default())
}

/// Returns the file beside that in [`KNOWN`] which is there if ours is below another mount than the city. Without that disk
/// its place is an empty directory, as one by which a person says that it is lost.
fn mounted(repo: &GitRepo) -> PathBuf {
    known(repo).with_extension("mounted")
}

fn is_on_another_disk(repo: &GitRepo) -> bool {
    let (own, city) = (
        places::mount(repo.repo_dir()),
        places::mount(repo.state_dir()),
    );
    own.is_some() && own != city
}

/// Returns the reason why ours cannot be used, by these parts. A disk that does not answer gives none.
fn fault(repo: &GitRepo, parts: &[Part]) -> Option<String> {
    match is_gone(repo.repo_dir()) {
        true => Some(missing(repo)),
        false => part_fault(repo, parts),
    }
}

/// A part of ours, and its check.
type Part = (&'static str, fn(&GitRepo) -> bool);

/// The parts of ours, HEAD first.
const PARTS: [Part; 5] = [
    ("its HEAD", |repo| has_head(repo.repo_dir())),
    ("its refs", |repo| {
        !is_no(&repo.repo_dir().join("refs"), Metadata::is_dir)
    }),
    ("its config", |repo| {
        let file = repo.repo_dir().join("config");
        !is_no(&file, Metadata::is_file)
            && fs::read(file).map_or(true, |text| text.windows(6).any(|part| part == b"[core]"))
    }),
    ("its objects", |repo| {
        has_objects(&repo.repo_dir().join("objects"))
    }),
    ("the original (this is another repository)", |repo| {
        match (read_known(repo), read_if_there(&repo.repo_dir().join(ID))) {
            (Ok(Some(known)), Ok(own)) if !known.id.is_empty() => own == Some(known.id),
            // A disk that does not answer tells nothing.
            _ => true,
        }
    }),
];

fn part_fault(repo: &GitRepo, parts: &[Part]) -> Option<String> {
    let (part, _) = parts.iter().find(|(_, is_right)| !is_right(repo))?;
    let dir = repo.repo_dir().display();
    Some(format!(
        "the supervisor's own repository of the rig, {dir}, is damaged: {part} is missing or garbled, and the work that it \
        holds may be unreachable. Move it back, or restore {dir} from a backup (if that is older than its file {ID}, \
        remove {}, too); or, if it is lost, move {dir} away and run `mkdir -p {dir}`, and a new one is made there without \
        its salvages",
        known(repo).display()
    ))
}

/// Returns true if there is no repository, nor a part of one that git can complete. A disk that does not answer has it.
fn is_gone(dir: &Path) -> bool {
    let is_missing = |part: &str| {
        let found = fs::symlink_metadata(dir.join(part));
        found.is_err_and(|error| is_absent(&error))
    };
    ["HEAD", "objects"].into_iter().all(is_missing)
}

fn is_absent(error: &io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind())
}

/// Returns true if there is nothing at a path, or nothing of this kind.
fn is_no(path: &Path, kind: fn(&Metadata) -> bool) -> bool {
    match fs::metadata(path) {
        Ok(found) => !kind(&found),
        Err(error) => is_absent(&error),
    }
}

fn has_head(dir: &Path) -> bool {
    let head = dir.join("HEAD");
    let is_name = |text: Vec<u8>| text.starts_with(b"ref: refs/");
    !is_no(&head, Metadata::is_file) && fs::read(head).map_or(true, is_name)
}

/// Returns true if there is any object: each repository of a rig has commits.
fn has_objects(dir: &Path) -> bool {
    let has_any = |dir: &Path| fs::read_dir(dir).map_or(true, |mut files| files.next().is_some());
    let is_loose = |name: &OsStr| name.len() == 2;
    match fs::read_dir(dir) {
        Ok(mut entries) => entries.any(|entry| {
            let Ok(entry) = entry else { return true };
            let name = entry.file_name();
            (is_loose(&name) || name == "pack") && has_any(&entry.path())
        }),
        Err(error) => !is_absent(&error),
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn missing(repo: &GitRepo) -> String {
    let dir = repo.repo_dir();
    let state = repo.state_dir();
    if fs::symlink_metadata(state).is_err_and(|error| is_absent(&error)) {
        // The city is at another place, or its state is. A directory that is made here would be in the way of its return.
        return format!(
            "the supervisor's own repository of the rig is missing, as all of {}: move it back",
            state.display()
        );
    }
    let dir = dir.display();
    format!(
        "the supervisor's own repository of the rig, {dir}, is missing, and with it its salvages and the work in its \
        queue. Move it back; or, if it is lost, run `mkdir -p {dir}`, and a new one is made there without them"
    )
}

#[cfg(test)]
mod tests;
