//! The work trees of a repository, by the files of git.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::admin::stamp;
use super::bytes;
use super::command::{Git, READ_LIMIT};
use super::config_text;
use crate::adapters::link_walk::real;

/// The parts of a repository's configuration that say its main work tree.
#[derive(Debug, Clone, Default)]
pub(super) struct MainTree {
    /// The stamps of the files that it was read from; none if that failed.
    stamps: Option<[Option<String>; 2]>,
    is_bare: bool,
    /// `core.worktree`.
    set: Option<PathBuf>,
}

impl MainTree {
    /// Reads it; `known` where the files are the same, and where git cannot read them.
    fn read(common: &Path, known: Self) -> Self {
        let files = ["config", "config.worktree"].map(|name| common.join(name));
        let now = files.each_ref().map(|file| stamp(file));
        if known.stamps.as_ref() == Some(&now) {
            return known;
        }
        let mut read = Self {
            stamps: Some(now),
            ..Self::default()
        };
        let mut has_own = false;
        for (nth, file) in files.iter().enumerate() {
            // git reads the second file only where the first says so.
            if !file.exists() || nth > 0 && !has_own {
                continue;
            }
            let git = Git::in_dir(Path::new("/")).limit(READ_LIMIT);
            let git = git.args(["config", "--no-includes", "-z", "--file"]);
            let asked = git.arg(file).args([
                "--get-regexp",
                r"^(core\.(bare|worktree)|extensions\.worktreeconfig)$",
            ]);
            // 1 is: neither is set.
            let Some(output) = asked
                .output()
                .ok()
                .filter(|it| matches!(it.code, Some(0 | 1)))
            else {
                return known;
            };
            for (key, value) in config_text::listed(&output.stdout) {
                match (key.as_str(), value) {
                    ("core.worktree", Some(path)) => read.set = Some(common.join(path)),
                    ("core.bare", value) => read.is_bare = value.is_none_or(|it| is_true(&it)),
                    ("extensions.worktreeconfig", value) => {
                        has_own = value.is_none_or(|it| is_true(&it));
                    }
                    _ => {}
                }
            }
        }
        read
    }

    /// Returns the work tree; none of a bare repository, and of one in a directory of another name than `.git` that does not say it.
    fn tree(&self, common: &Path) -> Option<PathBuf> {
        let above = || common.ends_with(".git").then(|| common.parent()).flatten();
        match self.is_bare {
            true => None,
            false => self.set.clone().or_else(|| above().map(Path::to_owned)),
        }
    }
}

fn is_true(value: &str) -> bool {
    !["false", "no", "off", "0", ""].contains(&value.to_lowercase().as_str())
}

/// The work trees of a repository.
pub(super) struct Found {
    pub(super) trees: BTreeSet<PathBuf>,
    pub(super) main: MainTree,
    /// False if there may be more.
    pub(super) are_all: bool,
}

/// Finds the work trees of a repository, by the files of git. Those of a bare one are the linked ones. None if no repository is there.
pub(super) fn of(checkout: &Path, known: MainTree) -> Option<Found> {
    let link = checkout.join(".git");
    let own = match fs::read(&link) {
        Ok(text) => {
            let dir = text.strip_prefix(b"gitdir: ").unwrap_or_default();
            checkout.join(bytes::path(dir.trim_ascii_end()))
        }
        Err(_) if link.is_dir() => link,
        // The repository itself, which is bare.
        Err(error) if error.kind() == ErrorKind::NotFound && checkout.join("HEAD").exists() => {
            checkout.to_owned()
        }
        Err(_) => return None,
    };
    let linked = fs::read(own.join("commondir")).ok();
    let common = match &linked {
        Some(dir) => own.join(bytes::path(dir.trim_ascii_end())),
        None => own.clone(),
    };
    let common = real(&common);
    let main = MainTree::read(&common, known);
    let mut trees = BTreeSet::new();
    if linked.is_some() || own != checkout && !main.is_bare {
        trees.extend([checkout.to_owned(), real(checkout)]);
    }
    trees.extend(
        main.tree(&common)
            .iter()
            .flat_map(|main| [main.clone(), real(main)]),
    );
    let is_missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let entries = fs::read_dir(common.join("worktrees"));
    let (entries, mut are_all) = match entries.and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(entries) => (entries, true),
        Err(error) => (Vec::new(), is_missing(&error)),
    };
    for entry in entries {
        match fs::read(entry.path().join("gitdir")) {
            // A worktree may be half made.
            Ok(gitdir) if gitdir.trim_ascii().is_empty() => {}
            Ok(gitdir) => {
                let gitdir = entry.path().join(bytes::path(gitdir.trim_ascii_end()));
                trees.extend(gitdir.parent().map(real));
            }
            Err(error) => are_all &= is_missing(&error) || error.kind() == ErrorKind::NotADirectory,
        }
    }
    Some(Found {
        trees,
        main,
        are_all,
    })
}

#[cfg(test)]
mod tests {
    use super::super::checkouts::{look, note};
    use super::super::written::Written;
    use super::*;

    #[test]
    fn main_work_tree_is_what_the_configuration_says() {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        for (checkout, git_dir, config) in [
            ("bare-main", "project/.git", "[core]\n\tbare = true\n"),
            ("linked", "modules/sub", "[core]\n\tworktree = ../../sub\n"),
        ] {
            let own = at(git_dir).join("worktrees/own");
            fs::create_dir_all(&own).unwrap();
            fs::write(at(git_dir).join("config"), config).unwrap();
            fs::write(own.join("commondir"), "../..\n").unwrap();
            fs::create_dir(at(checkout)).unwrap();
            let link = format!("gitdir: {}\n", own.display());
            fs::write(at(checkout).join(".git"), link).unwrap();
            note(&at(checkout), &at("ours"));
            look(&at(checkout));
        }
        let written = Written::of(&at("city/rig"));
        assert!(!written.has(&at("project/hooks/pre-push")));
        assert!(written.has(&at("sub/.gitconfig")));
        // `git sparse-checkout` moves the setting.
        let config = at("modules/sub/config");
        fs::rename(&config, at("modules/sub/config.worktree")).unwrap();
        fs::write(&config, "").unwrap();
        look(&at("linked"));
        let has = || Written::of(&at("city/rig")).has(&at("sub/.gitconfig"));
        assert!(!has(), "git does not read it");
        fs::write(&config, "[extensions]\n\tworktreeConfig = true\n").unwrap();
        look(&at("linked"));
        assert!(has());
    }

    /// `git clone --bare URL project/.bare`, with a file `.git` that leads there.
    #[test]
    fn bare_repository_beside_its_work_trees_is_none_of_them() {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        fs::create_dir_all(at("project/.bare")).unwrap();
        fs::write(at("project/.bare/config"), "[core]\n\tbare = true\n").unwrap();
        fs::write(at("project/.git"), "gitdir: ./.bare\n").unwrap();
        note(&at("project"), &at("ours"));
        look(&at("project"));
        let has = |path: &str| Written::of(&at("city/rig")).has(&at(path));
        assert!(!has("project/.bare/config") && !has("project/.bare/hooks/pre-push"));
        // With a work tree, its files count, also while it is away.
        fs::write(at("project/.bare/config"), "[core]\n\tbare = false\n").unwrap();
        look(&at("project"));
        assert!(has("project/x"));
        fs::rename(at("project"), at("away")).unwrap();
        look(&at("project"));
        assert!(has("project/x"));
    }
}
