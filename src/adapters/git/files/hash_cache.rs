//! A cache of a sandbox's file hashes by fingerprint, so that unchanged files are not read again. The list lies in
//! ours, where no agent writes. A torn or foreign list counts as empty.
//!
//! A charge notes for each file the blob that it was checked out from, before an agent is in the sandbox. A file that
//! still has that fingerprint is git's output for the blob, whatever filters did on the way.
//!
//! A program that has mapped a file changes the file's times only with its first write: later writes keep the
//! fingerprint under which the file was hashed. A measurement that decides a removal therefore reads such files again
//! ([`HashCache::doubt`]). Files that were not written since the checkout keep their fingerprints, except in memory
//! (tmpfs), where even the first write may not change them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::super::admin::{At, write_whole};
use super::super::bytes::RelPath;
use super::hash::hex;
use super::recent::{Recent, Sum};
use super::text::{decode, encode};
use super::walk::{Entry, Kind, Stamp};
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The first line of a list.
const FORMAT: &str = "horde-seen 1";
/// The largest list that is read or written: a sandbox with more files is hashed again each time.
const LIST_MAX: u64 = 256 * 1024 * 1024;
/// The number of files in the list that may be gone before it is tidied.
const SPARE: usize = 10_000;
/// The time after a change during which a file may change again without a change of its times.
const YOUNG: Duration = Duration::from_secs(1);

/// The cache entry of a file with this fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct CachedHash {
    stamp: Stamp,
    /// The id of its bytes.
    id: Option<Oid>,
    /// The blob that it was checked out from.
    from: Option<Oid>,
}

/// The cache entries, by path.
pub(in super::super) type CachedHashes = BTreeMap<RelPath, CachedHash>;

/// The cache of one sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct HashCache {
    files: Arc<CachedHashes>,
    changed: bool,
    doubt: Doubt,
}

/// The fingerprints that are not trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Doubt {
    /// All are trusted.
    #[default]
    None,
    /// Files that were hashed at or since the checkout are not.
    Hashed,
    /// None is trusted.
    All,
}

impl CachedHash {
    /// Returns true if the cache entry matches the entry's current fingerprint.
    pub(in super::super) fn is_of(&self, entry: &Entry) -> bool {
        self.stamp == entry.stamp
    }

    /// The blob that the file was checked out from.
    pub(in super::super) fn from(&self) -> Option<&Oid> {
        self.from.as_ref()
    }
}

impl HashCache {
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

    /// Marks the files to be read again that may have been written without a change of their fingerprint since they
    /// were hashed; in memory, that may be any file.
    pub(in super::super) fn doubt(&mut self, in_memory: bool) {
        self.doubt = match in_memory {
            true => Doubt::All,
            false => Doubt::Hashed,
        };
    }

    /// Returns the cache entries, by path.
    pub(in super::super) fn listed(&self) -> Arc<CachedHashes> {
        Arc::clone(&self.files)
    }

    /// Returns the id of the bytes of a file with this fingerprint, if that is trusted.
    pub(in super::super) fn believed<'a>(&self, known: &'a CachedHash) -> Option<&'a Oid> {
        match self.doubt {
            Doubt::None => known.id.as_ref(),
            Doubt::Hashed | Doubt::All => None,
        }
    }

    /// Returns the id that the checkout gave to a file whose fingerprint is not trusted, as far as that was noted;
    /// none if it is trusted.
    pub(in super::super) fn doubted<'a>(&self, known: &'a CachedHash) -> Option<Option<&'a Oid>> {
        (self.doubt == Doubt::All).then_some(known.id.as_ref())
    }

    /// Forgets the blob that a file was checked out from: the file was written under the same fingerprint.
    pub(in super::super) fn disown(&mut self, entry: &Entry) {
        if let Some(known) = Arc::make_mut(&mut self.files).get_mut(&entry.path) {
            known.from = None;
            self.changed = true;
        }
    }

    /// Writes the list if it was changed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(in super::super) fn write(&self, file: &Path, recent: &Recent) -> Result<(), RepoError> {
        if !self.changed {
            return Ok(());
        }
        if let Some(dir) = file.parent() {
            city_root::make_dirs(dir).at("cannot make", dir)?;
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
                digits(known.id.as_ref()),
                digits(known.from.as_ref()),
                encode(path)
            );
        }
        let sum = Sha256::digest(lines.as_bytes());
        (format!("{FORMAT} {}\n{lines}", hex(&sum)), sum.into())
    }

    /// Returns the id of a file's bytes, if the file was hashed and not written since.
    pub(in super::super) fn id(&self, entry: &Entry) -> Option<&Oid> {
        self.believed(self.known(entry)?)
    }

    fn known(&self, entry: &Entry) -> Option<&CachedHash> {
        let known = self.files.get(&entry.path)?;
        (known.stamp == entry.stamp).then_some(known)
    }

    /// Notes the id of a file that was read after `began`, unless the file was younger than a second then.
    pub(in super::super) fn record(&mut self, entry: &Entry, id: &Oid, began: SystemTime) {
        let before = self.known(entry);
        let id = match is_young(&entry.stamp, began) {
            false => Some(id.clone()),
            true => match before.and_then(|known| known.id.as_ref()) {
                // The file was written under the same fingerprint.
                Some(other) if other != id => None,
                _ => return,
            },
        };
        if before.is_some_and(|known| known.id == id) {
            return;
        }
        let known = CachedHash {
            stamp: entry.stamp,
            id,
            from: before.and_then(|known| known.from.clone()),
        };
        self.changed = true;
        Arc::make_mut(&mut self.files).insert(entry.path.clone(), known);
    }

    /// Forgets files that are not among these, once there are many of them.
    pub(in super::super) fn tidy<'a>(&mut self, entries: impl ExactSizeIterator<Item = &'a Entry>) {
        if self.files.len() > SPARE + 2 * entries.len() {
            self.keep_only(entries);
        }
    }

    fn keep_only<'a>(&mut self, entries: impl Iterator<Item = &'a Entry>) {
        let before = self.files.len();
        // Both are sorted by path.
        let mut there = entries.peekable();
        Arc::make_mut(&mut self.files).retain(|path, _| {
            while there.next_if(|entry| entry.path < *path).is_some() {}
            there.peek().is_some_and(|entry| entry.path == *path)
        });
        self.changed |= self.files.len() != before;
    }

    /// Makes the cache for our own checkout of these blobs, before an agent was there; `made` returns the id of a
    /// file's bytes if needed. The files are sorted by path. `probe` is a file made after the checkout: a file that
    /// changed as late as the probe might change again without a change of its times.
    ///
    /// # Errors
    /// When the metadata of the probe cannot be read.
    pub(in super::super) fn checked_out<'a>(
        files: impl IntoIterator<Item = (&'a Entry, &'a Oid)>,
        made: impl Fn(&Entry) -> Option<Oid>,
        probe: &fs::File,
    ) -> std::io::Result<Self> {
        let probe = probe.metadata()?;
        let now = (
            probe.ctime(),
            u32::try_from(probe.ctime_nsec()).unwrap_or(0),
        );
        let files = files.into_iter().filter_map(|(entry, blob)| {
            let stamp = entry.stamp;
            (entry.kind == Kind::File && stamp.changed < now).then(|| {
                let (id, from) = (made(entry), Some(blob.clone()));
                (entry.path.clone(), CachedHash { stamp, id, from })
            })
        });
        Ok(Self {
            files: Arc::new(files.collect()),
            changed: true,
            ..Self::default()
        })
    }
}

/// Formats an id for the list.
fn digits(id: Option<&Oid>) -> &str {
    id.map_or("-", Oid::as_str)
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

fn parse(text: &str, recent: &Recent) -> Option<Arc<CachedHashes>> {
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
            .collect::<Option<CachedHashes>>()
            .ok_or(())
    };
    recent.seen.get_or(found.into(), list).ok()
}

fn line(line: &str) -> Option<(RelPath, CachedHash)> {
    let mut fields = line.split(' ');
    let mut next = || fields.next();
    let [inode, size, mode] = [next()?, next()?, next()?];
    let [modified, modified_ns, changed, changed_ns] = [next()?, next()?, next()?, next()?];
    let [id, from, path] = [next()?, next()?, next()?];
    if next().is_some() {
        return None;
    }
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
    Some((decode(path)?, CachedHash { stamp, id, from }))
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
            taken: 0,
        }
    }

    impl HashCache {
        fn from(&self, entry: &Entry) -> Option<&Oid> {
            self.known(entry)?.from()
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
        let mut seen = HashCache::default();
        for file in [&old, &odd] {
            seen.record(file, &id('1'), at(100));
        }
        seen.write(&file, &Recent::default()).unwrap();
        let mut read = HashCache::read(&file, &Recent::default());
        assert_eq!(read.id(&old), Some(&id('1')));
        assert_eq!(read.id(&odd), Some(&id('1')));
        assert_eq!(read.id(&entry(b"a", 51)), None);
        read.keep_only(std::iter::once(&odd));
        assert_eq!((read.id(&old), read.id(&odd)), (None, Some(&id('1'))));
    }

    #[test]
    fn file_that_changed_within_a_second_of_its_reading_is_read_again() {
        let mut seen = HashCache::default();
        for changed in [99, 100, 200] {
            seen.record(&entry(b"a", changed), &id('1'), at(100));
            assert_eq!(seen.id(&entry(b"a", changed)), None);
        }
        seen.record(&entry(b"a", 98), &id('1'), at(100));
        assert!(seen.id(&entry(b"a", 98)).is_some());
    }

    #[test]
    fn garbage_is_no_list() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("seen");
        let mut seen = HashCache::default();
        seen.record(&entry(b"a", 50), &id('1'), at(100));
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
            let read = HashCache::read(&file, &Recent::default());
            let same = fs::read_to_string(&file).unwrap() == whole;
            assert!(same || read == HashCache::default());
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(
            HashCache::read(&file, &Recent::default()),
            HashCache::default()
        );
    }

    #[test]
    fn file_is_as_checked_out_until_it_is_written() {
        let dir = crate::testing::scratch();
        let (a, b, blob) = (entry(b"a", 50), entry(b"b", i64::MAX), id('2'));
        let probe = fs::File::create(dir.path().join("probe")).unwrap();
        let seen =
            HashCache::checked_out([&a, &b].map(|it| (it, &blob)), |_| None, &probe).unwrap();
        assert_eq!(seen.from(&a), Some(&id('2')));
        assert_eq!(seen.from(&b), None, "as late as the probe");
        assert_eq!(seen.from(&entry(b"a", 51)), None);
        let mut seen = seen;
        seen.record(&a, &id('3'), at(100));
        assert_eq!(
            (seen.id(&a), seen.from(&a)),
            (Some(&id('3')), Some(&id('2')))
        );
    }
    #[test]
    fn doubt_believes_no_hash_and_a_file_that_reads_the_same_is_no_change() {
        let dir = crate::testing::scratch();
        let probe = fs::File::create(dir.path().join("probe")).unwrap();
        let (a, blob) = (entry(b"a", 50), id('2'));
        let made = |_: &Entry| Some(id('1'));
        let seen = HashCache::checked_out([(&a, &blob)], made, &probe).unwrap();
        for in_memory in [false, true] {
            let mut doubting = HashCache {
                files: seen.listed(),
                ..HashCache::default()
            };
            doubting.doubt(in_memory);
            assert_eq!(doubting.id(&a), None);
            assert_eq!(doubting.from(&a), Some(&id('2')));
            let known = &doubting.listed()[&a.path];
            let made = doubting.doubted(known).map(Option::<&Oid>::cloned);
            assert_eq!(made, in_memory.then(|| Some(id('1'))));
            doubting.record(&a, &id('1'), at(100));
            assert!(!doubting.changed);
        }
    }

    /// The new id cannot be noted yet, but the old one must not be trusted either.
    #[test]
    fn young_file_that_was_written_under_its_fingerprint_is_forgotten() {
        let mut seen = HashCache::default();
        seen.record(&entry(b"a", 50), &id('1'), at(100));
        seen.record(&entry(b"a", 50), &id('1'), at(50));
        assert_eq!(seen.id(&entry(b"a", 50)), Some(&id('1')));
        seen.record(&entry(b"a", 50), &id('2'), at(50));
        assert_eq!(seen.id(&entry(b"a", 50)), None);
    }
}
