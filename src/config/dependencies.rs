//! The files that a configuration depends on: the directories to watch, and the changes there that matter. Agents write
//! into the city's directory, too.
//!
//! Every path is followed as it is written, through every link on the way, to its file or to the first missing part:
//!
//! ```text
//!  frag/*.toml ──► city/frag ──► (a link) ──► store/v1 ──► store/v1/*.toml
//!                  watched: city, store/v1                 and whatever comes to match
//! ```

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::include::{Level, has_wildcard};

/// The limit of links in a path: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The files that were looked for while a configuration was read, found or not.
#[derive(Debug, Default)]
pub(super) struct Sought {
    /// The patterns of `include`, and that of rituals.
    pub patterns: Vec<String>,
    /// Folders of automations.
    pub automations: Vec<PathBuf>,
    /// Files and directories.
    pub paths: Vec<PathBuf>,
}

/// The entries that a configuration depends on. All paths are canonical up to their last part.
pub struct Dependencies {
    root: PathBuf,
    dirs: BTreeSet<PathBuf>,
    /// The entries that were followed, also those that do not exist.
    entries: BTreeSet<PathBuf>,
    /// The patterns of entries that may appear in a directory.
    levels: Vec<(PathBuf, Level)>,
}

impl Dependencies {
    pub(super) fn new(root: &Path, sought: &Sought) -> Self {
        let mut deciding = Self {
            root: root.to_owned(),
            dirs: BTreeSet::new(),
            entries: BTreeSet::new(),
            levels: Vec::new(),
        };
        for path in &sought.paths {
            deciding.follow(root, &steps(path, false), MOST_LINKS);
        }
        for pattern in &sought.patterns {
            deciding.follow(root, &steps(Path::new(pattern), true), MOST_LINKS);
        }
        for folder in &sought.automations {
            let mut within = steps(folder, false);
            // Any file in there may be run by an automation.
            within.extend(steps(Path::new("*/*"), true));
            deciding.follow(root, &within, MOST_LINKS);
        }
        deciding
    }

    /// Returns the directories to watch.
    #[must_use]
    pub fn dirs(&self) -> Vec<PathBuf> {
        self.dirs.iter().cloned().collect()
    }

    /// Returns whether a change of this entry may change the configuration: it is one that matters, or a folder on the
    /// way.
    #[must_use]
    pub fn depends_on(&self, path: &Path) -> bool {
        let may_match = |(dir, level): &(PathBuf, Level)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.parent() == Some(dir) && level.matches(&name)
        };
        self.entries.contains(path) || self.dirs.contains(path) || self.levels.iter().any(may_match)
    }

    fn follow(&mut self, dir: &Path, steps: &[Step], links: usize) {
        let Some((step, rest)) = steps.split_first() else {
            return;
        };
        match (step.part.to_str(), step.wild) {
            (Some("/"), _) => self.follow(Path::new("/"), rest, links),
            (Some("."), _) => self.follow(dir, rest, links),
            (Some(".."), _) => self.follow(dir.parent().unwrap_or(dir), rest, links),
            (Some(part), true) => {
                // The reader reports the error in the pattern at its place.
                let Ok(level) = Level::new(part) else { return };
                let found = level.entries(dir);
                self.dirs.insert(dir.to_owned());
                self.levels.push((dir.to_owned(), level));
                for path in found {
                    self.enter(dir, path.file_name().unwrap_or_default(), rest, links);
                }
            }
            (_, _) => self.enter(dir, &step.part, rest, links),
        }
    }

    fn enter(&mut self, dir: &Path, name: &OsStr, rest: &[Step], links: usize) {
        let path = dir.join(name);
        self.entries.insert(path.clone());
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        // Outside the city, a directory is watched only for its files and links: its subdirectories on the way are
        // taken as permanent.
        if !is_dir || dir.starts_with(&self.root) {
            self.dirs.insert(dir.to_owned());
        }
        match fs::read_link(&path) {
            Ok(_) if links == 0 => {}
            Ok(target) => {
                let mut onward = steps(&target, false);
                onward.extend_from_slice(rest);
                self.follow(dir, &onward, links - 1);
            }
            Err(_) if is_dir => self.follow(&path, rest, links),
            Err(_) => {}
        }
    }
}

/// A part of a path.
#[derive(Clone)]
struct Step {
    part: OsString,
    wild: bool,
}

fn steps(path: &Path, may_be_wild: bool) -> Vec<Step> {
    let parts = path.components().map(|part| part.as_os_str().to_owned());
    let step = |part: OsString| Step {
        wild: may_be_wild && has_wildcard(&part.to_string_lossy()),
        part,
    };
    parts.map(step).collect()
}

#[cfg(test)]
mod tests;
