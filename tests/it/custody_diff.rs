//! The changes of a raider, as people read them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use horde_supervisor::domain::ids::Oid;
use horde_supervisor::domain::merge::LandStyle;
use horde_supervisor::domain::work_diff::{Diff, DiffSum};
use horde_supervisor::ports::repo::{PendingWork, Repo};

use crate::support::city::{City, snapshot};
use crate::support::git::{commit_all, git, rev, write};

fn paths(diff: &Diff) -> Vec<&str> {
    diff.files.iter().map(|file| file.path.as_str()).collect()
}

fn pending(head: &Oid) -> PendingWork {
    PendingWork {
        head: head.clone(),
        began: Vec::new(),
        target: "main".to_owned(),
        style: LandStyle::Rebase,
    }
}

/// The objects of the repository that the supervisor keeps.
fn objects(city: &City) -> impl PartialEq + std::fmt::Debug + use<> {
    snapshot(&city.repo.repo_dir().join("objects"))
}

/// Committed, uncommitted and untracked work is one patch; ignored files are no part of it, and the sandbox stays as it is.
#[test]
fn patch_has_all_work_of_a_sandbox_and_changes_nothing_in_it() {
    let city = City::new();
    let sandbox = city.sandbox();
    let base = rev(&sandbox, "HEAD");
    write(&sandbox, "committed", "one\ntwo\n");
    let head = commit_all(&sandbox, "one");
    write(&sandbox, "committed", "one\n2\n");
    write(&sandbox, "new dir/untracked", "u\n");
    fs::set_permissions(
        sandbox.join("new dir/untracked"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    symlink("committed", sandbox.join("link")).unwrap();
    fs::remove_file(sandbox.join("README")).unwrap();
    let before = snapshot(&sandbox);
    let diff = city.repo.diff_of_sandbox(&sandbox, "main").unwrap();
    assert_eq!(snapshot(&sandbox), before);
    assert_eq!(diff.base.as_ref().map(Oid::as_str), Some(&base[..]));
    assert_eq!(diff.head.as_ref().map(Oid::as_str), Some(&head[..]));
    assert_eq!(
        paths(&diff),
        ["README", "committed", "link", "new dir/untracked"]
    );
    for part in [
        "+one\n+2\n",
        "new file mode 120000",
        "new file mode 100755",
        "deleted file mode",
    ] {
        assert!(diff.text.contains(part), "{part}: {}", diff.text);
    }
    assert!(!diff.text.contains("two"), "{}", diff.text);
    assert!(!diff.is_cut);
}

/// A program that an agent names in its configuration or attributes does not run.
#[test]
fn no_program_of_the_sandbox_runs_for_a_patch() {
    let city = City::new();
    let sandbox = city.sandbox();
    let mark = city.root().join("ran");
    let program = format!("touch {}", mark.display());
    for key in [
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
        "core.fsmonitor",
        "core.pager",
    ] {
        git(&sandbox, &["config", key, &program]);
    }
    fs::write(sandbox.join(".gitattributes"), "* diff=x filter=x\n").unwrap();
    write(&sandbox, "file", "text\n");
    let diff = city.repo.diff_of_sandbox(&sandbox, "main").unwrap();
    assert!(diff.text.contains("+text\n"), "{}", diff.text);
    assert!(!mark.exists());
}

#[test]
fn patch_of_a_pushed_head_is_what_would_land_on_a_target_that_did_not_move() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "file", "1\n2\n");
    let head = Oid::new(commit_all(&sandbox, "one")).unwrap();
    city.push_work(&sandbox);
    write(&sandbox, "later", "not pushed\n");
    let diff = city.repo.diff_of_landing(&pending(&head)).unwrap();
    assert_eq!(paths(&diff), ["file"]);
    assert_eq!(diff.head, Some(head));
    let sum = DiffSum {
        files: 1,
        added: 2,
        removed: 0,
    };
    assert_eq!(diff.sum(), sum);
}

/// A reviewer was shown the branch, and not the merge that is asked about.
#[test]
fn patch_of_a_pushed_head_is_that_of_its_merge_with_the_present_target() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "changed\n");
    write(&sandbox, "both", "the same\n");
    let head = Oid::new(commit_all(&sandbox, "one")).unwrap();
    city.push_work(&sandbox);
    // Somebody moves the file that the branch changes, and adds the other one, too.
    let checkout = city.checkout();
    fs::create_dir(checkout.join("migrations")).unwrap();
    git(&checkout, &["mv", "README", "migrations/README"]);
    write(&checkout, "both", "the same\n");
    let tip = commit_all(&checkout, "moved");
    git(&checkout, &["push", "--quiet", "origin", "HEAD:main"]);
    city.repo.fetch_target("main").unwrap();
    let before = objects(&city);
    let diff = city.repo.diff_of_landing(&pending(&head)).unwrap();
    assert_eq!(paths(&diff), ["migrations/README"], "{}", diff.text);
    assert_eq!(diff.base.as_ref().map(Oid::as_str), Some(&tip[..]));
    let sum = city.repo.sum_of_landing(&pending(&head)).unwrap();
    assert_eq!(sum, diff.sum());
    let note = diff.note.unwrap();
    assert!(note.starts_with("what would land: "), "{note}");
    assert!(note.contains(&tip[..7]), "{note}");
    assert_eq!(objects(&city), before, "git merged it");
}

/// Each look would leave objects that nothing names, and people look often.
#[test]
fn patch_of_a_pushed_head_leaves_no_objects_in_the_repository() {
    let city = City::new();
    let sandbox = city.sandbox();
    for name in ["one", "two"] {
        write(&sandbox, name, "x\n");
        commit_all(&sandbox, name);
    }
    let head = Oid::new(rev(&sandbox, "HEAD")).unwrap();
    city.push_work(&sandbox);
    let checkout = city.checkout();
    write(&checkout, "other", "x\n");
    commit_all(&checkout, "other");
    git(&checkout, &["push", "--quiet", "origin", "HEAD:main"]);
    city.repo.fetch_target("main").unwrap();
    let before = objects(&city);
    let diff = city.repo.diff_of_landing(&pending(&head)).unwrap();
    assert_eq!(paths(&diff), ["one", "two"]);
    assert!(diff.note.unwrap().starts_with("what would land: "));
    assert_eq!(city.repo.sum_of_landing(&pending(&head)).unwrap().files, 2);
    assert_eq!(objects(&city), before);
}

#[test]
fn patch_of_work_that_cannot_be_merged_is_that_of_its_branch_and_says_so() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "mine\n");
    let head = Oid::new(commit_all(&sandbox, "one")).unwrap();
    city.push_work(&sandbox);
    let checkout = city.checkout();
    write(&checkout, "README", "theirs\n");
    write(&checkout, "other", "x\n");
    commit_all(&checkout, "two");
    git(&checkout, &["push", "--quiet", "origin", "HEAD:main"]);
    city.repo.fetch_target("main").unwrap();
    let diff = city.repo.diff_of_landing(&pending(&head)).unwrap();
    assert_eq!(paths(&diff), ["README"]);
    assert!(diff.text.contains("+mine"), "{}", diff.text);
    let note = diff.note.unwrap();
    assert!(note.contains("conflicts with main at "), "{note}");
    assert!(note.ends_with(" in README"), "{note}");
}

/// The answer has a bound, and what is missing is said.
#[test]
fn long_patch_is_cut_and_a_large_file_is_left_out() {
    let city = City::new();
    let sandbox = city.sandbox();
    let line = "a line of some length, many times\n";
    write(&sandbox, "long", line.repeat(200_000));
    write(&sandbox, "large", line.repeat(300_000));
    let diff = city.repo.diff_of_sandbox(&sandbox, "main").unwrap();
    assert!(diff.is_cut);
    assert!(diff.text.len() <= 4 << 20 && diff.text.ends_with('\n'));
    assert_eq!(diff.left_out, ["large"]);
    assert_eq!(paths(&diff), ["long"]);
}

/// Nothing is missing without a word: pipes, repositories inside, and names that git refuses are listed.
#[test]
fn what_cannot_be_compared_is_named() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "x/.GIT/config", "y\n");
    write(&sandbox, "good", "g\n");
    fs::create_dir(sandbox.join("inner")).unwrap();
    git(&sandbox.join("inner"), &["init", "--quiet"]);
    let diff = city.repo.diff_of_sandbox(&sandbox, "main").unwrap();
    assert_eq!(paths(&diff), ["good"]);
    for name in ["x/.GIT/config", "inner/"] {
        assert!(
            diff.left_out.iter().any(|path| path == name),
            "{name}: {:?}",
            diff.left_out
        );
    }
}
