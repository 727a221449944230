//! Which city is meant, and where its socket is (`2-contract.md`, 2.1).

use std::env;
use std::path::{Path, PathBuf};

use super::error::{CliError, Doing};

/// The name of a city's configuration.
pub(super) const FILE: &str = "city.toml";

/// A city as `hd` knows it.
#[derive(Debug, Clone)]
pub(super) struct City {
    /// Its directory.
    pub root: PathBuf,
    /// Where its supervisor listens.
    pub socket: PathBuf,
}

/// The city that was named, else the one whose session this is, else the nearest upwards.
pub(super) fn find(given: Option<&Path>) -> Result<City, CliError> {
    if let Some(given) = given {
        return at(given);
    }
    if let Some(city) = of_session() {
        return Ok(city);
    }
    let here = env::current_dir().doing("the working directory")?;
    match upwards(&here) {
        Some(root) => at(root),
        None => Err(CliError::usage(format!(
            "no {FILE} in {} or above",
            here.display()
        ))
        .hint("`hd init` makes a city, `--city PATH` or HORDE_CITY names one")),
    }
}

/// The city at a path: its directory or its `city.toml`.
pub(super) fn at(path: &Path) -> Result<City, CliError> {
    let file = if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_owned()
    };
    if !file.is_file() {
        return Err(CliError::usage(format!("there is no city at {}", path.display()))
            .hint("`hd init` makes one"));
    }
    let root = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let root = root.unwrap_or(Path::new("."));
    let root = root.canonicalize().doing(root.display())?;
    let socket = socket(&root);
    Ok(City { root, socket })
}

/// Inside a session the supervisor has said where it listens.
fn of_session() -> Option<City> {
    let path = |name| {
        let value = env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    Some(City {
        root: path("HD_CITY")?,
        socket: path("HD_SOCKET")?,
    })
}

fn upwards(start: &Path) -> Option<&Path> {
    start.ancestors().find(|dir| dir.join(FILE).is_file())
}

fn socket(root: &Path) -> PathBuf {
    root.join(".horde/control.sock")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_city_upwards_is_the_one() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let inner = root.join("a/inner");
        fs::create_dir_all(inner.join("b")).unwrap();
        assert_eq!(upwards(&inner), None);
        fs::write(root.join(FILE), "").unwrap();
        assert_eq!(upwards(&inner.join("b")), Some(root.as_path()));
        fs::write(inner.join(FILE), "").unwrap();
        assert_eq!(upwards(&inner.join("b")), Some(inner.as_path()));
    }

    #[test]
    fn a_city_is_named_by_its_directory_or_its_file() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        assert!(at(&root).is_err());
        fs::write(root.join(FILE), "").unwrap();
        assert_eq!(at(&root).unwrap().root, root);
        assert_eq!(at(&root.join(FILE)).unwrap().root, root);
    }
}
