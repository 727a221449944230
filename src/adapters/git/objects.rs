//! Checks an object directory that agents can write to before git reads it. git opens anything with the name of a
//! pack or an object: it would block on a pipe for ever, and follow a link.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

use super::admin::{At, failed};
use super::bytes;
use super::rig::GitRepo;
use super::share;
use crate::adapters::beneath;
use crate::ports::repo::RepoError;

/// Settings with which git ignores indexes of commits and packs: an agent can write a false one.
pub(super) const UNINDEXED: [&str; 4] = [
    "-c",
    "core.commitGraph=false",
    "-c",
    "core.multiPackIndex=false",
];

/// The length of a chain of object directories that git follows.
const DEPTH: usize = 5;
/// The largest list of such directories.
const LIST_MAX: u64 = 1 << 20;
/// Directories that git makes beside packs and lists; with [`UNINDEXED`] it does not open them.
const INDEXES: [&[u8]; 2] = [b"commit-graphs", b"multi-pack-index.d"];
/// The size of the buffer that a directory is listed with, in bytes.
const LISTED: usize = 8 << 10;

/// Returns true if theirs has an object directory that this user may not read, and does not own.
pub(super) fn is_shut(repo: &GitRepo) -> bool {
    let listed = fs::read_dir(repo.theirs().join("objects"));
    listed.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Checks the objects of theirs. First renames everything that git must not open, and lists of alternates that lead
/// to such a thing: one agent would otherwise stop all sandboxes of the rig.
///
/// # Errors
/// As [`check`], for what cannot be renamed.
pub(super) fn check_theirs(repo: &GitRepo) -> Result<(), RepoError> {
    let (theirs, objects) = (repo.theirs(), repo.theirs().join("objects"));
    if make_whole(theirs, &objects)? {
        share::lend_again(repo)?;
    }
    let ours = repo.repo_dir().join("objects");
    if check(&objects, &ours).is_ok() {
        return Ok(());
    }
    open_fans(repo, &objects)?;
    let aside = |path: &Path| share::set_aside(theirs, path.strip_prefix(theirs).unwrap_or(path));
    for (path, _) in odd_ones(&objects)? {
        aside(&path)?;
    }
    let is_sound = |lender: &PathBuf| check(lender, &ours).is_ok();
    if !lenders(&objects).is_ok_and(|lenders| lenders.iter().all(is_sound)) {
        aside(&theirs.join(share::LENDERS))?;
    }
    share::lend_again(repo)?;
    check(&objects, &ours)
}

/// Opens directories below the objects of theirs that an agent closed by permissions. Does not touch those of
/// alternates.
fn open_fans(repo: &GitRepo, objects: &Path) -> Result<(), RepoError> {
    let mut dirs = Vec::new();
    list(objects, &mut |name, kind| {
        if kind.is_dir() {
            dirs.push(bytes::path(name).to_owned());
        }
    })?;
    for name in dirs {
        let dir = objects.join(&name);
        let is_closed = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
        if !fs::read_dir(&dir).is_err_and(is_closed) {
            continue;
        }
        let opened = beneath::open_up(repo.theirs(), &Path::new("objects").join(&name));
        if opened.at("cannot open", &dir)? {
            repo.mended(format!(
                "{} was not accessible to its owner; its mode is restored",
                dir.display()
            ));
        }
    }
    Ok(())
}

/// Makes an object directory if there is none: without it git takes theirs for no repository, and a link in its place
/// leads wherever an agent wants. Returns true if there was none.
fn make_whole(theirs: &Path, objects: &Path) -> Result<bool, RepoError> {
    match fs::symlink_metadata(objects) {
        Ok(found) if found.is_dir() => return Ok(false),
        Ok(_) => drop(share::set_aside(theirs, Path::new("objects"))?),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("cannot make", objects, &error)),
    }
    match fs::create_dir(objects) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(failed("cannot make", objects, &error))
        }
        _ => Ok(true),
    }
}

/// Checks the entries that git would open in an object directory and in its alternates. Leaves out the objects of ours,
/// which agents do not write to.
///
/// # Errors
/// [`RepoError::Failed`] names an entry that is not a regular file, or cannot be read.
pub(super) fn check(objects: &Path, ours: &Path) -> Result<(), RepoError> {
    let inode = |dir: &Path| {
        let found = fs::symlink_metadata(dir).ok()?;
        Some((found.dev(), found.ino()))
    };
    // By inode: one directory may have many names.
    let mut known: HashSet<_> = inode(ours).into_iter().collect();
    let mut open = VecDeque::from([(objects.to_owned(), 0)]);
    while let Some((dir, depth)) = open.pop_front() {
        let Some(found) = inode(&dir) else {
            continue;
        };
        if depth > DEPTH || !known.insert(found) {
            continue;
        }
        if let Some((path, wanted)) = odd_ones(&dir)?.into_iter().next() {
            return Err(odd(&path, wanted));
        }
        let lenders = lenders(&dir)?.into_iter();
        open.extend(lenders.map(|lender| (lender, depth + 1)));
    }
    Ok(())
}

/// Returns the entries of an object directory that have the wrong type, each with the expected type. A missing
/// directory has none.
fn odd_ones(objects: &Path) -> Result<Vec<(PathBuf, &'static str)>, RepoError> {
    let mut found = Vec::new();
    let mut dirs = Vec::new();
    list(objects, &mut |name, kind| {
        let is_loose = name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit);
        if is_loose || matches!(name, b"info" | b"pack") {
            let dir = objects.join(bytes::path(name));
            match kind.is_dir() {
                true => dirs.push(dir),
                false => found.push((dir, "directory")),
            }
        }
    })?;
    for dir in dirs {
        list(&dir, &mut |name, kind| {
            let is_index = kind.is_dir() && INDEXES.contains(&name);
            if !kind.is_file() && !is_index {
                found.push((dir.join(bytes::path(name)), "regular file"));
            }
        })?;
    }
    Ok(found)
}

/// Calls `each` with the name and type of each entry of a directory; a missing one has none. Lists with a buffer on the
/// stack: a measurement lists hundreds of directories.
fn list(dir: &Path, each: &mut dyn FnMut(&[u8], FileType)) -> Result<(), RepoError> {
    let fail = |error: Errno| failed("cannot list", dir, &error.into());
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match openat(CWD, dir, how, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(odd(dir, "directory")),
        Err(error) => return Err(fail(error)),
    };
    let mut buffer = [const { MaybeUninit::uninit() }; LISTED];
    let mut entries = RawDir::new(&fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // git itself removes empty directories, and files, meanwhile.
            Err(Errno::NOENT) => break,
            entry => entry.map_err(fail)?,
        };
        let name = entry.file_name();
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => FileType::from_raw_mode(found.map_err(fail)?.st_mode),
            },
            kind => kind,
        };
        if !matches!(name.to_bytes(), b"." | b"..") {
            each(name.to_bytes(), kind);
        }
    }
    Ok(())
}

/// Returns the alternates of an object directory.
fn lenders(objects: &Path) -> Result<Vec<PathBuf>, RepoError> {
    let read = beneath::read(objects, Path::new("info/alternates"), LIST_MAX);
    let text = match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.at("cannot read the lenders of", objects)?,
    };
    let text = text.unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    Ok(lines
        .map(|line| objects.join(bytes::path(&unquoted(line))))
        .collect())
}

/// Parses a line as git does: in quotes with escapes, or plain.
fn unquoted(line: &[u8]) -> Vec<u8> {
    let inner = line
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let Some(mut rest) = inner else {
        return line.to_vec();
    };
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let octal = rest.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        let octal = octal.and_then(|it| u8::from_str_radix(it, 8).ok());
        let Some((&escaped, after)) = rest.split_first() else {
            break;
        };
        rest = match octal {
            Some(_) => &rest[3..],
            None => after,
        };
        plain.push(octal.unwrap_or(match escaped {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            other => other,
        }));
    }
    plain
}

fn odd(path: &Path, wanted: &str) -> RepoError {
    let path = path.display();
    RepoError::Failed(format!(
        "{path} is not a {wanted}: git would wait for it or follow it. Remove it to continue"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn store(dir: &Path, name: &str) -> PathBuf {
        let objects = dir.join(name);
        for below in ["info/commit-graphs", "pack", "0a"] {
            fs::create_dir_all(objects.join(below)).unwrap();
        }
        fs::write(objects.join("pack/pack-1.pack"), "").unwrap();
        fs::write(objects.join("0a/1"), "").unwrap();
        objects
    }

    #[test]
    fn irregular_file_is_refused_by_its_name() {
        let dir = crate::testing::scratch();
        let objects = store(dir.path(), "a");
        let ours = store(dir.path(), "ours");
        let check = |objects: &Path| check(objects, &ours);
        check(&objects).unwrap();
        check(&dir.path().join("none")).unwrap();
        for name in ["info/alternates", "pack/pack-2.idx", "0a/2", "0b", "a.tmp"] {
            let place = objects.join(name);
            for kind in ["pipe", "link", "directory"] {
                match kind {
                    "pipe" => mkfifo(&place, Mode::S_IRWXU).unwrap(),
                    "link" => symlink("/dev/zero", &place).unwrap(),
                    _ => fs::create_dir(&place).unwrap(),
                }
                let told = check(&objects).map_err(|error| error.to_string());
                // A directory may have two digits, and git opens no other name.
                match name == "a.tmp" || (name, kind) == ("0b", "directory") {
                    true => assert_eq!(told, Ok(())),
                    false => assert!(told.unwrap_err().contains(name), "{kind} {name}"),
                }
                let _file = fs::remove_file(&place);
                let _dir = fs::remove_dir(&place);
            }
        }
        fs::rename(objects.join("pack"), objects.join("packs")).unwrap();
        symlink("packs", objects.join("pack")).unwrap();
        check(&objects).unwrap_err();
    }

    #[test]
    fn lenders_are_looked_at_as_well() {
        let dir = crate::testing::scratch();
        let (objects, lender) = (store(dir.path(), "a"), store(dir.path(), "b\tc"));
        let ours = store(dir.path(), "ours");
        let check = |objects: &Path| check(objects, &ours);
        let absolute = lender.display();
        let escaped = absolute.to_string().replace('\t', "\\t");
        mkfifo(&lender.join("pack/pack-2.idx"), Mode::S_IRWXU).unwrap();
        let lists = [
            format!("{absolute}\n"),
            format!("#\n\n\"{escaped}\"\n"),
            format!("\"{}\"", escaped.replace("b\\t", "\\142\\011")),
            "../b\tc\n".to_owned(),
        ];
        for list in lists {
            fs::write(objects.join("info/alternates"), &list).unwrap();
            let told = check(&objects).unwrap_err().to_string();
            assert!(told.contains("pack-2.idx"), "{list}: {told}");
        }
        // Agents do not write to ours, under any name.
        mkfifo(&ours.join("pack/pack-2.idx"), Mode::S_IRWXU).unwrap();
        fs::write(objects.join("info/alternates"), "../b\tc/../ours\n").unwrap();
        check(&objects).unwrap();
        // A directory that is its own alternate ends the search.
        fs::write(objects.join("info/alternates"), "../a/../a\n.\n").unwrap();
        check(&objects).unwrap();
    }
}
