//! Repositories that ignore rules hide: clones, worktrees and what `git init` made.

use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::support::city::{City, toast};
use crate::support::git::{commit_all, git, write};

/// A sandbox that ignores two directories, all of it pushed, and where it can be cloned from.
fn ignoring() -> (City, PathBuf, String) {
    let city = City::with(|checkout| write(checkout, ".gitignore", ".trees/\nvendor/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let origin = format!("file://{}", city.repo.push_url().unwrap());
    (city, sandbox, origin)
}

/// Salvages Toast's sandbox and restores it; where that is.
fn restored(city: &City, sandbox: &Path) -> PathBuf {
    let saved = city.repo.salvage(sandbox, &toast(), Incarnation(1));
    let to = city.root().join("restored");
    city.repo.restore(&saved.unwrap(), &to).unwrap();
    to
}

/// A tag is as local as a branch, unless somebody pushed it.
#[test]
fn what_only_a_tag_names_is_not_saved_by_it() {
    let (city, sandbox, origin) = ignoring();
    git(&sandbox, &["clone", "-q", &origin, "vendor/library"]);
    git(&sandbox, &["init", "-q", "-b", "main", "vendor/own"]);
    let mut tagged = Vec::new();
    for name in ["vendor/library", "vendor/own"] {
        let dir = sandbox.join(name);
        write(&dir, "work", "mine\n");
        tagged.push((name, commit_all(&dir, "only here")));
        git(&dir, &["tag", "backup"]);
    }
    let holds = "unpushed commits: 1";
    assert_eq!(
        city.facts(&sandbox).special,
        [
            format!("ignored repository vendor/library: {holds}"),
            format!("ignored repository vendor/own: {holds}"),
        ]
    );
    let to = restored(&city, &sandbox);
    for (name, commit) in tagged {
        git(&to.join(name), &["cat-file", "-e", &commit]);
    }
}
