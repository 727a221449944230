//! Tests that a landing in a person's checkout that is interrupted or fails is taken back, and nothing of the person's with it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Rigged;
use super::checkout::{lands, persons, text};
use crate::adapters::git::checkout::{Unfinished, look, recover, turn};
use crate::adapters::git::command::Git;
use crate::adapters::git::land::land;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Returns the files of landings beside the index.
fn leftovers(rig: &Rigged) -> Vec<String> {
    let listed = fs::read_dir(rig.origin().join(".git")).unwrap();
    let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("horde-landing") || name.ends_with(".lock"))
        .collect()
}

fn landing_file(rig: &Rigged, end: &str) -> PathBuf {
    let mut found = leftovers(rig);
    found.retain(|name| name.ends_with(end));
    assert_eq!(found.len(), 1, "{found:?}");
    rig.origin().join(".git").join(&found[0])
}

/// Makes a lock as old as one that its git left behind.
fn old_lock(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    age(path, 90);
}

fn age(path: &Path, seconds: u64) {
    let file = File::options().append(true).open(path).unwrap();
    let at = SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(at).unwrap();
}

/// Returns the only record of a landing.
pub(super) fn record(rig: &Rigged) -> PathBuf {
    let dir = rig.repo.repo_dir().join("horde/landings");
    let mut listed = fs::read_dir(dir).unwrap();
    listed.next().unwrap().unwrap().path()
}

/// Writes a landing as git does, in part: the files, and then the index.
pub(super) fn half_landed(rig: &Rigged, new: &Oid, with_index: bool) {
    rig.foreign_push("brought", new);
    half_landed_from(rig, &rig.base, new, with_index);
}

pub(super) fn half_landed_from(rig: &Rigged, old: &Oid, new: &Oid, with_index: bool) {
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (old, new)).unwrap();
    let index = begun.copy_index_for_git().unwrap();
    begun.keep_index().unwrap();
    Git::in_dir(&rig.origin())
        .env("GIT_INDEX_FILE", index)
        .args(["read-tree", "-m", "-u", old.as_str(), new.as_str()])
        .run()
        .unwrap();
    if with_index {
        begun.use_index().unwrap();
    }
}

/// The supervisor was killed while git wrote: the person was told to commit the changes, which would have been the landing's.
#[test]
fn files_of_an_interrupted_landing_are_taken_back() {
    for with_index in [true, false] {
        let rig = Rigged::local();
        let first = rig.commit(&rig.base, &[("gone", "g\n"), ("dir/x", "x\n")]);
        lands(&rig, &first);
        let new = rig.commit(
            &first,
            &[("gone", ""), ("file", "landed\n"), ("new/a", "a\n")],
        );
        let rig = Rigged {
            base: first.clone(),
            ..rig
        };
        half_landed(&rig, &new, with_index);
        assert!(
            !persons(&rig, &["commit", "-qam", "x"]).ok(),
            "it is locked"
        );
        look(&rig.repo, "main", None).unwrap();
        assert_eq!(
            rig.in_origin(&["status", "--porcelain"]),
            "",
            "{with_index}"
        );
        assert_eq!(text(rig.origin().join("gone")), "g\n");
        assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
        assert!(!rig.origin().join("new").exists());
        lands(&rig, &new);
        lands(&rig, &new);
        assert_eq!(text(rig.origin().join("new/a")), "a\n");
    }
}

#[test]
fn file_that_a_person_changed_after_an_interrupted_landing_stays() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("more", "m\n")]);
    half_landed(&rig, &new, false);
    fs::write(rig.origin().join("more"), "mine\n").unwrap();
    fs::write(rig.origin().join("file"), "landed and mine\n").unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(text(rig.origin().join("more")), "mine\n");
    assert_eq!(text(rig.origin().join("file")), "landed and mine\n");
}

/// The branch moved, and the supervisor was killed before it noted that.
#[test]
fn landing_whose_branch_moved_is_not_taken_back() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("more", "m\n")]);
    lands(&rig, &new);
    rig.in_origin(&["reset", "-q", "--hard", rig.base.as_str()]);
    half_landed(&rig, &new, true);
    fs::write(
        rig.origin().join(".git/refs/heads/main"),
        format!("{new}\n"),
    )
    .unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(text(rig.origin().join("more")), "m\n");
}

/// An object of git-lfs that is missing stops the filter in the middle of the files.
#[test]
fn landing_whose_files_cannot_be_written_is_taken_back() {
    let rig = Rigged::local();
    fs::write(
        rig.origin().join(".git/info/attributes"),
        "*.big filter=x\n",
    )
    .unwrap();
    for (key, value) in [
        ("filter.x.smudge", "false"),
        ("filter.x.clean", "cat"),
        ("filter.x.required", "true"),
    ] {
        rig.in_origin(&["config", key, value]);
    }
    let files = [
        ("a", "a\n"),
        ("file", "landed\n"),
        ("m.big", "b\n"),
        ("z", "z\n"),
    ];
    let new = rig.commit(&rig.base, &files);
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(error, RepoError::Failed(_)), "{error}");
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(rig.at("main"), Some(rig.base.clone()));
    rig.in_origin(&["config", "filter.x.smudge", "cat"]);
    lands(&rig, &new);
}

/// Links, modes, and files that become directories and the reverse are taken back like others.
#[test]
fn kinds_of_files_are_taken_back_as_they_were() {
    let rig = Rigged::local();
    let origin = rig.origin();
    std::os::unix::fs::symlink("file", origin.join("link")).unwrap();
    fs::create_dir(origin.join("d")).unwrap();
    fs::write(origin.join("d/in"), "in\n").unwrap();
    fs::write(origin.join("f"), "f\n").unwrap();
    rig.in_origin(&["add", "-A"]);
    assert!(persons(&rig, &["commit", "-qm", "kinds"]).ok());
    let old = rig.at("main").unwrap();
    fs::remove_file(origin.join("link")).unwrap();
    std::os::unix::fs::symlink("elsewhere", origin.join("link")).unwrap();
    fs::remove_dir_all(origin.join("d")).unwrap();
    fs::write(origin.join("d"), "a file\n").unwrap();
    fs::remove_file(origin.join("f")).unwrap();
    fs::create_dir(origin.join("f")).unwrap();
    fs::write(origin.join("f/in"), "in\n").unwrap();
    rig.in_origin(&["add", "-A"]);
    rig.in_origin(&["checkout", "-q", "-b", "other"]);
    assert!(persons(&rig, &["commit", "-qm", "kinds"]).ok());
    let new = rig.at("other").unwrap();
    rig.in_origin(&["checkout", "-q", "main"]);
    rig.repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    for with_index in [true, false] {
        half_landed_from(&rig, &old, &new, with_index);
        recover(&rig.repo).unwrap();
        assert_eq!(
            rig.in_origin(&["status", "--porcelain"]),
            "",
            "{with_index}"
        );
        assert_eq!(
            fs::read_link(origin.join("link")).unwrap().to_str(),
            Some("file")
        );
        assert_eq!(text(origin.join("d/in")), "in\n");
        assert_eq!(text(origin.join("f")), "f\n");
    }
    land(&rig.repo, "main", &old, &new).unwrap();
    assert_eq!(text(origin.join("f/in")), "in\n");
}

/// The person followed git's advice after a crash, and went on.
#[test]
fn nothing_is_taken_back_where_the_person_removed_the_lock() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("more", "m\n")]);
    half_landed(&rig, &new, true);
    fs::remove_file(rig.origin().join(".git/index.lock")).unwrap();
    fs::write(rig.origin().join("mine"), "mine\n").unwrap();
    rig.in_origin(&["add", "-A"]);
    let staged = rig.in_origin(&["status", "--porcelain"]);
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), staged);
    recover(&rig.repo).unwrap();
}

/// A reload prepares the rig while it lands.
#[test]
fn landing_under_way_is_not_taken_back() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    let turn = turn(&rig.repo).unwrap();
    half_landed(&rig, &new, true);
    let refused = recover(&rig.repo).unwrap_err();
    assert!(
        matches!(refused, RepoError::CheckoutBusy { .. }),
        "{refused}"
    );
    drop(turn);
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
}

/// git left its lock of the landing's index, as after a power failure, and the files were taken back in part.
#[test]
fn taking_back_can_be_repeated() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("more", "m\n")]);
    half_landed(&rig, &new, true);
    let git_dir = rig.origin().join(".git");
    let before = landing_file(&rig, ".before");
    fs::write(before.with_extension("index.lock"), "").unwrap();
    fs::copy(before, git_dir.join("x")).unwrap();
    fs::rename(git_dir.join("x"), git_dir.join("index")).unwrap();
    fs::remove_file(rig.origin().join("more")).unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(leftovers(&rig), [""; 0]);
    lands(&rig, &new);
}

/// git was killed together with the supervisor, and had left its locks: no commit of the person was possible.
#[test]
fn locks_that_the_git_of_a_landing_left_are_removed_and_no_other() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    age(&record(&rig), 100);
    let git_dir = rig.origin().join(".git");
    let reftable = git_dir.join("reftable/tables.list.lock");
    fs::create_dir(reftable.parent().unwrap()).unwrap();
    old_lock(&reftable, "");
    let (head, branch) = (
        git_dir.join("HEAD.lock"),
        git_dir.join("refs/heads/main.lock"),
    );
    old_lock(&head, "");
    old_lock(&branch, "of another process");
    let refused = recover(&rig.repo).unwrap_err();
    assert!(
        matches!(refused, RepoError::CheckoutBusy { .. }),
        "{refused}"
    );
    assert!(!head.exists() && branch.exists());
    old_lock(&branch, &format!("{new}\n"));
    recover(&rig.repo).unwrap();
    assert_eq!(leftovers(&rig), [""; 0]);
    assert!(!branch.exists() && !reftable.exists());
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert!(persons(&rig, &["commit", "-q", "--allow-empty", "-m", "x"]).ok());
}

/// A lock that is fresh may be one of a program that works there.
#[test]
fn fresh_lock_of_head_is_waited_for() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    let head = rig.origin().join(".git/HEAD.lock");
    fs::write(&head, "").unwrap();
    let refused = recover(&rig.repo).unwrap_err();
    assert!(
        matches!(refused, RepoError::CheckoutBusy { .. }),
        "{refused}"
    );
    assert!(head.exists());
    fs::remove_file(&head).unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
}

/// The supervisor was killed before the lock had its content.
#[test]
fn lock_that_is_empty_is_the_landings_only_before_it_writes() {
    for (lock_age, has_written, is_own) in
        [(90, false, true), (200, false, false), (90, true, false)]
    {
        let rig = Rigged::local();
        let new = rig.commit(&rig.base, &[("file", "landed\n")]);
        if has_written {
            half_landed(&rig, &new, true);
        } else {
            Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, &new)).unwrap();
        }
        age(&record(&rig), 100);
        let lock = rig.origin().join(".git/index.lock");
        fs::write(&lock, "").unwrap();
        age(&lock, lock_age);
        recover(&rig.repo).unwrap();
        assert_eq!(lock.exists(), !is_own);
        let status = rig.in_origin(&["status", "--porcelain"]);
        assert_eq!(
            status.is_empty(),
            !has_written,
            "nothing of the person's was touched"
        );
    }
}

/// The index of a landing that was interrupted days ago had taken the place of the present one.
#[test]
fn copy_of_the_index_of_an_earlier_landing_is_never_used() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &first, true);
    let git_dir = rig.origin().join(".git");
    let (stale, kept) = (landing_file(&rig, ".before"), rig.path("kept"));
    fs::copy(&stale, &kept).unwrap();
    fs::remove_file(git_dir.join("index.lock")).unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(leftovers(&rig), [""; 0]);
    fs::copy(&kept, &stale).unwrap();
    assert!(persons(&rig, &["commit", "-qam", "mine"]).ok());
    let old = rig.at("main").unwrap();
    rig.repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    let new = rig.commit(&old, &[("more", "m\n")]);
    rig.foreign_push("brought", &new);
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&old, &new));
    drop(begun.unwrap());
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
}

/// A failure of git is no answer.
#[test]
fn landing_stays_recorded_while_head_cannot_be_read() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    let branch = rig.origin().join(".git/refs/heads/main");
    fs::write(&branch, "no commit\n").unwrap();
    recover(&rig.repo).unwrap_err();
    assert_eq!(text(rig.origin().join("file")), "landed\n");
    fs::write(&branch, format!("{}\n", rig.base)).unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
}

/// git unquotes the names that it reads line by line; one had stopped the taking back of all.
#[test]
fn files_with_unusual_names_are_taken_back() {
    let rig = Rigged::local();
    let names = ["\"quoted", "new\nline", "back\\slash", "ü"];
    let old: Vec<_> = names.iter().map(|name| (*name, "old\n")).collect();
    let first = rig.commit(&rig.base, &old);
    lands(&rig, &first);
    let landed: Vec<_> = names.iter().map(|name| (*name, "landed\n")).collect();
    let new = rig.commit(&first, &landed);
    rig.foreign_push("brought", &new);
    half_landed_from(&rig, &first, &new, true);
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    for name in names {
        assert_eq!(text(rig.origin().join(name)), "old\n", "{name:?}");
    }
}

/// `git checkout-index` would have made a directory in the place of the link.
#[test]
fn link_that_a_person_put_in_the_place_of_a_directory_stays() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("d/in", "in\n")]);
    lands(&rig, &first);
    let new = rig.commit(&first, &[("d/in", "landed\n")]);
    rig.foreign_push("brought", &new);
    half_landed_from(&rig, &first, &new, true);
    fs::create_dir(rig.path("elsewhere")).unwrap();
    let dir = rig.origin().join("d");
    fs::rename(&dir, rig.path("away")).unwrap();
    symlink(rig.path("elsewhere"), &dir).unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(fs::read_link(&dir).unwrap(), rig.path("elsewhere"));
}

/// git had told the person to remove it, and something was staged since.
#[test]
fn index_is_not_replaced_when_the_person_removed_the_lock() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    rig.foreign_push("brought", &new);
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, &new)).unwrap();
    begun.copy_index_for_git().unwrap();
    fs::remove_file(rig.origin().join(".git/index.lock")).unwrap();
    fs::write(rig.origin().join("mine"), "m\n").unwrap();
    rig.in_origin(&["add", "mine"]);
    let refused = begun.use_index().unwrap_err();
    assert!(
        matches!(refused, RepoError::CheckoutBusy { .. }),
        "{refused}"
    );
    begun.end().unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "A  mine");
    assert_eq!(leftovers(&rig), [""; 0]);
}

#[test]
fn record_that_cannot_be_read_stops_no_landing() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    let record = record(&rig);
    fs::write(&record, "{").unwrap();
    recover(&rig.repo).unwrap();
    let name = record.file_name().unwrap().display();
    let aside = format!("horde/landing-unreadable-{name}");
    assert!(rig.repo.repo_dir().join(aside).exists());
}

/// The disk was full: git had stopped in the middle of one file, and an attempt to take back in the middle of another.
#[test]
fn files_that_were_written_in_part_are_taken_back() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("gone", "gone\n"), ("changed", "old old\n")]);
    lands(&rig, &first);
    let files = [("gone", ""), ("changed", "new new\n"), ("added", "added\n")];
    let new = rig.commit(&first, &files);
    rig.foreign_push("brought", &new);
    half_landed_from(&rig, &first, &new, true);
    for (name, part) in [("gone", ""), ("changed", "new"), ("added", "ad")] {
        fs::write(rig.origin().join(name), part).unwrap();
    }
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(text(rig.origin().join("gone")), "gone\n");
    assert!(!rig.origin().join("added").exists());
}

/// git had found another content in the files as soon as the attributes were taken back.
#[test]
fn files_of_a_landing_that_brings_attributes_are_taken_back() {
    let rig = Rigged::local();
    let files = [
        (".gitattributes", "*.txt text eol=crlf\n"),
        ("a.txt", "a\nb\n"),
    ];
    let first = rig.commit(&rig.base, &[("a.txt", "a\n")]);
    lands(&rig, &first);
    let new = rig.commit(&first, &files);
    rig.foreign_push("brought", &new);
    half_landed_from(&rig, &first, &new, true);
    assert_eq!(text(rig.origin().join("a.txt")), "a\r\nb\r\n");
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(text(rig.origin().join("a.txt")), "a\n");
}
