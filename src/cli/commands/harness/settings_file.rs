//! Changes a settings file of a program atomically: a copy of the old text is kept beside it, and the new text replaces
//! the old in one step.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::inspect::SETTINGS_MAX;
use crate::regular;

/// The mode of a new file: settings may come to hold keys.
const NEW_FILE: u32 = 0o600;
/// The mode of a new directory.
const NEW_DIR: u32 = 0o700;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// The file itself, links followed.
    pub target: PathBuf,
    /// Its text; empty where there is none yet.
    pub text: String,
    meta: Option<Metadata>,
}

impl SettingsFile {
    /// Reads a file, or finds that it is missing.
    ///
    /// # Errors
    /// It is no regular file, no text, or cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        let target = match fs::symlink_metadata(path) {
            Ok(_) => path.canonicalize().map_err(|error| {
                io::Error::new(error.kind(), format!("it is a broken link: {error}"))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let mut file = match File::open(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    target,
                    text: String::new(),
                    meta: None,
                });
            }
            opened => opened?,
        };
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if meta.len() > SETTINGS_MAX {
            return Err(io::Error::other("it is too large for a settings file"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(Self {
            target,
            text,
            meta: Some(meta),
        })
    }

    /// Replaces the text and returns the path of the copy of the old one; none if there was no file. Mode and owner
    /// stay.
    ///
    /// # Errors
    /// Something cannot be written, or the file has changed since it was read; the file is unchanged then.
    pub fn replace(&self, text: &str, stamp: &str) -> io::Result<Option<PathBuf>> {
        let dir = self.target.parent().unwrap_or(Path::new("/"));
        let mut maker = DirBuilder::new();
        maker.recursive(true).mode(NEW_DIR).create(dir)?;
        let backup = self.keep(dir, stamp)?;
        let new = tempfile::Builder::new().prefix(".hd-").tempfile_in(dir);
        let mut new = new.map_err(regular::of_temporary)?;
        new.write_all(text.as_bytes())?;
        let mode = self
            .meta
            .as_ref()
            .map_or(NEW_FILE, |meta| meta.mode() & 0o7777);
        let own = new.as_file().metadata()?;
        if let Some(meta) = &self.meta
            && (meta.uid(), meta.gid()) != (own.uid(), own.gid())
        {
            chown(new.path(), Some(meta.uid()), Some(meta.gid()))?;
        }
        new.as_file()
            .set_permissions(fs::Permissions::from_mode(mode))?;
        new.as_file().sync_all()?;
        if Self::read(&self.target)?.text != self.text {
            return Err(io::Error::other("it was changed meanwhile; try again"));
        }
        new.persist(&self.target).map_err(|error| error.error)?;
        File::open(dir)?.sync_all()?;
        Ok(backup)
    }

    /// Keeps a copy of the file beside it, with its mode.
    fn keep(&self, dir: &Path, stamp: &str) -> io::Result<Option<PathBuf>> {
        let Some(meta) = &self.meta else {
            return Ok(None);
        };
        let name = self.target.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let mut number = 0;
        loop {
            let again = match number {
                0 => String::new(),
                number => format!("-{number}"),
            };
            let path = dir.join(format!("{name}.{stamp}{again}.bak"));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(NEW_FILE);
            let mut copy = match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    continue;
                }
                opened => opened?,
            };
            copy.write_all(self.text.as_bytes())?;
            copy.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))?;
            copy.sync_all()?;
            return Ok(Some(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn link_stays_and_what_it_leads_to_is_replaced_with_mode_and_copy() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let (real, link) = (root.join("real.json"), root.join("link.json"));
        fs::write(&real, "{}").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        let file = SettingsFile::read(&link).unwrap();
        let kept = file.replace("{\"a\":1}", "T").unwrap().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "{\"a\":1}");
        assert_eq!(kept, root.join("real.json.T.bak"));
        assert_eq!(fs::read_to_string(&kept).unwrap(), "{}");
        assert_eq!((mode(&real), mode(&kept)), (0o640, 0o640));
        let again = SettingsFile::read(&link).unwrap().replace("{}", "T");
        assert_eq!(again.unwrap(), Some(root.join("real.json.T-1.bak")));
        let names = fs::read_dir(&root).unwrap().count();
        assert_eq!(names, 4, "no temporary file is left");
    }

    #[test]
    fn file_that_is_not_there_is_made_closed_with_its_directory() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("new/settings.json");
        let file = SettingsFile::read(&path).unwrap();
        assert_eq!(file.replace("{}", "T").unwrap(), None);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn file_that_changed_meanwhile_or_is_none_is_left_alone() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("settings.json");
        fs::write(&path, "{}").unwrap();
        let file = SettingsFile::read(&path).unwrap();
        fs::write(&path, "{\"theirs\":1}").unwrap();
        assert!(file.replace("{\"a\":1}", "T").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"theirs\":1}");
        assert!(SettingsFile::read(temp.path()).is_err(), "a directory");
        let link = temp.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(SettingsFile::read(&link).is_err(), "a link to nothing");
    }
}
