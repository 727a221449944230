//! Outcome files whose name git has somewhere: a file in the place of the link may be git's then, whatever its bytes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use horde_supervisor::ports::repo::{Committed, Repo};

use crate::custody_committed::{NAME, committed, of};
use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, write};

/// An act in a city with a sandbox, and whether it brings a file of the name to git.
type Act = (&'static str, fn(&City, &Path), bool);

/// Asserts what a text counts for after each of these acts, in a city of its own.
fn assert_named(acts: &[Act]) {
    for (what, act, is_named) in acts {
        let city = City::new();
        let sandbox = city.sandbox();
        act(&city, &sandbox);
        let expected = match is_named {
            true => Committed::Known,
            false => Committed::No,
        };
        assert_eq!(of(&city, "passed anew"), expected, "{what}");
    }
}

/// Filters, encodings, line ends and keywords are configured in a dozen places, and give a file bytes that git does not have.
/// git writes a file of this name only from an entry of this name.
#[test]
fn file_of_a_name_that_a_history_has_is_not_taken_for_the_sessions() {
    assert_named(&[
        ("nothing", |_, _| (), false),
        (
            "attributes without an entry",
            |_, sandbox| {
                let list = format!("{NAME} filter=rot working-tree-encoding=UTF-16\n");
                write(sandbox, ".gitattributes", list);
                commit_all(sandbox, "attributes");
            },
            false,
        ),
        (
            "a branch of the remote",
            |city, sandbox| {
                git(&city.checkout(), &["checkout", "-q", "-b", "side"]);
                committed(&city.checkout());
                git(&city.checkout(), &["push", "-q", "origin", "side"]);
                git(sandbox, &["fetch", "-q", "origin"]);
            },
            true,
        ),
        (
            "a commit that only the reflog names",
            |_, sandbox| {
                committed(sandbox);
                git(sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
            },
            true,
        ),
        (
            "a second parent that a merge left out",
            |_, sandbox| {
                git(sandbox, &["checkout", "-q", "--detach"]);
                committed(sandbox);
                let side = rev(sandbox, "HEAD");
                git(sandbox, &["checkout", "-q", "raider/Toast/gt-1-1"]);
                git(sandbox, &["merge", "-q", "-s", "ours", "--no-edit", &side]);
            },
            true,
        ),
    ]);
}

#[test]
fn file_of_a_name_that_a_stash_or_an_unknown_history_has_is_not_taken_for_the_sessions() {
    assert_named(&[
        (
            "a stash entry with the link",
            |_, sandbox| {
                write(sandbox, "README", "one");
                git(sandbox, &["stash", "push", "-q", "--all"]);
            },
            false,
        ),
        (
            "an older stash entry",
            |_, sandbox| {
                drop(fs::remove_file(sandbox.join(NAME)));
                write(sandbox, NAME, "stuck");
                for text in ["one", "two"] {
                    write(sandbox, "README", text);
                    git(sandbox, &["stash", "push", "-q", "--all"]);
                }
            },
            true,
        ),
        (
            "a history of which only a part was fetched",
            |city, sandbox| {
                let fork = city.root().join("fork");
                git(&city.root(), &["clone", "-q", "checkout", "fork"]);
                for text in ["one", "two"] {
                    write(&fork, "README", text);
                    commit_all(&fork, text);
                }
                let url = format!("file://{}", fork.display());
                let branch = "main:refs/remotes/fork/main";
                git(sandbox, &["fetch", "-q", "--depth=1", &url, branch]);
            },
            true,
        ),
    ]);
}

/// No ref and no reflog of the session has them.
#[test]
fn file_of_a_name_that_only_a_file_of_git_names_is_not_taken_for_the_sessions() {
    assert_named(&[
        (
            "a commit that was fetched without a ref",
            |city, sandbox| {
                git(&city.root(), &["clone", "-q", "checkout", "fork"]);
                let fork = city.root().join("fork");
                committed(&fork);
                let url = fork.display().to_string();
                git(sandbox, &["fetch", "-q", &url, "HEAD"]);
            },
            true,
        ),
        (
            "a detached HEAD of another raider",
            |city, _| {
                let spec = city.spec_of("Nux", 2);
                city.repo.make_sandbox(&spec).unwrap();
                git(&spec.path, &["checkout", "-q", "--detach"]);
                committed(&spec.path);
                let entry = git(&spec.path, &["rev-parse", "--absolute-git-dir"]);
                fs::remove_dir_all(Path::new(&entry).join("logs")).unwrap();
            },
            true,
        ),
        (
            "a reflog of a branch of any name that an agent closed",
            |_, sandbox| {
                git(sandbox, &["checkout", "-q", "-b", "index"]);
                committed(sandbox);
                git(sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
                git(sandbox, &["checkout", "-q", "raider/Toast/gt-1-1"]);
                let entry = git(sandbox, &["rev-parse", "--absolute-git-dir"]);
                fs::remove_dir_all(Path::new(&entry).join("logs")).unwrap();
                let common = git(
                    sandbox,
                    &["rev-parse", "--path-format=absolute", "--git-common-dir"],
                );
                let logs = Path::new(&common).join("logs/refs/heads");
                fs::set_permissions(logs, fs::Permissions::from_mode(0o000)).unwrap();
            },
            true,
        ),
        (
            "a link in the place of a worktree entry",
            |city, _| {
                let fork = city.root().join("fork");
                git(&city.root(), &["clone", "-q", "checkout", "fork"]);
                committed(&fork);
                let entry = city.root().join("city/horde/repo.git/worktrees/x");
                symlink(fork.join(".git"), entry).unwrap();
            },
            false,
        ),
    ]);
}

/// A tag of a tree is in no history, and a ref of one worktree is in no list of refs.
#[test]
fn file_of_a_name_that_a_tree_or_a_worktrees_own_ref_has_is_not_taken_for_the_sessions() {
    assert_named(&[
        (
            "a ref of one worktree",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                let commit = git(sandbox, &["commit-tree", "-m", "x", &tree]);
                git(sandbox, &["update-ref", "refs/worktree/mine", &commit]);
            },
            true,
        ),
        (
            "a tag that names a tree",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                git(sandbox, &["tag", "light", &tree]);
            },
            true,
        ),
        (
            "an annotated tag that names a tree",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                git(sandbox, &["tag", "-a", "-m", "x", "heavy", &tree]);
            },
            true,
        ),
        (
            "a ref of another kind",
            |_, sandbox| {
                let tree = tree_with_outcome(sandbox);
                let commit = git(sandbox, &["commit-tree", "-m", "x", &tree]);
                git(sandbox, &["update-ref", "mine", &commit]);
            },
            true,
        ),
        (
            "an annotated tag of a commit whose file of the name is a link",
            |_, sandbox| {
                git(sandbox, &["checkout", "-q", "--detach"]);
                git(sandbox, &["add", "-f", NAME]);
                git(sandbox, &["commit", "-qm", "a link"]);
                git(sandbox, &["tag", "-a", "-m", "x", "v1"]);
                git(sandbox, &["checkout", "-q", "raider/Toast/gt-1-1"]);
            },
            false,
        ),
        (
            "a tag that names another tree",
            |_, sandbox| {
                git(sandbox, &["tag", "light", "HEAD^{tree}"]);
            },
            false,
        ),
    ]);
}

/// A search goes on from what the last one has looked at.
#[test]
fn file_of_a_name_that_git_gets_after_a_search_is_found_by_the_next() {
    let city = City::new();
    let sandbox = city.sandbox();
    assert_eq!(of(&city, "passed anew"), Committed::No);
    write(&sandbox, "README", "work\n");
    commit_all(&sandbox, "work");
    assert_eq!(of(&city, "passed anew"), Committed::No);
    committed(&sandbox);
    git(&sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(of(&city, "passed anew"), Committed::Known);
    write(&sandbox, "README", "more\n");
    commit_all(&sandbox, "more");
    assert_eq!(of(&city, "passed anew"), Committed::Known);
}

/// The object was only a name at the first search: a person's note about it was in a reflog before it was fetched.
#[test]
fn file_of_a_name_in_a_commit_that_was_missing_at_the_last_search_is_found() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(&city.root(), &["clone", "-q", "checkout", "fork"]);
    let fork = city.root().join("fork");
    committed(&fork);
    let missing = rev(&fork, "HEAD");
    write(&fork, "README", "later\n");
    git(&fork, &["rm", "-q", "--cached", NAME]);
    git(&fork, &["commit", "-qam", "later"]);
    let message = format!("backport of {missing}");
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", &message]);
    assert_eq!(of(&city, "passed anew"), Committed::No);
    git(
        &sandbox,
        &["fetch", "-q", &fork.display().to_string(), "HEAD"],
    );
    assert_eq!(of(&city, "passed anew"), Committed::Known);
}

/// Writes a tree with an outcome file, and returns its id.
fn tree_with_outcome(sandbox: &Path) -> String {
    write(sandbox, "passed", "passed");
    let blob = git(sandbox, &["hash-object", "-w", "passed"]);
    fs::remove_file(sandbox.join("passed")).unwrap();
    let index = sandbox.join("../tree-index");
    let with = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        let git = git.current_dir(sandbox).env("GIT_INDEX_FILE", &index);
        let made = git.args(args).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    with(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("100644,{blob},{NAME}"),
    ]);
    let tree = with(&["write-tree"]);
    fs::remove_file(index).unwrap();
    tree
}
