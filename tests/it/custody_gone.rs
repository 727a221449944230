//! A sandbox whose directory was deleted: the facts that git still has of it are reported, saved, and restored.

use std::fs;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::facts::GitFacts;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::support::city::{City, toast};
use crate::support::git::{commit_all, git, rev, write};

/// Returns the facts that git still has of it.
fn remains(city: &City, sandbox: &Path) -> Option<GitFacts> {
    city.repo.remains(sandbox, "main").unwrap()
}

/// Deletes the directory, and returns the remaining facts.
fn delete(city: &City, sandbox: &Path) -> GitFacts {
    let link = city.repo.theirs().join("worktrees/Toast/gitdir");
    let before = fs::read(&link).unwrap();
    fs::remove_dir_all(sandbox).unwrap();
    let left = remains(city, sandbox).unwrap();
    assert_eq!(fs::read(link).unwrap(), before, "it still says whose it is");
    left
}

/// Salvages the sandbox, forgets it, and restores it.
fn restored(city: &City, sandbox: &Path) -> PathBuf {
    let record = city.salvage(sandbox);
    let again = city.salvage(sandbox);
    assert_eq!(again, record, "once");
    city.repo
        .forget_sandbox(sandbox, &toast(), Incarnation(1))
        .unwrap();
    assert!(remains(city, sandbox).is_none());
    let bare = city.repo.theirs();
    fs::remove_dir_all(bare.join("horde/retired")).unwrap();
    git(city.repo.repo_dir(), &["gc", "--quiet", "--prune=now"]);
    git(bare, &["gc", "--quiet", "--prune=now"]);
    city.restored(&record)
}

#[test]
fn staged_files_are_reported_and_saved() {
    let city = City::new();
    let sandbox = city.sandbox();
    assert_eq!(remains(&city, &sandbox), None, "it is there");
    write(&sandbox, "README", "staged\n");
    write(&sandbox, "new", "staged, too\n");
    git(&sandbox, &["add", "README", "new"]);
    write(&sandbox, "README", "edited after\n");
    write(&sandbox, "loose", "untracked\n");
    let left = delete(&city, &sandbox);
    assert_eq!(left.dirty, ["README", "new"]);
    assert!(left.untracked.is_empty() && left.other_work.is_empty());
    assert!(city.repo.salvage_size(&sandbox).unwrap() < 100);
    let to = restored(&city, &sandbox);
    assert_eq!(fs::read_to_string(to.join("README")).unwrap(), "staged\n");
    assert_eq!(git(&to, &["status", "--short"]), "M  README\nA  new");
}

/// HEAD's reflog is beside the index; so are the repositories of submodules.
#[test]
fn commits_only_in_its_administrative_directory_are_saved() {
    let city = City::new();
    let library = city.root().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "--quiet", "-b", "main"]);
    write(&library, "code", "1\n");
    commit_all(&library, "library");
    let sandbox = city.sandbox();
    write(&sandbox, "README", "first try\n");
    let lost = commit_all(&sandbox, "first try");
    git(&sandbox, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let url = library.display().to_string();
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &url,
        "lib",
    ];
    git(&sandbox, &add);
    write(&sandbox.join("lib"), "code", "mine\n");
    let inner = commit_all(&sandbox.join("lib"), "only here");
    git(&sandbox, &["reset", "--quiet", "--hard"]);
    let left = delete(&city, &sandbox);
    assert!(left.is_committed() && !left.is_clean(), "{left:?}");
    let told = format!("{:?}", left.other_work);
    assert!(
        told.contains(&lost[..10]) && told.contains(".git/modules/lib"),
        "{told}"
    );
    let to = restored(&city, &sandbox);
    assert!(git(&to, &["reflog"]).contains("first try"));
    let admin = git(&to, &["rev-parse", "--absolute-git-dir"]);
    let own = format!("--git-dir={admin}/modules/lib");
    git(&to, &[&own, "cat-file", "-e", &inner]);
}

/// A conflict and its operation: a repair would show both again.
#[test]
fn an_operation_in_progress_is_told_and_saved() {
    let city = City::new();
    let sandbox = city.sandbox();
    for (branch, text) in [("theirs", "theirs\n"), ("mine", "mine\n")] {
        git(
            &sandbox,
            &["checkout", "--quiet", "-B", branch, "origin/main"],
        );
        write(&sandbox, "README", text);
        commit_all(&sandbox, branch);
    }
    let picked = crate::support::git::try_git(&sandbox, &["cherry-pick", "theirs"]);
    assert!(!picked.status.success(), "a conflict");
    let left = delete(&city, &sandbox);
    assert!(!left.is_committed());
    assert_eq!(left.other_work[0], "a cherry-pick in progress");
    let to = restored(&city, &sandbox);
    assert_eq!(
        rev(&to, "CHERRY_PICK_HEAD"),
        rev(&to, "CHERRY_PICK_HEAD^{commit}")
    );
    assert_eq!(git(&to, &["ls-files", "--unmerged"]).lines().count(), 3);
}

/// A detached HEAD without work of its own is forgotten.
#[test]
fn detached_head_without_own_work_is_forgotten() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "loose", "went with the directory\n");
    git(&sandbox, &["checkout", "--quiet", "--detach"]);
    assert!(delete(&city, &sandbox).is_clean());
    city.repo.repair_sandbox(&city.spec(1)).unwrap();
    assert_eq!(remains(&city, &sandbox), None);
    assert!(city.facts(&sandbox).dirty.is_empty());
}

/// A sandbox that was never filled has no index, and no session ran in it.
#[test]
fn sandbox_that_was_never_filled_leaves_nothing() {
    let city = City::new();
    let sandbox = city.sandbox();
    let admin = city.repo.theirs().join("worktrees/Toast");
    let note = fs::read_to_string(city.repo.repo_dir().join("horde/notes/Toast.json")).unwrap();
    let unfilled = note.replace(r#""complete":true"#, r#""complete":false"#);
    assert_ne!(unfilled, note);
    fs::write(
        city.repo.repo_dir().join("horde/notes/Toast.json"),
        unfilled,
    )
    .unwrap();
    fs::remove_file(admin.join("index")).unwrap();
    fs::remove_dir_all(&sandbox).unwrap();
    assert_eq!(remains(&city, &sandbox), None);
    assert_eq!(city.repo.salvage_size(&sandbox), Ok(0));
}

/// A machine that crashes leaves such files; a repair makes them whole.
#[test]
fn a_damaged_entry_cannot_be_read_until_it_is_repaired() {
    let city = City::new();
    let sandbox = city.sandbox();
    let admin = city.repo.theirs().join("worktrees/Toast");
    for file in ["HEAD", "index"] {
        fs::remove_dir_all(&sandbox).unwrap();
        fs::write(admin.join(file), "").unwrap();
        let left = city.repo.remains(&sandbox, "main");
        assert!(left.is_err(), "{file}: {left:?}");
        city.repo.repair_sandbox(&city.spec(1)).unwrap();
        assert!(city.facts(&sandbox).dirty.is_empty());
    }
}
