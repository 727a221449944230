//! A mark beside the index that tells whether git writes files of a landing, and when it ended: what is written later is a person's.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::super::admin::At;
use crate::ports::repo::RepoError;

/// The time of modification that stands for a refusal.
const REFUSED: Duration = Duration::from_secs(1);

/// The mark. Its time of modification tells: zero while git writes, one second after a refusal, else when git ended. That time is by
/// the clock that stamps the files, and a full disk takes it.
pub(in super::super) struct Writing(pub(super) PathBuf);

impl Writing {
    /// Makes the mark, and notes that git is about to write.
    pub(super) fn make(&self) -> Result<(), RepoError> {
        File::create(&self.0).at("cannot make", &self.0)?;
        self.begins()
    }

    /// Notes that git is about to write files.
    pub(super) fn begins(&self) -> Result<(), RepoError> {
        self.set(SystemTime::UNIX_EPOCH)
    }

    /// Notes that git writes no more.
    pub(in super::super) fn ended(&self) -> Result<(), RepoError> {
        self.set(SystemTime::now())?;
        let marked = fs::metadata(&self.0).at("cannot read", &self.0)?;
        let seconds = Duration::from_secs(marked.ctime().unsigned_abs());
        let rest = Duration::from_nanos(marked.ctime_nsec().unsigned_abs());
        self.set(SystemTime::UNIX_EPOCH + seconds + rest)
    }

    /// Notes that git refused before it wrote anything more: no file is written in part.
    pub(in super::super) fn refused(&self) -> Result<(), RepoError> {
        self.set(SystemTime::UNIX_EPOCH + REFUSED)
    }

    /// Runs something that writes files whole, or fails. After a success the mark is as before: no file is written in part that was
    /// not before. `goes_on` tells after a failure whether git writes all the same: one that was killed may not have ended.
    ///
    /// # Errors
    /// When it fails, or the mark cannot be read or written.
    pub(super) fn during(
        &self,
        write: impl FnOnce() -> Result<(), RepoError>,
        goes_on: impl FnOnce() -> bool,
    ) -> Result<(), RepoError> {
        let before = fs::metadata(&self.0).and_then(|marked| marked.modified());
        let before = before.at("cannot read", &self.0)?;
        self.begins()?;
        match write() {
            Ok(()) => self.set(before),
            Err(why) if goes_on() => Err(why),
            Err(why) => self.ended().and(Err(why)),
        }
    }

    fn set(&self, at: SystemTime) -> Result<(), RepoError> {
        let marked = File::options().write(true).open(&self.0);
        let marked = marked.and_then(|file| file.set_modified(at));
        marked.at("cannot mark", &self.0)
    }

    /// Returns when git ended to write in part, in seconds and nanoseconds; none while it may write, and if it was killed.
    pub(super) fn end(&self) -> Option<(i64, i64)> {
        let marked = fs::metadata(&self.0).ok()?;
        match marked.mtime() {
            0 => None,
            1 => Some((0, 0)),
            seconds => Some((seconds, marked.mtime_nsec())),
        }
    }
}
