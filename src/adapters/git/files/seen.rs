//! What was hashed before: the ids of a sandbox's files by fingerprint, so that the same bytes are not read
//! twice. The list lies in ours, where no agent writes. A torn or foreign one is as good as none.
//!
//! A charge notes which blob each file was checked out from, before an agent is in the sandbox. A file that
//! still has that fingerprint is what git made of the blob, whatever filters did on the way.
//!
//! A program that has a file mapped changes its times with its first write alone: what was hashed after that may have
//! been written since, under the same fingerprint. A measurement that decides a removal reads such files afresh
//! ([`Seen::doubt`]); those that were not written since the checkout keep their fingerprints, but in memory (tmpfs), where
//! even the first
//! write may leave them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::super::admin::{failed, write_whole};
use super::super::bytes::RelPath;
use super::hash::hex;
use super::recent::{Recent, Sum};
use super::text::{decode, encode};
use super::walk::{Entry, Kind, Stamp};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// How a list begins.
const FORMAT: &str = "horde-seen 1";
/// No longer list is read or written: such a sandbox is hashed anew each time.
const LIST_MAX: u64 = 256 * 1024 * 1024;
/// So many files are remembered that may be gone.
const SPARE: usize = 10_000;
/// A file that changed so shortly before it was read may change again without its times telling.
const YOUNG: Duration = Duration::from_secs(1);

/// What is known of a file with this fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Known {
    stamp: Stamp,
    /// The id of its bytes.
    id: Option<Oid>,
    /// The blob that it was checked out from.
    from: Option<Oid>,
}

/// What is known of files, by path.
pub(in super::super) type KnownFiles = BTreeMap<RelPath, Known>;

/// The files of one sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Seen {
    files: Arc<KnownFiles>,
    changed: bool,
    /// What the checkout made of files whose fingerprints are not believed.
    doubted: BTreeMap<RelPath, Option<Oid>>,
}

impl Seen {
    /// Reads the list.
    pub(in super::super) fn read(file: &Path, recent: &Recent) -> Self {
        let small =
            fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= LIST_MAX);
        let text = small.then(|| fs::read_to_string(file).ok()).flatten();
        let files = text
            .and_then(|text| parse(&text, recent))
            .unwrap_or_default();
        Self {
            files,
            ..Self::default()
        }
    }

    /// Has files read afresh that may have been written under the fingerprints that they had when they were hashed; in
    /// memory, that may be any file.
    pub(in super::super) fn doubt(&mut self, in_memory: bool) {
        let hashed = self.files.iter().filter(|(_, known)| known.id.is_some());
        let hashed: Vec<RelPath> = hashed.map(|(path, _)| path.clone()).collect();
        if in_memory {
            let made = self.files.iter().filter(|(_, known)| known.from.is_some());
            let made = made.map(|(path, known)| (path.clone(), known.id.clone()));
            self.doubted.extend(made);
        }
        if hashed.is_empty() {
            return;
        }
        // Others may have the same list.
        let files = Arc::make_mut(&mut self.files);
        for path in hashed {
            files.entry(path).and_modify(|known| known.id = None);
        }
    }

    /// What the checkout made of a file whose fingerprint is not believed, as far as that was noted; none for one that is
    /// believed.
    pub(in super::super) fn doubted(&self, entry: &Entry) -> Option<Option<Oid>> {
        self.doubted.get(&entry.path).cloned()
    }

    /// Forgets what a file was checked out from: it was written under the same fingerprint.
    pub(in super::super) fn disown(&mut self, entry: &Entry) {
        if let Some(known) = Arc::make_mut(&mut self.files).get_mut(&entry.path) {
            known.from = None;
            self.changed = true;
        }
    }

    /// Writes the list where it is another than was read.
    ///
    /// # Errors
    /// It cannot be written.
    pub(in super::super) fn write(&self, file: &Path, recent: &Recent) -> Result<(), RepoError> {
        if !self.changed {
            return Ok(());
        }
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, &error))?;
        }
        let (text, sum) = self.text();
        if text.len() as u64 <= LIST_MAX {
            write_whole(file, text.as_bytes())?;
            recent.seen.keep(sum, Arc::clone(&self.files));
        }
        Ok(())
    }

    fn text(&self) -> (String, Sum) {
        let mut lines = String::new();
        for (path, known) in &*self.files {
            let stamp = &known.stamp;
            let id = |id: &Option<Oid>| id.as_ref().map_or_else(|| "-".into(), Oid::to_string);
            // Writing to a string cannot fail.
            let _written = writeln!(
                lines,
                "{} {} {:o} {} {} {} {} {} {} {}",
                stamp.inode,
                stamp.size,
                stamp.mode,
                stamp.modified.0,
                stamp.modified.1,
                stamp.changed.0,
                stamp.changed.1,
                id(&known.id),
                id(&known.from),
                encode(path)
            );
        }
        let sum = Sha256::digest(lines.as_bytes());
        (format!("{FORMAT} {}\n{lines}", hex(&sum)), sum.into())
    }

    /// The id of a file's bytes, where they were hashed and the file has not been written since.
    pub(in super::super) fn id(&self, entry: &Entry) -> Option<&Oid> {
        self.known(entry)?.id.as_ref()
    }

    /// The blob that the file was checked out from, where it has not been written since.
    pub(in super::super) fn from(&self, entry: &Entry) -> Option<&Oid> {
        self.known(entry)?.from.as_ref()
    }

    fn known(&self, entry: &Entry) -> Option<&Known> {
        let known = self.files.get(&entry.path)?;
        (known.stamp == entry.stamp).then_some(known)
    }

    /// Notes the id of a file that was read after `began`. One that is younger than a second then is not
    /// noted.
    pub(in super::super) fn note(&mut self, entry: &Entry, id: &Oid, began: SystemTime) {
        if is_young(&entry.stamp, began) {
            return;
        }
        let from = self.from(entry).cloned();
        let known = Known {
            stamp: entry.stamp,
            id: Some(id.clone()),
            from,
        };
        self.changed = true;
        Arc::make_mut(&mut self.files).insert(entry.path.clone(), known);
    }

    /// Forgets files that are not among these, once there are many such.
    pub(in super::super) fn tidy(&mut self, entries: &[Entry]) {
        if self.files.len() > SPARE + 2 * entries.len() {
            self.keep_only(entries);
        }
    }

    fn keep_only(&mut self, entries: &[Entry]) {
        let before = self.files.len();
        // Both are sorted by path.
        let mut there = entries.iter().peekable();
        Arc::make_mut(&mut self.files).retain(|path, _| {
            while there.next_if(|entry| entry.path < *path).is_some() {}
            there.peek().is_some_and(|entry| entry.path == *path)
        });
        self.changed |= self.files.len() != before;
    }

    /// Notes what our own checkout made of these blobs, before an agent was there; `made` tells the ids of the bytes where
    /// they are needed. `probe` is a file made after it: what changed as late as that might change again without its times
    /// telling.
    ///
    /// # Errors
    /// The probe cannot be looked at.
    pub(in super::super) fn checked_out<'a>(
        entries: impl IntoIterator<Item = &'a Entry>,
        blob: impl Fn(&[u8]) -> Option<Oid>,
        made: impl Fn(&Entry) -> Option<Oid>,
        probe: &fs::File,
    ) -> std::io::Result<Self> {
        let probe = probe.metadata()?;
        let now = (
            probe.ctime(),
            u32::try_from(probe.ctime_nsec()).unwrap_or(0),
        );
        let files = entries.into_iter().filter_map(|entry| {
            let stamp = entry.stamp;
            let from = blob(&entry.path).filter(|_| entry.kind == Kind::File)?;
            (stamp.changed < now).then(|| {
                let (id, from) = (made(entry), Some(from));
                (entry.path.clone(), Known { stamp, id, from })
            })
        });
        Ok(Self {
            files: Arc::new(files.collect()),
            changed: true,
            ..Self::default()
        })
    }
}

fn is_young(stamp: &Stamp, began: SystemTime) -> bool {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let old = began.saturating_sub(YOUNG);
    let old = (
        i64::try_from(old.as_secs()).unwrap_or(i64::MAX),
        old.subsec_nanos(),
    );
    stamp.changed >= old || stamp.modified >= old
}

fn parse(text: &str, recent: &Recent) -> Option<Arc<KnownFiles>> {
    let (head, lines) = text.split_once('\n')?;
    let sum = head.strip_prefix(FORMAT)?.trim();
    let found = Sha256::digest(lines.as_bytes());
    if sum != hex(&found) {
        return None;
    }
    let list = || {
        lines
            .lines()
            .map(line)
            .collect::<Option<KnownFiles>>()
            .ok_or(())
    };
    recent.seen.get_or(found.into(), list).ok()
}

fn line(line: &str) -> Option<(RelPath, Known)> {
    let fields: Vec<&str> = line.split(' ').collect();
    let &[
        inode,
        size,
        mode,
        modified,
        modified_ns,
        changed,
        changed_ns,
        id,
        from,
        path,
    ] = fields.as_slice()
    else {
        return None;
    };
    let oid = |text: &str| match text {
        "-" => Some(None),
        text => Oid::new(text).ok().map(Some),
    };
    let stamp = Stamp {
        inode: inode.parse().ok()?,
        size: size.parse().ok()?,
        mode: u32::from_str_radix(mode, 8).ok()?,
        modified: (modified.parse().ok()?, modified_ns.parse().ok()?),
        changed: (changed.parse().ok()?, changed_ns.parse().ok()?),
    };
    let (id, from) = (oid(id)?, oid(from)?);
    Some((decode(path)?, Known { stamp, id, from }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], changed: i64) -> Entry {
        Entry {
            path: path.to_vec(),
            kind: Kind::File,
            stamp: Stamp {
                inode: 7,
                size: 3,
                mode: 0o644,
                modified: (changed, 1),
                changed: (changed, 2),
            },
            links: 1,
        }
    }

    fn id(digit: char) -> Oid {
        Oid::new(digit.to_string().repeat(40)).unwrap()
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn id_is_known_as_long_as_the_fingerprint_is_the_same() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("seen/Toast");
        let (old, odd) = (entry(b"a", 50), entry(b"odd \xff\n", 50));
        let mut seen = Seen::default();
        for file in [&old, &odd] {
            seen.note(file, &id('1'), at(100));
        }
        seen.write(&file, &Recent::default()).unwrap();
        let mut read = Seen::read(&file, &Recent::default());
        assert_eq!(read.id(&old), Some(&id('1')));
        assert_eq!(read.id(&odd), Some(&id('1')));
        assert_eq!(read.id(&entry(b"a", 51)), None);
        read.keep_only(std::slice::from_ref(&odd));
        assert_eq!((read.id(&old), read.id(&odd)), (None, Some(&id('1'))));
    }

    #[test]
    fn file_that_changed_within_a_second_of_its_reading_is_read_again() {
        let mut seen = Seen::default();
        for changed in [99, 100, 200] {
            seen.note(&entry(b"a", changed), &id('1'), at(100));
            assert_eq!(seen.id(&entry(b"a", changed)), None);
        }
        seen.note(&entry(b"a", 98), &id('1'), at(100));
        assert!(seen.id(&entry(b"a", 98)).is_some());
    }

    #[test]
    fn garbage_is_no_list() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("seen");
        let mut seen = Seen::default();
        seen.note(&entry(b"a", 50), &id('1'), at(100));
        seen.write(&file, &Recent::default()).unwrap();
        let whole = fs::read_to_string(&file).unwrap();
        let torn = whole[..whole.len() - 1].to_owned();
        for text in [
            torn,
            whole.replace(" 7 ", " 8 "),
            whole.replace('1', "2"),
            String::new(),
        ] {
            fs::write(&file, text).unwrap();
            let read = Seen::read(&file, &Recent::default());
            let same = fs::read_to_string(&file).unwrap() == whole;
            assert!(same || read == Seen::default());
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(Seen::read(&file, &Recent::default()), Seen::default());
    }

    #[test]
    fn file_is_as_checked_out_until_it_is_written() {
        let dir = crate::testing::scratch();
        let (a, b) = (entry(b"a", 50), entry(b"b", i64::MAX));
        let probe = fs::File::create(dir.path().join("probe")).unwrap();
        let seen = Seen::checked_out([&a, &b], |_| Some(id('2')), |_| None, &probe).unwrap();
        assert_eq!(seen.from(&a), Some(&id('2')));
        assert_eq!(seen.from(&b), None, "as late as the probe");
        assert_eq!(seen.from(&entry(b"a", 51)), None);
        let mut seen = seen;
        seen.note(&a, &id('3'), at(100));
        assert_eq!(
            (seen.id(&a), seen.from(&a)),
            (Some(&id('3')), Some(&id('2')))
        );
    }
}
