//! The identity of a city: an id and the place of the city's directory, recorded in `.horde`. A copy (`cp -a`) has the
//! record of its original, too. Everything else in the copy is the original's as well: records of sessions name the
//! original's processes, and the links of its sandboxes lead into the original's repositories.
//!
//! | The place that is recorded | This city is |
//! |---|---|
//! | is this directory, by its path or its inode | the same one, or one that was restored or moved |
//! | leads to nothing, or to another city | one that was moved, or restored elsewhere |
//! | leads to another directory with the same id | a copy: no supervisor starts in it |

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{DaemonError, failed_at};
use crate::adapters::beneath;

/// The file of the record, in `.horde`.
const FILE: &str = "identity";
/// The largest record: a path is the most of it.
const RECORD_MAX: u64 = 16 * 1024;

/// The record: a line with the id, a line with device and inode, and the path to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    id: String,
    device: u64,
    inode: u64,
    path: PathBuf,
}

impl Identity {
    fn is_at(&self, dir: &Metadata) -> bool {
        (self.device, self.inode) == (dir.dev(), dir.ino())
    }

    fn parse(record: &[u8]) -> Option<Self> {
        let mut lines = record.splitn(3, |byte| *byte == b'\n');
        let mut text = || std::str::from_utf8(lines.next()?).ok();
        let (id, (device, inode)) = (text()?, text()?.split_once(' ')?);
        Some(Self {
            id: id.to_owned(),
            device: device.parse().ok()?,
            inode: inode.parse().ok()?,
            path: OsStr::from_bytes(lines.next()?).into(),
        })
    }

    fn record(&self) -> Vec<u8> {
        let head = format!("{}\n{} {}\n", self.id, self.device, self.inode);
        [head.as_bytes(), self.path.as_os_str().as_bytes()].concat()
    }
}

/// A city that is no copy: its record as found, and as it is to be.
pub(super) struct Verified {
    found: Option<Identity>,
    now: Identity,
}

/// Verifies that this city is no copy of another one. `root` is its directory, locked; `city` the path of it, and
/// `state` that of `.horde`. Changes nothing.
///
/// # Errors
/// The city is a copy of a city that still exists; or the record cannot be read.
pub(super) fn verify(city: &Path, state: &Path, root: &File) -> Result<Verified, DaemonError> {
    let file = state.join(FILE);
    let here = root.metadata();
    let here = here.map_err(failed_at(city, "cannot be read"))?;
    let found = read(state).map_err(failed_at(&file, "cannot be read"))?;
    if let Some(found) = &found
        && !found.is_at(&here)
        && found.path != city
        && !leads_to(found, &here)
        && is_there(found).unwrap_or_else(|error| unknown(found, &error))
    {
        return Err(DaemonError::Failed(refusal(city, &found.path)));
    }
    let id = match &found {
        Some(found) => found.id.clone(),
        None => new_id().map_err(failed_at(&file, "cannot be made"))?,
    };
    let now = Identity {
        id,
        device: here.dev(),
        inode: here.ino(),
        path: city.to_owned(),
    };
    Ok(Verified { found, now })
}

impl Verified {
    /// Returns the id of the city.
    pub(super) fn id(&self) -> &str {
        &self.now.id
    }

    /// Records the place of the city, if it is not recorded.
    pub(super) fn record(&self, state: &Path) {
        if self.found.as_ref() == Some(&self.now) {
            return;
        }
        if let Some(found) = &self.found {
            let (city, was) = (self.now.path.display(), found.path.display());
            tracing::info!(%city, %was, "the city was moved, or restored from a backup; recording its new place");
        }
        self.write(state);
    }

    /// Writes the record of a `.horde` that was made again: the city keeps its id.
    pub(super) fn write(&self, state: &Path) {
        if let Err(error) = beneath::replace_durably(state, Path::new(FILE), &self.now.record()) {
            // A full disk must not keep the supervisor from its running sessions.
            let file = state.join(FILE);
            tracing::warn!(file = %file.display(), %error, "could not record the city's place; a copy of the city may go undetected");
        }
    }
}

/// Reads the record in a state directory. None if it is missing or garbled.
fn read(state: &Path) -> io::Result<Option<Identity>> {
    match beneath::read(state, Path::new(FILE), RECORD_MAX) {
        Err(error) if beneath::is_odd(&error) => Ok(None),
        Err(error) if is_nothing(&error) => Ok(None),
        found => Ok(found?.as_deref().and_then(Identity::parse)),
    }
}

/// Returns whether the recorded city is still there. Device numbers change at a reboot, so that city's own record
/// decides; if this user cannot read the record, the inode does.
fn is_there(recorded: &Identity) -> io::Result<bool> {
    let found = match fs::symlink_metadata(&recorded.path) {
        Err(error) if is_nothing(&error) => return Ok(false),
        // Nothing there can be read, and none of its sessions can be touched from here.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(false),
        found => found?,
    };
    match read(&recorded.path.join(super::ground::STATE)) {
        Ok(other) => Ok(other.is_some_and(|other| other.id == recorded.id)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(recorded.is_at(&found)),
        Err(error) => Err(error),
    }
}

/// Returns whether the old path is a link to the city that was moved.
fn leads_to(recorded: &Identity, here: &Metadata) -> bool {
    fs::metadata(&recorded.path).is_ok_and(|it| (it.dev(), it.ino()) == (here.dev(), here.ino()))
}

/// Treats a city whose old place cannot be read, as on a broken disk, as moved: a backup must be able to start
/// elsewhere.
fn unknown(recorded: &Identity, error: &io::Error) -> bool {
    let was = recorded.path.display();
    tracing::warn!(%was, %error, "cannot read the recorded place of the city; the city counts as moved");
    false
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn refusal(city: &Path, original: &Path) -> String {
    let (city, original) = (city.display(), original.display());
    format!(
        "{city} is a copy of the city {original}, which still exists: the sessions in its records \
        belong to the original, and its sandboxes use the original's repositories. Nothing was started or ended. \
        To replace the original by the copy, stop the original, move it away and move the copy to {original}. \
        For a second city, copy only city.toml and the files that it names, without .horde and the directories \
        of the rigs"
    )
}

/// Returns an id of 128 random bits.
fn new_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    struct Lab {
        _temp: tempfile::TempDir,
        root: PathBuf,
    }

    impl Lab {
        fn new() -> Self {
            let temp = crate::testing::scratch();
            let root = temp.path().canonicalize().unwrap();
            Self { _temp: temp, root }
        }

        fn city(&self, name: &str) -> PathBuf {
            let city = self.root.join(name);
            fs::create_dir_all(city.join(".horde")).unwrap();
            city
        }

        /// Copies a city's record as `cp -a` does.
        fn copy(&self, from: &str, to: &str) -> PathBuf {
            let to = self.city(to);
            let record = Path::new(".horde").join(FILE);
            fs::copy(self.root.join(from).join(&record), to.join(&record)).unwrap();
            to
        }
    }

    fn settled(city: &Path) -> Result<(), String> {
        let root = File::open(city).unwrap();
        let settled = verify(city, &city.join(".horde"), &root);
        let settled = settled.map(|verified| verified.record(&city.join(".horde")));
        settled.map_err(|error| error.to_string())
    }

    #[test]
    fn copy_is_refused_while_its_original_is_there() {
        let lab = Lab::new();
        let original = lab.city("city");
        settled(&original).unwrap();
        settled(&original).unwrap();
        let copy = lab.copy("city", "copy");
        let why = settled(&copy).unwrap_err();
        let named = format!("is a copy of the city {}", original.display());
        assert!(why.contains(&named), "{why}");
        assert!(settled(&copy).is_err(), "it stays one");
        settled(&original).unwrap();
        fs::rename(&original, lab.root.join("away")).unwrap();
        settled(&copy).unwrap();
    }

    #[test]
    fn city_that_was_moved_or_restored_in_place_starts() {
        let lab = Lab::new();
        let city = lab.city("city");
        settled(&city).unwrap();
        let moved = lab.root.join("moved");
        fs::rename(&city, &moved).unwrap();
        settled(&moved).unwrap();
        settled(&moved).unwrap();
        lab.copy("moved", "backup");
        fs::remove_dir_all(&moved).unwrap();
        fs::rename(lab.root.join("backup"), &moved).unwrap();
        settled(&moved).unwrap();
        // A link is left at the old path.
        let linked = lab.root.join("linked");
        lab.copy("moved", "linked");
        fs::remove_dir_all(&moved).unwrap();
        std::os::unix::fs::symlink(&linked, &moved).unwrap();
        settled(&linked).unwrap();
        fs::remove_file(&moved).unwrap();
        fs::rename(&linked, &moved).unwrap();
        settled(&moved).unwrap();
        // Another city is at its place now.
        let elsewhere = lab.root.join("elsewhere");
        fs::rename(&moved, &elsewhere).unwrap();
        settled(&lab.city("moved")).unwrap();
        settled(&elsewhere).unwrap();
    }

    /// The original was moved, a copy has its place, and both existed before.
    #[test]
    fn city_whose_copy_took_its_place_is_no_copy() {
        let lab = Lab::new();
        let city = lab.city("city");
        settled(&city).unwrap();
        let moved = lab.root.join("moved");
        fs::rename(&city, &moved).unwrap();
        settled(&lab.copy("moved", "city")).unwrap();
        settled(&moved).unwrap();
    }

    #[test]
    fn device_that_has_another_number_since_makes_no_copy_an_original() {
        let lab = Lab::new();
        let city = lab.city("city");
        settled(&city).unwrap();
        let file = city.join(".horde").join(FILE);
        let mut old = Identity::parse(&fs::read(&file).unwrap()).unwrap();
        old.device += 1;
        fs::write(&file, old.record()).unwrap();
        let copy = lab.copy("city", "copy");
        settled(&city).unwrap();
        assert!(settled(&copy).is_err());
    }

    #[test]
    fn garbled_record_is_none_and_a_path_may_have_any_bytes() {
        let lab = Lab::new();
        let city = lab.city("city");
        fs::write(city.join(".horde").join(FILE), "nonsense").unwrap();
        settled(&city).unwrap();
        let odd = Identity {
            id: "1f".to_owned(),
            device: 1,
            inode: 2,
            path: PathBuf::from(std::ffi::OsString::from_vec(b"/a\n\xff b".to_vec())),
        };
        assert_eq!(Identity::parse(&odd.record()), Some(odd));
    }
}
