//! The presence of ours, which holds all salvages and the work in the queue. Once made, it is never made anew by itself:
//! a directory that was moved away can be moved back, and its successor would be in the way.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
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

/// Returns the file beside that in [`KNOWN`] which is there if ours is on another disk than the city. Without that disk
/// its place is an empty directory, as one by which a person says that it is lost.
fn mounted(repo: &GitRepo) -> PathBuf {
    known(repo).with_extension("mounted")
}

fn is_on_another_disk(repo: &GitRepo) -> bool {
    let disk = |dir: &Path| fs::metadata(dir).map(|found| found.dev()).ok();
    let (own, city) = (disk(repo.repo_dir()), disk(repo.state_dir()));
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
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

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

    type Damage<'a> = &'a dyn Fn(&Path);

    /// Returns a rig whose repositories were never made.
    fn new_rig() -> Rigged {
        let rig = Rigged::new();
        fs::remove_dir_all(rig.repo.repo_dir().parent().unwrap()).unwrap();
        fs::remove_dir_all(rig.repo.theirs()).unwrap();
        rig
    }

    /// A first fetch takes long, and may be interrupted.
    #[test]
    fn first_fetch_that_failed_is_repeated() {
        let rig = new_rig();
        let blob = rig.in_origin(&["rev-parse", "main:file"]);
        let object = rig.origin().join("objects").join(&blob[..2]);
        let object = object.join(&blob[2..]);
        let away = rig.path("away");
        fs::rename(&object, &away).unwrap();
        for _ in 0..2 {
            rig.repo.prepare().unwrap_err();
            assert!(rig.repo.repo_dir().join("HEAD").exists());
        }
        fs::rename(&away, &object).unwrap();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
    }

    /// `git init` was killed, and left a lock and a part.
    #[test]
    fn first_preparation_that_was_killed_is_repeated() {
        let rig = new_rig();
        let begun = rig.repo.repo_dir().with_extension("new");
        fs::create_dir_all(begun.join("refs")).unwrap();
        fs::write(begun.join("HEAD"), super::HEAD).unwrap();
        fs::write(begun.join("config.lock"), "").unwrap();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
        assert!(!begun.exists());
    }

    /// The mark of the first fetch is outside of ours, too.
    #[test]
    fn repository_that_lost_two_parts_at_once_holds_its_rig() {
        let rig = Rigged::new();
        rig.repo.prepare().unwrap();
        let ours = rig.repo.repo_dir();
        fs::remove_file(ours.join(super::READY)).unwrap();
        fs::rename(ours.join("refs"), rig.path("away")).unwrap();
        let held = rig.repo.ready().unwrap_err();
        assert!(matches!(&held, RepoError::Held(why) if why.contains("its refs")));
        rig.repo.prepare().unwrap_err();
        fs::rename(rig.path("away"), ours.join("refs")).unwrap();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
        assert!(ours.join(super::READY).exists());
    }

    #[test]
    fn repository_that_lost_a_part_or_is_another_one_holds_its_rig_until_it_is_whole() {
        let rig = Rigged::new();
        rig.repo.prepare().unwrap();
        let ours = rig.repo.repo_dir().to_owned();
        let away = ours.with_extension("away");
        let emptied = |dir: &Path| {
            fs::rename(dir, &away).unwrap();
            fs::create_dir_all(dir.join("pack")).unwrap();
            fs::create_dir_all(dir.join("0a")).unwrap();
        };
        let other = |dir: &Path| {
            fs::rename(dir, &away).unwrap();
            rig.in_origin(&["clone", "-q", "--bare", ".", dir.to_str().unwrap()]);
        };
        let moved = |part: &Path| fs::rename(part, &away).unwrap();
        let garbled = |part: &Path| {
            moved(part);
            fs::write(part, "garbage").unwrap();
        };
        let linked = |dir: &Path| {
            other(dir);
            let target = dir.with_extension("other");
            fs::rename(dir, &target).unwrap();
            std::os::unix::fs::symlink(target, dir).unwrap();
        };
        let ways: [(&str, Damage<'_>); 7] = [
            ("objects", &moved),
            ("refs", &moved),
            ("config", &garbled),
            ("config", &moved),
            ("objects", &emptied),
            ("", &other),
            ("", &linked),
        ];
        for (part, damage) in ways {
            let part = ours.join(part);
            let part = part.components().as_path();
            rig.repo.ready().unwrap();
            damage(part);
            let held = rig.repo.ready().unwrap_err();
            assert!(
                matches!(&held, RepoError::Held(why) if why.contains("is damaged")),
                "{held}"
            );
            rig.repo.prepare().unwrap_err();
            assert!(rig.repo.held().is_some());
            let is_dir = fs::symlink_metadata(part).is_ok_and(|found| found.is_dir());
            match is_dir {
                true => fs::remove_dir_all(part).unwrap(),
                false => drop(fs::remove_file(part)),
            }
            fs::rename(&away, part).unwrap();
            rig.repo.prepare().unwrap();
        }
        for text in [None, Some("garbage")] {
            fs::remove_file(ours.join("HEAD")).unwrap();
            if let Some(text) = text {
                fs::write(ours.join("HEAD"), text).unwrap();
            }
            rig.repo.ready().unwrap_err();
            rig.repo.prepare().unwrap();
            rig.repo.ready().unwrap();
        }
    }

    /// The empty directory by which a person says that it is lost stays until there is a new one.
    #[test]
    fn attempt_that_fails_to_make_a_lost_repository_anew_is_repeated() {
        let rig = Rigged::new();
        rig.repo.prepare().unwrap();
        let ours = rig.repo.repo_dir();
        fs::remove_dir_all(ours).unwrap();
        rig.repo.prepare().unwrap_err();
        fs::create_dir(ours).unwrap();
        // A file in its place keeps the new one from being made.
        let fresh = ours.with_extension("new");
        fs::write(&fresh, "").unwrap();
        rig.repo.prepare().unwrap_err();
        fs::remove_file(&fresh).unwrap();
        rig.repo.prepare().unwrap();
        rig.repo.ready().unwrap();
    }

    /// A person keeps it on another disk, through a link or a mount, and git cannot make it in one step there.
    #[test]
    fn repository_that_was_begun_in_place_is_completed() {
        let rig = Rigged::new();
        rig.repo.prepare().unwrap();
        let ours = rig.repo.repo_dir();
        let elsewhere = rig.path("elsewhere");
        let begin = |parts: &[&str]| {
            fs::remove_dir_all(&elsewhere).unwrap_or_default();
            fs::create_dir(&elsewhere).unwrap();
            for part in parts {
                match part.contains('.') || *part == "HEAD" {
                    true => fs::write(elsewhere.join(part), super::HEAD).unwrap(),
                    false => fs::create_dir_all(elsewhere.join(part)).unwrap(),
                }
            }
        };
        let left: [&[&str]; 4] = [
            &[],
            &["refs"],
            &["refs", "config.lock"],
            &["refs", "HEAD", "objects/pack"],
        ];
        for parts in left {
            fs::remove_dir_all(ours)
                .or_else(|_| fs::remove_file(ours))
                .unwrap();
            begin(&[]);
            symlink(&elsewhere, ours).unwrap();
            super::expect(&rig.repo).unwrap();
            begin(parts);
            rig.repo
                .prepare()
                .unwrap_or_else(|why| panic!("{parts:?}: {why}"));
            rig.repo.ready().unwrap();
            assert!(fs::symlink_metadata(ours).unwrap().is_symlink());
        }
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
