//! Finding a city, also one whose configuration is broken.

use std::fs;
use std::path::{Path, PathBuf};

use super::document::Value;
use super::reader::Report;
use super::{DEFAULTS, sources};

/// The name of a city's file.
pub const FILE: &str = "city.toml";

/// The nearest `city.toml` at or above a directory.
#[must_use]
pub fn find_city(start: &Path) -> Option<PathBuf> {
    let candidates = start.ancestors().map(|dir| dir.join(FILE));
    candidates.into_iter().find(|file| is_there(file))
}

/// Whether something has that name. What is no file is said when it is read: a running supervisor is to be
/// reachable all the same.
fn is_there(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok()
}

/// The canonical path of a city's file, given it or its directory.
///
/// # Errors
/// There is none.
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
    // Only the directory is made canonical: the city is where its file is found, also when that
    // file is a link to somewhere else.
    let found = fs::canonicalize(parent).map(|dir| dir.join(file.file_name().unwrap_or_default()));
    match found {
        Ok(found) if is_there(&found) => Ok(found),
        _ => Err(format!("there is no {}", file.display())),
    }
}

/// The city's directory and its `[daemon] socket` as configured (empty when it is not), whatever
/// else is wrong with the configuration: a running supervisor must be reachable after a bad edit.
/// None when there is no such file.
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
