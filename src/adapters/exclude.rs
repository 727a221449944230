//! `info/exclude` of a git directory: the ignore rules that hold besides those in the work tree.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::beneath;

/// The file, below the git directory.
pub(crate) const FILE: &str = "info/exclude";
/// A longer one is not read.
const MOST: u64 = 1024 * 1024;

static ADDING: Mutex<()> = Mutex::new(());

/// Adds the rules that are not there yet. Where an agent put something else than a file, it is written anew.
///
/// # Errors
/// The file cannot be read or written.
pub(crate) fn add<'a>(git_dir: &Path, rules: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    // Two sessions of a repository may start at once.
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
