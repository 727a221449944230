//! Finds a city, also if its configuration is broken.

use std::fs;
use std::path::{Path, PathBuf};

use super::document::Value;
use super::reader::Report;
use super::{DEFAULTS, sources};

/// The name of a city's file.
pub const FILE: &str = "city.toml";

/// Returns the nearest `city.toml` at or above a directory, except among files that agents work on.
#[must_use]
pub fn find_city(start: &Path) -> Option<PathBuf> {
    let is_city = |dir: &&Path| is_there(&dir.join(FILE)) && !is_agents(dir);
    let city = start.ancestors().find(is_city);
    city.map(|dir| dir.join(FILE))
}

/// Returns whether a directory lies in a sandbox or restored worktree of a city above it, or in that city's state
/// directory: an agent may have written its files.
fn is_agents(dir: &Path) -> bool {
    let mut above = dir.ancestors().skip(1);
    above.any(|city| is_there(&city.join(FILE)) && is_of_agents_of(city, dir))
}

fn is_of_agents_of(city: &Path, dir: &Path) -> bool {
    let below = dir.strip_prefix(city).unwrap_or(dir);
    let mut parts = below.iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(state), ..) if state == ".horde" => true,
        (Some(rig), Some(room), Some(_name)) => {
            let is_room = room == "raiders" || room == "restored";
            is_room && city.join(rig).join("repo.git").is_dir()
        }
        _ => false,
    }
}

/// Returns whether an entry of that name exists. If it is no file, the reader reports that: a running supervisor must
/// be reachable all the same.
fn is_there(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok()
}

/// Returns the canonical path of a city's file, given the file or its directory.
///
/// # Errors
/// There is no such file.
pub fn city_file(path: &Path) -> Result<PathBuf, String> {
    let is_file = path.file_name() == Some(FILE.as_ref()) && !is_there(&path.join(FILE));
    let file = if path.is_dir() && !is_file {
        path.join(FILE)
    } else {
        path.to_owned()
    };
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Only the directory is made canonical: the city is where its file is found, even if that file is a link to another
    // place.
    let found = fs::canonicalize(parent).map(|dir| dir.join(file.file_name().unwrap_or_default()));
    match found {
        Ok(found) if is_there(&found) => Ok(found),
        _ => Err(format!("there is no {}", file.display())),
    }
}

/// Returns the city's directory and its `[daemon] socket` as configured (empty when it is not). Other errors in the
/// configuration do not matter: a running supervisor must be reachable after a bad edit. None when there is no such
/// file.
#[must_use]
pub fn socket(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let file = city_file(path).ok()?;
    let root = file.parent()?;
    let merged = sources::read(DEFAULTS, &file, root, &Report::default());
    let daemon = merged.root.table()?.get("daemon");
    let socket = daemon.and_then(|entry| entry.node.table()?.get("socket"));
    let socket = match socket.map(|entry| &entry.node.value) {
        Some(Value::Text(socket)) => PathBuf::from(socket),
        _ => PathBuf::new(),
    };
    Some((root.to_owned(), socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let temp = crate::testing::scratch();
        let city = temp.path().join(std::ffi::OsStr::from_bytes(b"c\xff"));
        fs::create_dir(&city).unwrap();
        fs::write(city.join(FILE), "").unwrap();
        let env = crate::config::Env { home: None };
        let refused = crate::config::load(&city, &env).unwrap_err();
        let told = refused.render(false);
        assert!(told.contains("is not UTF-8"), "{told}");
    }

    #[test]
    fn city_toml_in_a_sandbox_is_no_city() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let make = |dir: &str| {
            fs::create_dir_all(root.join(dir)).unwrap();
            fs::write(root.join(dir).join(FILE), "").unwrap();
            root.join(dir)
        };
        let city = make("city");
        fs::create_dir_all(city.join("rig/repo.git")).unwrap();
        let of_agents = [
            "city/rig/raiders/Toast",
            "city/rig/raiders/Toast/examples/city",
            "city/rig/restored/s-1",
            "city/.horde/gates/rig",
        ];
        for dir in of_agents {
            let inside = make(dir).join("src");
            fs::create_dir(&inside).unwrap();
            assert_eq!(find_city(&inside), Some(city.join(FILE)), "{dir}");
        }
        let cities = [
            // No rig has this name.
            "city/other/raiders/Toast",
            "city/rig/inner",
            "city/inner",
            "elsewhere/rig/raiders/Toast",
        ];
        for dir in cities {
            let own = make(dir);
            assert_eq!(find_city(&own), Some(own.join(FILE)), "{dir}");
        }
    }
}
