//! A walk along a path and its links, to a place that may not exist. The system's own way (`realpath`) needs the place to be there,
//! and tells nothing of the links.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The number of links that are followed, as by the system.
const LINKS_MAX: usize = 40;

/// A walk. Each step goes to the next name; the caller decides about each link that is found there.
pub(super) struct LinkWalk {
    at: PathBuf,
    /// The rest of the path and of the links that were followed: the last one is next.
    open: Vec<PathBuf>,
    followed: usize,
}

impl LinkWalk {
    /// Begins in a directory.
    pub(super) fn from(dir: &Path, path: &Path) -> Self {
        Self {
            at: dir.to_owned(),
            open: vec![path.to_owned()],
            followed: 0,
        }
    }

    /// Goes to the next name, and returns the place; none at the end of the path.
    pub(super) fn step(&mut self) -> Option<&Path> {
        while let Some(path) = self.open.pop() {
            let mut rest = path.components();
            let Some(part) = rest.next() else { continue };
            self.open.push(rest.as_path().to_owned());
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(self.at.pop()),
                Component::RootDir | Component::Prefix(_) => self.at = PathBuf::from("/"),
                Component::Normal(name) => {
                    self.at.push(name);
                    return Some(&self.at);
                }
            }
        }
        None
    }

    /// Follows the link at the place of the last step. Returns false if no link is there, or too many were followed.
    pub(super) fn follow(&mut self) -> bool {
        if self.followed == LINKS_MAX {
            return false;
        }
        let Ok(target) = fs::read_link(&self.at) else {
            return false;
        };
        self.followed += 1;
        self.at.pop();
        self.open.push(target);
        true
    }

    /// Returns the place that was reached.
    pub(super) fn place(self) -> PathBuf {
        self.at
    }
}

/// Follows the links of a path, to a place that may not exist.
pub(super) fn real(path: &Path) -> PathBuf {
    on_the_way(path).pop().unwrap_or_default()
}

/// Returns the links on the way to a file, and the place that it leads to.
pub(super) fn on_the_way(file: &Path) -> Vec<PathBuf> {
    let (mut walk, mut names) = (LinkWalk::from(Path::new("/"), file), Vec::new());
    while let Some(place) = walk.step() {
        let place = place.to_owned();
        if walk.follow() {
            names.push(place);
        }
    }
    names.push(walk.place());
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn end(dir: &Path, path: &str) -> PathBuf {
        let mut walk = LinkWalk::from(dir, Path::new(path));
        while walk.step().is_some() {
            walk.follow();
        }
        walk.place()
    }

    #[test]
    fn links_are_followed_as_by_the_system_and_to_places_that_do_not_exist() {
        let scratch = crate::testing::scratch();
        let dir = scratch.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        symlink("a/b", dir.join("down")).unwrap();
        symlink(dir.join("down"), dir.join("again")).unwrap();
        symlink("round", dir.join("round")).unwrap();
        for (path, place) in [
            ("a/./b/../b", "a/b"),
            ("again", "a/b"),
            ("again/../x", "a/x"),
            ("down/none/x", "a/b/none/x"),
            ("round/x", "round/x"),
        ] {
            assert_eq!(end(&dir, path), dir.join(place), "{path}");
            assert_eq!(
                end(Path::new("/x"), dir.join(path).to_str().unwrap()),
                dir.join(place)
            );
        }
    }

    #[test]
    fn link_that_is_not_followed_is_passed_as_a_name() {
        let scratch = crate::testing::scratch();
        let dir = scratch.path();
        symlink("elsewhere", dir.join("link")).unwrap();
        let mut walk = LinkWalk::from(dir, Path::new("link/x"));
        let mut places = Vec::new();
        while let Some(place) = walk.step() {
            places.push(place.to_owned());
        }
        assert_eq!(places, [dir.join("link"), dir.join("link/x")]);
        assert_eq!(walk.place(), dir.join("link/x"));
    }
}
