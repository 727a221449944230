//! `info/exclude` of a git directory: the ignore rules in addition to those in the work tree.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::beneath;

/// The path of the file, below the git directory.
pub(crate) const FILE: &str = "info/exclude";
/// The largest file that is read.
const MOST: u64 = 1024 * 1024;

static ADDING: Mutex<()> = Mutex::new(());

/// Adds the rules that are missing. Replaces anything but a file that an agent put in its place.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn add<'a>(git_dir: &Path, rules: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    // Two sessions of a repository may start at the same time.
    let _alone = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = Path::new(FILE);
    let mut text = match beneath::read_text(git_dir, name, MOST) {
        Err(error) if beneath::is_odd(&error) => String::new(),
        text => text?.unwrap_or_default(),
    };
    let before = text.len();
    for rule in rules {
        if text.lines().any(|have| have == rule) {
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(rule);
        text.push('\n');
    }
    if text.len() == before {
        return Ok(());
    }
    beneath::make_dir_anew(git_dir, Path::new("info"))?;
    beneath::replace_durably(git_dir, name, text.as_bytes())
}
