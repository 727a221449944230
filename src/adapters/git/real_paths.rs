//! Real paths of many directories beside each other: a rig has as many administrative directories as sandboxes, and each
//! look at one sandbox follows all of them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Resolves absolute paths of directories as [`fs::canonicalize`] does, but that of each parent directory once.
#[derive(Debug, Default)]
pub(super) struct RealPaths {
    parents: HashMap<PathBuf, PathBuf>,
}

impl RealPaths {
    /// Returns the real path.
    ///
    /// # Errors
    /// As [`fs::canonicalize`].
    pub(super) fn of(&mut self, path: &Path) -> io::Result<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return fs::canonicalize(path);
        };
        let parent = match self.parents.get(parent) {
            Some(known) => known,
            None => {
                let found = fs::canonicalize(parent)?;
                self.parents.entry(parent.to_owned()).or_insert(found)
            }
        };
        let real = parent.join(name);
        match fs::symlink_metadata(&real)?.is_symlink() {
            true => fs::canonicalize(path),
            false => Ok(real),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn paths_are_resolved_as_by_canonicalize() {
        let dir = crate::testing::scratch();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("raiders/one/in")).unwrap();
        fs::write(at("raiders/file"), "").unwrap();
        symlink("raiders", at("beside")).unwrap();
        symlink("one", at("raiders/two")).unwrap();
        symlink("gone", at("raiders/broken")).unwrap();
        symlink("round", at("raiders/round")).unwrap();
        fs::create_dir_all(at("closed/in")).unwrap();
        symlink("../closed/in", at("raiders/shut")).unwrap();
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let mut paths = RealPaths::default();
        for name in [
            "raiders/one",
            "raiders/one/",
            "raiders/one/.",
            "raiders/one/..",
            "raiders/one/../one/in",
            "raiders/two",
            "raiders/two/in",
            "raiders/broken",
            "raiders/round",
            "raiders/file",
            "raiders/file/in",
            "raiders/none",
            "none/in",
            "beside/one",
            "beside/two/in",
            "closed",
            "closed/in",
            "raiders/shut",
        ] {
            let told = |found: io::Result<PathBuf>| found.map_err(|error| error.kind());
            let expected = told(fs::canonicalize(at(name)));
            for _ in 0..2 {
                assert_eq!(told(paths.of(&at(name))), expected, "{name}");
            }
        }
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}
