//! The secret for a city's signatures, in a file that other users cannot read.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::beneath;
use crate::domain::intent::Secret;

const FILE: &str = "secret";
const LENGTH: usize = 32;

/// Reads the secret of a city from its state directory, or makes one. A garbled file is replaced: signatures with the
/// old secret become invalid.
///
/// # Errors
/// When the file system refuses.
pub fn of_city(state_dir: &Path) -> io::Result<Secret> {
    let found = match beneath::read(state_dir, Path::new(FILE), LENGTH as u64) {
        Err(error) if beneath::is_odd(&error) => None,
        found => found?,
    };
    if let Some(bytes) = found.and_then(|bytes| bytes.try_into().ok()) {
        return Ok(Secret::new(bytes));
    }
    let mut bytes = [0; LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    beneath::replace_durably(state_dir, Path::new(FILE), &bytes)?;
    Ok(Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn secret_of_a_city_stays_the_same_and_is_closed_to_others() {
        let dir = crate::testing::scratch();
        let first = of_city(dir.path()).unwrap();
        assert_eq!(of_city(dir.path()).unwrap(), first);
        let file = dir.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert_ne!(of_city(dir.path()).unwrap(), first);
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
    }
}
