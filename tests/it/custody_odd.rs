//! Repositories inside a sandbox, directories that only look like one, and sandboxes that are no worktree any more: all
//! of them are files, and are restored as files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::custody_bytes::{comes_back, configure, disk};
use crate::support::city::{City, toast};
use crate::support::git::{commit_all, git, write};

/// Broken and empty repositories, and files named `.git`.
/// Case A09 of an adversary: a `.git` directory that is no repository, and a plain file named `.git`.
/// Case A09b of an adversary: a broken `.git` directory beside tracked files.
/// Case A09c of an adversary: a broken clone in a directory of its own.
/// Case A09d of an adversary: an empty `.git` directory.
#[test]
fn fake_repositories_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "fixtures/repo/.git/notes", "1\n");
    write(&sandbox, "f2/.git", "a plain file\n");
    write(&sandbox, "src/.git/config", "beside tracked files\n");
    fs::create_dir_all(sandbox.join("marker/.git")).unwrap();
    write(&sandbox, "marker/file", "1\n");
    git(&sandbox, &["init", "-q", "-b", "main", "broken"]);
    write(&sandbox.join("broken"), "code", "1\n");
    commit_all(&sandbox.join("broken"), "only here");
    fs::remove_file(sandbox.join("broken/.git/HEAD")).unwrap();
    fs::remove_file(sandbox.join("broken/code")).unwrap();
    let to = comes_back(&city, &sandbox);
    assert!(to.join("marker/.git").is_dir(), "an empty directory, too");
}

/// Bare repositories, and the copied `.git` file of a worktree.
/// Case A19 of an adversary: bare repositories inside, and a copied `.git` file.
/// Case A19b of an adversary: a repository with a separate git directory.
#[test]
fn odd_repositories_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    let origin = city.origin().display().to_string();
    git(&sandbox, &["clone", "-q", "--bare", &origin, "bare.git"]);
    fs::create_dir(sandbox.join("wt")).unwrap();
    fs::copy(sandbox.join(".git"), sandbox.join("wt/.git")).unwrap();
    let (gd, files) = (sandbox.join("gd"), sandbox.join("apart"));
    let separate = format!("--separate-git-dir={}", gd.display());
    git(
        &sandbox,
        &["init", "-q", &separate, &files.display().to_string()],
    );
    write(&files, "code", "1\n");
    commit_all(&files, "apart");
    comes_back(&city, &sandbox);
}

/// Repositories that ignore rules hide, at any depth, and inside of others.
/// Case A19b-ignored of an adversary: the same among ignored files.
/// Case A20 of an adversary: clones three levels below an ignored directory.
/// Case A21 of an adversary: a clone that an untracked repository ignores.
#[test]
fn repositories_among_ignored_files_come_back_from_any_depth() {
    let city = City::with(|checkout| write(checkout, ".gitignore", "target/\nbuild/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let make = |name: &str| {
        let dir = sandbox.join(name);
        fs::create_dir_all(&dir).unwrap();
        git(&dir, &["init", "-q", "-b", "main"]);
        write(&dir, "only-here", name);
        commit_all(&dir, name);
    };
    for name in [
        "target/two/x",
        "target/three/y/z",
        "target/a/b/c/d/e",
        "outer",
    ] {
        make(name);
    }
    write(&sandbox, "outer/.gitignore", "build/\n");
    make("outer/build/inner");
    let gd = sandbox.join("target/gd");
    let separate = format!("--separate-git-dir={}", gd.display());
    git(&sandbox, &["init", "-q", &separate, "target/apart"]);
    write(&sandbox, "target/apart/code", "1\n");
    commit_all(&sandbox.join("target/apart"), "apart");
    let modes = |of: &Path| {
        let dirs = ["target", "target/three/y/z"].map(|dir| of.join(dir));
        dirs.map(|dir| fs::metadata(dir).unwrap().permissions().mode())
    };
    let before = modes(&sandbox);
    assert_eq!(modes(&comes_back(&city, &sandbox)), before);
}

/// Only hidden repositories: they hold up nothing, and all of them are saved without being asked.
#[test]
fn repository_deep_among_ignored_files_holds_up_nothing() {
    let city = City::with(|checkout| write(checkout, ".gitignore", "target/\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let dir = sandbox.join("target/a/b/c/d/e");
    fs::create_dir_all(&dir).unwrap();
    git(&dir, &["init", "-q", "-b", "main"]);
    write(&dir, "only-here", "1\n");
    commit_all(&dir, "only here");
    let facts = city.facts(&sandbox);
    let line = "ignored repository target/a/b/c/d/e: unpushed commits: 1";
    assert_eq!(facts.other_work, [line]);
    assert!(facts.is_committed());
    comes_back(&city, &sandbox);
}

/// Directories that git refuses to look at.
/// Case A39 of an adversary: the administrative directory was removed.
/// Case A40 of an adversary: `git init` in the sandbox.
/// Case A41 of an adversary: `.git` is a link to another place.
/// Case A48 of an adversary: `core.worktree` leads away, and `core.bare` is set.
/// Case A49 of an adversary: garbage in the configuration of the repository.
#[test]
fn sandbox_that_is_no_worktree_any_more_comes_back() {
    type Break = (&'static str, fn(&City, &Path));
    let breaks: [Break; 8] = [
        ("admin gone", |city, _| {
            fs::remove_dir_all(city.repo.theirs().join("worktrees/Toast")).unwrap();
        }),
        ("git init", |_, sandbox| {
            fs::remove_file(sandbox.join(".git")).unwrap();
            git(sandbox, &["init", "-q", "-b", "main"]);
        }),
        ("link elsewhere", |city, sandbox| {
            fs::remove_file(sandbox.join(".git")).unwrap();
            symlink(city.checkout().join(".git"), sandbox.join(".git")).unwrap();
        }),
        ("bare with a work tree", |_, sandbox| {
            configure(
                sandbox,
                &[("core.bare", "false"), ("core.worktree", "/tmp")],
            );
        }),
        ("garbage in the configuration", |city, _| {
            fs::write(city.repo.theirs().join("config"), "[[[ no\n").unwrap();
        }),
        ("index is a pipe", |city, _| {
            pipe(&city.repo.theirs().join("worktrees/Toast/index"))
        }),
        ("HEAD is a pipe", |city, _| {
            pipe(&city.repo.theirs().join("worktrees/Toast/HEAD"))
        }),
        ("gitdir is a pipe", |city, _| {
            pipe(&city.repo.theirs().join("worktrees/Toast/gitdir"))
        }),
    ];
    for (what, break_it) in breaks {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "README", "edited\n");
        write(&sandbox, "new", "untracked\n");
        break_it(&city, &sandbox);
        let facts = city.repo.facts(&sandbox, "main");
        let facts = facts.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            facts.dirty.contains(&"README".to_owned()),
            "{what}: {facts:?}"
        );
        assert!(!facts.is_committed(), "{what}");
        let before = disk(&sandbox);
        let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        let saved = saved.unwrap_or_else(|error| panic!("{what}: {error}"));
        let to = city.root().join("restored");
        city.repo
            .restore(&saved, &to)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut after = disk(&to);
        after.retain(|name, _| !name.starts_with(b"found.git"));
        assert_eq!(after, before, "{what}");
    }
}

/// Nothing waits for a pipe.
/// Case A73 of an adversary: a pipe in the place of a file that git reads.
#[test]
fn pipes_in_special_places_are_not_waited_for() {
    for name in [".gitignore", ".gitattributes", "src/.gitignore"] {
        let city = City::new();
        let sandbox = city.sandbox();
        if sandbox.join(name).exists() {
            fs::remove_file(sandbox.join(name)).unwrap();
        }
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&sandbox.join(name), mode).unwrap();
        write(&sandbox, "new", "1\n");
        let began = Instant::now();
        let record = city.salvage(&sandbox);
        let to = city.restored(&record);
        assert_eq!(disk(&to), disk(&sandbox), "{name}");
        assert!(began.elapsed() < Duration::from_secs(30), "{name}");
    }
}

fn pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}
