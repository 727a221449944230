//! Salvage and restore: a restored sandbox equals the original.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::{Repo, RepoError, SalvageRecord};

use crate::support::city::{City, snapshot, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Returns the index with stages and flags, as bytes.
pub fn index(dir: &Path) -> Vec<u8> {
    try_git(dir, &["ls-files", "-s", "-v", "-z"]).stdout
}

fn status(dir: &Path) -> String {
    let args = ["status", "--porcelain=v2", "--untracked-files=all"];
    git(dir, &args)
}

/// Salvages the sandbox, restores it, and compares everything.
pub fn roundtrip(city: &City, sandbox: &Path, name: &str) -> (SalvageRecord, PathBuf) {
    let facts = city.facts(sandbox);
    let files = snapshot(sandbox);
    let entries = index(sandbox);
    let head = try_git(sandbox, &["rev-parse", "HEAD"]).stdout;
    let slot = sandbox.file_name().unwrap().to_string_lossy();
    let raider = format!("horde/raiders/{slot}").parse().unwrap();
    let record = city
        .repo
        .salvage(sandbox, &raider, Incarnation(1))
        .expect("salvaged");
    assert_eq!(city.facts(sandbox), facts, "salvage changed the sandbox");
    assert_eq!(snapshot(sandbox), files, "salvage changed files");
    let to = city.root().join("restored").join(name);
    city.repo.restore(&record, &to).expect("restored");
    assert_eq!(snapshot(&to), files, "files differ");
    assert_eq!(index(&to), entries, "the index differs");
    assert_eq!(
        try_git(&to, &["rev-parse", "HEAD"]).stdout,
        head,
        "HEAD differs"
    );
    assert_eq!(status(&to), status(sandbox), "the status differs");
    (record, to)
}

#[test]
fn dirty_staged_deleted_renamed_and_untracked_files_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "edited\n");
    write(&sandbox, "src/a.txt", "staged\n");
    git(&sandbox, &["add", "src/a.txt"]);
    write(&sandbox, "src/a.txt", "staged, then edited\n");
    fs::remove_file(sandbox.join("src/b.txt")).unwrap();
    git(&sandbox, &["mv", "src/deep/c.txt", "src/deep/d.txt"]);
    fs::set_permissions(sandbox.join("README"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("nowhere/at all", sandbox.join("link")).unwrap();
    write(&sandbox, "new/file", "new\n");
    write(&sandbox, "staged-new", "1\n");
    git(&sandbox, &["add", "staged-new"]);
    fs::remove_file(sandbox.join("staged-new")).unwrap();
    git(&sandbox, &["rm", "--quiet", "--cached", "run.sh"]);
    write(&sandbox, "build.ignored", "big");
    let (record, _) = roundtrip(&city, &sandbox, "a");
    assert_eq!(record.id, "horde-Toast-1");
    assert_eq!(record.ignored, ["build.ignored"]);
    assert!(record.bytes > 0);
}

#[test]
fn odd_names_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    let names: [&[u8]; 8] = [
        b"with space",
        b"new\nline",
        b"tab\tand \"quotes\"",
        b"-dash",
        b"back\\slash",
        b"not utf-8 \xff\xfe",
        b":(glob)*",
        b"d/\xc3\xa4\x01",
    ];
    for name in names {
        let path = sandbox.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name).unwrap();
    }
    git(&sandbox, &["add", "--", "with space"]);
    let facts = city.facts(&sandbox);
    assert_eq!(facts.untracked.len(), 7, "{:?}", facts.untracked);
    roundtrip(&city, &sandbox, "a");
}

#[test]
fn a_file_and_a_directory_that_changed_places_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    fs::remove_file(sandbox.join("README")).unwrap();
    write(&sandbox, "README/now/a/directory", "1\n");
    fs::remove_dir_all(sandbox.join("src")).unwrap();
    write(&sandbox, "src", "now a file\n");
    fs::remove_file(sandbox.join("run.sh")).unwrap();
    symlink("README", sandbox.join("run.sh")).unwrap();
    roundtrip(&city, &sandbox, "a");
}

#[test]
fn stash_entries_are_kept_and_named() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "stashed\n");
    write(&sandbox, "untracked", "stashed too\n");
    git(
        &sandbox,
        &["stash", "push", "--include-untracked", "-m", "half done"],
    );
    let stash = rev(&sandbox, "stash@{0}");
    let facts = city.facts(&sandbox);
    assert_eq!(facts.stashes, ["On raider/Toast/gt-1-1: half done"]);
    let (record, _) = roundtrip(&city, &sandbox, "a");
    let kept = record
        .refs
        .iter()
        .find(|name| name.ends_with("/stash-0"))
        .expect("a ref");
    assert_eq!(rev(city.repo.repo_dir(), kept), stash);
    // The stash is this raider's alone.
    let other = city.spec_of("Nux", 1);
    city.repo.make_sandbox(&other).unwrap();
    assert_eq!(city.facts(&other.path).stashes, Vec::<String>::new());
}

#[test]
fn a_detached_head_with_commits_comes_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(&sandbox, &["checkout", "--quiet", "--detach"]);
    write(&sandbox, "README", "detached\n");
    let head = commit_all(&sandbox, "detached");
    let facts = city.facts(&sandbox);
    assert!(!facts.head_reachable && facts.branch.is_none());
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line.contains("detached"))
    );
    let (record, to) = roundtrip(&city, &sandbox, "a");
    assert_eq!(rev(&to, "HEAD"), head);
    assert!(record.refs[0].ends_with("/head"));
}

/// Makes a commit on the branch and one on `main` that change the same line.
fn conflict(city: &City, sandbox: &Path) {
    write(sandbox, "src/a.txt", "a1\nmine\na3\n");
    commit_all(sandbox, "mine");
    let checkout = city.checkout();
    write(&checkout, "src/a.txt", "a1\ntheirs\na3\n");
    commit_all(&checkout, "theirs");
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    git(sandbox, &["fetch", "--quiet", "origin"]);
}

#[test]
fn a_rebase_that_stopped_goes_on_after_a_restore() {
    let city = City::new();
    let sandbox = city.sandbox();
    conflict(&city, &sandbox);
    let stopped = try_git(&sandbox, &["rebase", "origin/main"]);
    assert!(!stopped.status.success());
    let facts = city.facts(&sandbox);
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line == "a rebase in progress"),
        "{facts:?}"
    );
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line == "unresolved conflicts: 1")
    );
    let (_, to) = roundtrip(&city, &sandbox, "a");
    write(&to, "src/a.txt", "a1\nboth\na3\n");
    git(&to, &["add", "src/a.txt"]);
    git(&to, &["update-ref", "-d", "refs/heads/raider/Toast/none"]);
    git(&to, &["rebase", "--continue"]);
    assert_eq!(git(&to, &["show", "HEAD:src/a.txt"]), "a1\nboth\na3");
    assert_eq!(git(&to, &["log", "-1", "--format=%s"]), "mine");
}

#[test]
fn a_merge_conflict_comes_back_with_all_stages() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(&sandbox, &["rm", "--quiet", "src/b.txt"]);
    git(&sandbox, &["commit", "--quiet", "-m", "gone"]);
    conflict(&city, &sandbox);
    assert!(
        !try_git(&sandbox, &["merge", "origin/main"])
            .status
            .success()
    );
    write(&sandbox, "src/a.txt", "half <<<< resolved\n");
    let (_, to) = roundtrip(&city, &sandbox, "a");
    let unmerged = git(&to, &["ls-files", "-u"]);
    assert_eq!(unmerged.lines().count(), 3, "{unmerged}");
    git(&to, &["add", "src/a.txt"]);
    git(&to, &["commit", "--quiet", "--no-edit"]);
    assert_eq!(
        git(&to, &["log", "-1", "--format=%p"]).split(' ').count(),
        2
    );
}

#[test]
fn an_autostash_of_a_stopped_rebase_is_kept() {
    let city = City::new();
    let sandbox = city.sandbox();
    conflict(&city, &sandbox);
    write(&sandbox, "README", "put aside\n");
    assert!(
        !try_git(&sandbox, &["rebase", "--autostash", "origin/main"])
            .status
            .success()
    );
    let (record, to) = roundtrip(&city, &sandbox, "a");
    git(&to, &["checkout", "--theirs", "src/a.txt"]);
    git(&to, &["add", "src/a.txt"]);
    git(&to, &["rebase", "--continue"]);
    assert_eq!(
        fs::read_to_string(to.join("README")).unwrap(),
        "put aside\n"
    );
    // Even if the repository forgets everything but the salvage.
    let meta = record
        .refs
        .iter()
        .find(|name| name.ends_with("/meta"))
        .unwrap();
    let autostash = fs::read_to_string(git_dir(&sandbox).join("rebase-merge/autostash")).unwrap();
    git(
        city.repo.repo_dir(),
        &["merge-base", "--is-ancestor", autostash.trim(), meta],
    );
}

fn git_dir(dir: &Path) -> PathBuf {
    git(dir, &["rev-parse", "--absolute-git-dir"]).into()
}

#[test]
fn a_nested_repository_is_one_again() {
    let city = City::new();
    let sandbox = city.sandbox();
    let nested = sandbox.join("tools/inner");
    fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "--quiet", "-b", "main"]);
    write(&nested, "code", "1\n");
    let commit = commit_all(&nested, "inner");
    write(&nested, "code", "2\n");
    git(&nested, &["stash"]);
    write(&nested, "code", "3\n");
    write(&nested, "loose", "4\n");
    // A repository that git does not show, because its directory holds tracked files.
    git(&sandbox.join("src"), &["init", "--quiet", "-b", "main"]);
    write(&sandbox, "src/a.txt", "in both\n");
    commit_all(&sandbox.join("src"), "hidden");
    let facts = city.facts(&sandbox);
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line.contains("nested repository tools/inner"))
    );
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line.contains("nested repository src"))
    );
    let (_, to) = roundtrip(&city, &sandbox, "a");
    let nested = to.join("tools/inner");
    assert_eq!(rev(&nested, "HEAD"), commit);
    assert_eq!(git(&nested, &["show", "stash@{0}:code"]), "2");
    assert_eq!(git(&nested, &["status", "--short"]), " M code\n?? loose");
    assert_eq!(git(&to.join("src"), &["log", "--format=%s"]), "hidden");
    git(&nested, &["fsck", "--strict"]);
}

#[test]
fn restored_submodule_is_a_submodule_again() {
    let city = City::new();
    let library = city.root().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "--quiet", "-b", "main"]);
    write(&library, "lib", "1\n");
    commit_all(&library, "library");
    let sandbox = city.sandbox();
    let local = ["-c", "protocol.file.allow=always"];
    let url = library.display().to_string();
    git(
        &sandbox,
        &[
            local[0],
            local[1],
            "submodule",
            "--quiet",
            "add",
            &url,
            "lib",
        ],
    );
    git(&sandbox, &["commit", "--quiet", "-m", "with a library"]);
    let clean = city.facts(&sandbox);
    assert!(clean.is_clean(), "{clean:?}");
    write(&sandbox.join("lib"), "lib", "2\n");
    let commit = commit_all(&sandbox.join("lib"), "only here");
    write(&sandbox.join("lib"), "lib", "3\n");
    let facts = city.facts(&sandbox);
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line.starts_with("submodule lib:")),
        "{facts:?}"
    );
    let (_, to) = roundtrip(&city, &sandbox, "a");
    assert_eq!(rev(&to.join("lib"), "HEAD"), commit);
    assert_eq!(git(&to.join("lib"), &["status", "--short"]), " M lib");
    // A clean submodule with a commit that exists nowhere else.
    git(&sandbox.join("lib"), &["checkout", "--quiet", "lib"]);
    git(&sandbox, &["commit", "--quiet", "-am", "newer library"]);
    let facts = city.facts(&sandbox);
    assert!(facts.dirty.is_empty());
    assert_eq!(facts.other_work, ["submodule lib: unpushed commits: 1"]);
    roundtrip(&city, &sandbox, "b");
}

#[test]
fn edits_behind_skip_worktree_and_assume_unchanged_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    git(
        &sandbox,
        &["update-index", "--skip-worktree", "README", "run.sh"],
    );
    git(
        &sandbox,
        &[
            "update-index",
            "--assume-unchanged",
            "src/a.txt",
            "src/b.txt",
        ],
    );
    assert!(city.facts(&sandbox).is_clean());
    write(&sandbox, "README", "hidden\n");
    fs::remove_file(sandbox.join("run.sh")).unwrap();
    write(&sandbox, "src/a.txt", "hidden\n");
    assert_eq!(git(&sandbox, &["status", "--short"]), "");
    let facts = city.facts(&sandbox);
    assert_eq!(facts.dirty, ["README", "src/a.txt"]);
    assert!(!facts.is_clean());
    roundtrip(&city, &sandbox, "a");
}

#[test]
fn commits_that_only_the_reflog_names_are_kept() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "first try\n");
    let lost = commit_all(&sandbox, "first try");
    git(&sandbox, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let facts = city.facts(&sandbox);
    assert!(facts.head_reachable);
    assert_eq!(
        facts.other_work,
        [format!("only this sandbox references {}", &lost[..10])]
    );
    assert!(facts.is_committed() && !facts.is_clean());
    let (record, to) = roundtrip(&city, &sandbox, "a");
    let kept = record
        .refs
        .iter()
        .find(|name| name.ends_with("/reflog-0"))
        .expect("a ref");
    assert_eq!(rev(city.repo.repo_dir(), kept), lost);
    assert!(git(&to, &["reflog"]).contains("first try"));
}

#[test]
fn promised_files_and_an_orphan_branch_come_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "promised", "1\n");
    git(&sandbox, &["add", "-N", "promised"]);
    roundtrip(&city, &sandbox, "a");
    git(&sandbox, &["checkout", "--quiet", "--orphan", "fresh"]);
    write(&sandbox, "only here", "1\n");
    let facts = city.facts(&sandbox);
    assert!(
        facts
            .other_work
            .iter()
            .any(|line| line.contains("without commits"))
    );
    let (record, _) = roundtrip(&city, &sandbox, "b");
    assert_eq!(record.id, "horde-Toast-1.2");
}

#[test]
fn line_endings_come_back_byte_for_byte() {
    let city = City::with(|checkout| {
        git(checkout, &["config", "core.autocrlf", "true"]);
        write(checkout, "crlf.txt", "one\r\ntwo\r\n");
        write(
            checkout,
            ".gitattributes",
            "*.up filter=up -text\n*.id ident\n",
        );
        write(checkout, "x.up", "abc\n");
        write(checkout, "y.id", "$Id$\n");
        git(checkout, &["config", "filter.up.clean", "tr a-z A-Z"]);
        git(checkout, &["config", "filter.up.smudge", "tr A-Z a-z"]);
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    assert_eq!(
        fs::read(sandbox.join("crlf.txt")).unwrap(),
        b"one\r\ntwo\r\n"
    );
    assert_eq!(fs::read(sandbox.join("x.up")).unwrap(), b"abc\n");
    assert!(city.facts(&sandbox).is_clean());
    write(&sandbox, "crlf.txt", "one\r\nmixed\ntwo\r\n");
    write(&sandbox, "new.txt", "a\r\nb\n");
    write(&sandbox, "new.up", "MiXeD\n");
    write(&sandbox, "x.up", "MIXed\n");
    // git takes the file for unchanged, although its bytes differ.
    write(&sandbox, "README", "hello\n");
    git(&sandbox, &["add", "README"]);
    assert!(!city.facts(&sandbox).dirty.contains(&"README".to_owned()));
    roundtrip(&city, &sandbox, "a");
}

#[test]
fn the_same_state_is_saved_once_and_another_state_again() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "edited");
    let save = || city.salvage(&sandbox);
    let first = save();
    assert_eq!(save(), first);
    assert_eq!(first.bytes, "edited".len() as u64);
    write(&sandbox, "README", "2\n");
    let second = save();
    assert_eq!(second.id, "horde-Toast-1.2");
    assert!(second.refs.iter().all(|name| !first.refs.contains(name)));
    let to = city.root().join("restored/first");
    city.repo.restore(&first, &to).unwrap();
    assert_eq!(fs::read_to_string(to.join("README")).unwrap(), "edited");
    let again = city.repo.restore(&first, &to).unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
}

#[test]
fn salvage_of_nothing_is_not_found() {
    let city = City::new();
    let gone = city.root().join("city/horde/raiders/Toast");
    let error = city
        .repo
        .salvage(&gone, &toast(), Incarnation(1))
        .unwrap_err();
    assert!(matches!(error, RepoError::NotFound(_)), "{error}");
}
