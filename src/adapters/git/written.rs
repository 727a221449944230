//! The places of files that agents write: what they change in the work tree of a checkout lands there, or is pulled by a person. No
//! setting, filter or hook of the supervisor comes from such a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::checkouts::work_trees;
use super::rig_dirs;
use crate::adapters::link_walk::{on_the_way, real};
use crate::domain::plain_path::plain;

/// The places.
pub(super) struct Written {
    /// The city, named as it is and by its real path.
    cities: [PathBuf; 2],
    /// The directories of the rigs of this process.
    rigs: BTreeSet<PathBuf>,
    trees: BTreeSet<PathBuf>,
}

impl Written {
    /// Begins with the directory of a rig in its city. The work trees of all rigs' checkouts that were noted are among the places.
    pub(super) fn of(rig_dir: &Path) -> Self {
        let city = rig_dir.parent().unwrap_or(rig_dir);
        Self {
            cities: [city.to_owned(), real(city)],
            rigs: rig_dirs::all(),
            trees: work_trees(),
        }
    }

    /// Returns true for a file that agents write, for one that a link there leads to, and for one that would be there.
    pub(super) fn has(&self, file: &Path) -> bool {
        self.is_there(&plain(file)) || self.has_any(&on_the_way(file))
    }

    /// Returns true if one of these files is among the places, as it is written.
    pub(super) fn has_any(&self, files: &[PathBuf]) -> bool {
        files.iter().any(|file| self.is_there(file))
    }

    /// git writes nothing below a directory `.git` of a work tree. A git directory of another name is a directory like others.
    fn is_there(&self, file: &Path) -> bool {
        let mut inside = self
            .trees
            .iter()
            .filter_map(|tree| file.strip_prefix(tree).ok());
        inside.any(|rest| rest.iter().all(|name| name != ".git")) || self.is_of_a_rig(file)
    }

    /// Returns true for a file in a rig's directory, or in the supervisor's state. Agents have their files there.
    fn is_of_a_rig(&self, file: &Path) -> bool {
        self.cities.iter().any(|city| {
            let part = file
                .strip_prefix(city)
                .ok()
                .and_then(|rest| rest.iter().next());
            part.is_some_and(|part| {
                let mut ours = part.to_owned();
                ours.push(".git");
                let ours = city.join(".horde/custody").join(ours);
                let is_there = |dir: PathBuf| dir.symlink_metadata().is_ok();
                let is_rig = self.rigs.contains(&self.cities[0].join(part));
                // A former rig has both, as long as neither its directory nor this repository is removed. An agent can bring the second
                // one, and not the first.
                let was_rig = is_there(ours) && is_there(city.join(part).join("repo.git"));
                part == ".horde" || is_rig || was_rig
            })
        })
    }

    /// Returns the directories that programs and files of agents are in, for a look at a command.
    pub(super) fn dirs(&self) -> impl Iterator<Item = &Path> {
        let all = self.cities.iter().chain(&self.trees);
        all.map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::checkouts::{look, note};
    use super::super::rig_dirs::RigDir;
    use super::*;

    #[test]
    fn files_of_work_trees_and_rigs_count_and_those_of_git_and_of_the_user_do_not() {
        let dir = crate::testing::scratch();
        let at = |path: &str| dir.path().join(path);
        for made in [
            "code/.git/worktrees/other",
            "other/hooks",
            "city/.horde/custody/rig.git",
            "city/rig/repo.git",
            "city/.horde/custody/former.git",
            "city/former",
            "city/project/repo.git",
            "bare/worktrees/main",
            "bare/main",
            "city/.horde",
            "city/home",
        ] {
            fs::create_dir_all(at(made)).unwrap();
        }
        let gitdir = format!("{}\n", at("other/.git").display());
        fs::write(at("code/.git/worktrees/other/gitdir"), gitdir).unwrap();
        let gitdir = format!("{}\n", at("bare/main/.git").display());
        fs::write(at("bare/worktrees/main/gitdir"), gitdir).unwrap();
        symlink(at("code/settings"), at("city/home/.gitconfig")).unwrap();
        symlink("../outside", at("code/link")).unwrap();
        fs::write(at("bare/config"), "[core]\n\tbare\n").unwrap();
        fs::write(at("bare/HEAD"), "").unwrap();
        for checkout in ["code", "bare"] {
            note(&at(checkout), &at("ours"));
            look(&at(checkout));
        }
        let written = Written::of(&at("city/rig"));
        for file in [
            "code/.gitconfig",
            "code/not/there",
            "code/link",
            "code/.git/../x",
            "bare/main/hooks/pre-push",
            "other/hooks/pre-push",
            "city/rig/raiders/Toast/x",
            "city/.horde/tasks/x",
            "city/home/.gitconfig",
        ] {
            assert!(written.has(&at(file)), "{file}");
        }
        for file in [
            "code/.git/config",
            "bare/config",
            "bare/main/.git",
            "other/.git",
            "city/home/x",
            "outside",
            "city/city.toml",
            // An agent can bring a directory of that name.
            "city/project/.gitconfig",
            // The rig was removed, with its directory, and another checkout is there.
            "city/former/.gitconfig",
        ] {
            assert!(!written.has(&at(file)), "{file}");
        }
        assert!(!written.has(Path::new("")));
        // Agents can remove what is theirs.
        fs::remove_dir(at("city/rig/repo.git")).unwrap();
        assert!(!Written::of(&at("city/rig")).has(&at("city/rig/x")));
        let live = RigDir::note(at("city/rig"));
        assert!(Written::of(&at("city/other")).has(&at("city/rig/x")));
        drop(live);
        assert!(!Written::of(&at("city/rig")).has(&at("city/rig/x")));
    }

    /// An agent of one rig commits hooks for the other.
    #[test]
    fn git_directory_in_the_work_tree_of_another_rig_counts_unless_it_is_named_as_git_names_it() {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        fs::create_dir_all(at("code/.git")).unwrap();
        fs::create_dir_all(at("code/mirrors/bare.git")).unwrap();
        fs::write(at("code/mirrors/bare.git/HEAD"), "").unwrap();
        for checkout in ["code", "code/mirrors/bare.git"] {
            note(&at(checkout), &at("ours"));
            look(&at(checkout));
        }
        let written = Written::of(&at("city/rig"));
        assert!(written.has(&at("code/mirrors/bare.git/hooks/pre-push")));
        assert!(!written.has(&at("code/vendor/x/.git/hooks/pre-push")));
    }
}
