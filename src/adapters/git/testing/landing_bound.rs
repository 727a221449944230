//! Tests of the bound between what git wrote for a landing and what a person wrote after it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::Rigged;
use super::checkout::{lands, text};
use super::landing_recovery::{half_landed, record};
use crate::adapters::git::checkout::{Unfinished, recover};
use crate::adapters::git::command::Git;
use crate::adapters::git::land::land;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;
use crate::testing::poll::poll;
use crate::testing::program;
use crate::testing::tier::sampled;

/// Lets the clock of the files go on for more than the seconds in which a killed git may have begun another file.
fn long_after(dir: &Path) {
    let seconds = || {
        let probe = dir.join("clock");
        File::create(&probe).unwrap();
        fs::metadata(&probe).unwrap().ctime()
    };
    let (began, limit) = (seconds(), Duration::from_secs(30));
    poll(limit, || (seconds() > began + 3).then_some(())).unwrap();
}

/// Begins a landing whose files git has written; the index is kept as before.
fn written(rig: &Rigged, new: &Oid) -> Unfinished {
    rig.foreign_push("brought", new);
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, new)).unwrap();
    let index = begun.copy_index_for_git().unwrap();
    begun.keep_index().unwrap();
    Git::in_dir(&rig.origin())
        .env("GIT_INDEX_FILE", index)
        .args(["read-tree", "-m", "-u", rig.base.as_str(), new.as_str()])
        .run()
        .unwrap();
    begun
}

/// On a full disk git goes on with empty files, each after a filter that may be slow.
#[test]
fn file_that_git_emptied_long_after_the_last_whole_one_is_restored_and_a_later_one_of_the_person_stays()
 {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("other", "o\n")]);
    let begun = written(&rig, &new);
    let file = rig.origin().join("file");
    long_after(&rig.path(""));
    fs::write(&file, "").unwrap();
    begun.writing().ended().unwrap();
    long_after(&rig.path(""));
    let other = rig.origin().join("other");
    fs::write(&other, "").unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(text(file), "1\n2\n3\n");
    assert_eq!(text(other), "", "the person emptied it");
}

/// With `text=auto` git finds another content in a file with CRLF than it wrote there.
#[test]
fn whole_file_whose_content_git_reads_in_another_way_is_taken_back_at_any_time() {
    let rig = Rigged::local();
    let attributes = rig.origin().join(".git/info/attributes");
    fs::write(attributes, "*.txt text=auto\n").unwrap();
    let files = [("a.txt", "landed\r\n"), ("file", "landed\n")];
    let new = rig.commit(&rig.base, &files);
    let begun = written(&rig, &new);
    long_after(&rig.path(""));
    let late = rig.origin().join("a.txt");
    fs::write(&late, "landed\r\n").unwrap();
    drop(begun);
    recover(&rig.repo).unwrap();
    assert!(!late.exists());
    assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
}

/// git had refused before it wrote a file: an empty one is the person's.
#[test]
fn landing_that_git_refused_takes_nothing_back() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("added", "a\n")]);
    rig.foreign_push("brought", &new);
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, &new)).unwrap();
    begun.copy_index_for_git().unwrap();
    begun.keep_index().unwrap();
    fs::write(rig.origin().join("added"), "").unwrap();
    begun.wrote_nothing().unwrap();
    begun.take_back().unwrap();
    assert!(rig.origin().join("added").exists());
}

/// The person removed the lock, and HEAD is on a branch without a commit: the record ends all the same.
#[test]
fn landing_without_its_lock_ends_where_git_finds_no_head() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    let record = record(&rig);
    fs::remove_file(rig.origin().join(".git/index.lock")).unwrap();
    rig.in_origin(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    recover(&rig.repo).unwrap();
    assert!(!record.exists());
}

/// The objects of the landing were never in use in the person's repository, and its garbage collection may remove them.
#[test]
fn landing_whose_objects_the_person_lost_is_taken_back() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    // The person removed the lock, went on, and made the same lock again: only the objects are gone.
    rig.in_origin(&["update-ref", "-d", "refs/heads/brought"]);
    rig.in_origin(&["reflog", "expire", "--expire=now", "--all"]);
    rig.in_origin(&["prune", "--expire=now"]);
    let ahead = rig.in_origin(&["commit-tree", "-p", "HEAD", "-m", "p", "HEAD^{tree}"]);
    let main = rig.origin().join(".git/refs/heads/main");
    fs::write(main, ahead).unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
}

/// A lock of a landing says what it is of, in whichever place it is found.
#[test]
fn lock_of_another_landing_is_named() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    half_landed(&rig, &new, true);
    let again = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, &new));
    let refused = again.unwrap_err().to_string();
    assert!(
        refused.contains("a landing of horde-supervisor, process"),
        "{refused}"
    );
}

/// git writes relative links with `worktree.useRelativePaths`.
#[test]
fn linked_worktree_that_was_moved_is_found_by_a_relative_link() {
    let rig = Rigged::local();
    rig.in_origin(&["checkout", "-q", "-b", "aside"]);
    let (was, is) = (rig.path("linked"), rig.path("moved"));
    rig.in_origin(&["worktree", "add", "-q", was.to_str().unwrap(), "main"]);
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    rig.foreign_push("brought", &new);
    let begun = Unfinished::begin(&rig.repo, &was, "main", (&rig.base, &new)).unwrap();
    let index = begun.copy_index_for_git().unwrap();
    begun.keep_index().unwrap();
    Git::in_dir(&was)
        .env("GIT_INDEX_FILE", index)
        .args(["read-tree", "-m", "-u", rig.base.as_str(), new.as_str()])
        .run()
        .unwrap();
    fs::rename(&was, &is).unwrap();
    let link = rig.origin().join(".git/worktrees/linked/gitdir");
    fs::write(link, "../../../../moved/.git\n").unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(text(is.join("file")), "1\n2\n3\n");
}

/// A filter of `*.slow` files that takes a while, and does something at the first one.
fn slow_filter(rig: &Rigged, at_first: &str) {
    let attributes = rig.origin().join(".git/info/attributes");
    fs::write(attributes, "*.slow filter=slow\n").unwrap();
    let script = rig.path("smudge");
    let seen = rig.path("seen").display().to_string();
    let checkout = rig.origin().display().to_string();
    program::script(
        &script,
        &format!(
            "[ -e {seen} ] || {{ touch {seen}; cd {checkout}; unset GIT_DIR GIT_INDEX_FILE; {at_first}; }}\n\
            exec cat\n"
        ),
    );
    rig.in_origin(&["config", "filter.slow.smudge", script.to_str().unwrap()]);
    rig.in_origin(&["config", "filter.slow.clean", "cat"]);
}

/// git compares all files before it writes the first one, and would overwrite what a person saves meanwhile.
#[test]
fn file_that_a_person_saves_while_others_are_written_stays() {
    // An empty file is a beginning of what git writes there.
    let cases = [
        ("y.slow", "mine\n"),
        ("z.new.slow", "mine\n"),
        ("secret.ignored.slow", "mine\n"),
        ("y.slow", ""),
        ("z.new.slow", ""),
    ];
    for (mine, save) in sampled(cases, 3) {
        let rig = Rigged::local();
        fs::write(rig.origin().join(".git/info/exclude"), "*.ignored.slow\n").unwrap();
        let names = ["a.slow", "b.slow", "c.slow", "d.slow", "y.slow"];
        // After many quick files a step is large.
        let quick: Vec<String> = (0..60).map(|number| format!("quick/{number}")).collect();
        let quick = || quick.iter().map(String::as_str);
        let mut first: Vec<_> = names.map(|name| (name, "1\n")).into();
        first.extend(quick().map(|name| (name, "1\n")));
        let first = rig.commit(&rig.base, &first);
        lands(&rig, &first);
        slow_filter(&rig, &format!("printf '{save}' > {mine}"));
        let mut second: Vec<_> = names.map(|name| (name, "2\n")).into();
        second.extend(quick().map(|name| (name, "2\n")));
        if mine != "y.slow" {
            second.push((mine, "landed\n"));
        }
        let second = rig.commit(&first, &second);
        let refused = land(&rig.repo, "main", &first, &second).unwrap_err();
        assert!(
            matches!(refused, RepoError::CheckoutBusy { .. }),
            "{refused}"
        );
        assert_eq!(text(rig.origin().join(mine)), save, "{mine}");
        assert_eq!(text(rig.origin().join("a.slow")), "1\n", "it is taken back");
        fs::remove_file(rig.origin().join(mine)).unwrap();
        rig.in_origin(&["checkout", "-q", "--", "."]);
        land(&rig.repo, "main", &first, &second).unwrap();
        assert_eq!(text(rig.origin().join("y.slow")), "2\n");
    }
}

/// The objects were unreachable until the branch had them: HEAD was broken.
#[test]
fn person_who_prunes_during_a_landing_takes_nothing_of_it() {
    for prune in ["git prune --expire=now", "git repack -adq"] {
        let rig = Rigged::local();
        let first = rig.commit(&rig.base, &[("a.slow", "1\n"), ("b", "1\n")]);
        lands(&rig, &first);
        slow_filter(&rig, prune);
        let second = rig.commit(&first, &[("a.slow", "2\n"), ("b", "2\n")]);
        land(&rig.repo, "main", &first, &second).unwrap();
        assert!(rig.path("seen").exists(), "it ran");
        rig.in_origin(&["fsck", "--strict"]);
        let pins = rig.in_origin(&["for-each-ref", "refs/horde"]);
        assert_eq!(pins, "", "no ref of a landing stays");
    }
}

/// A file comes in the place of a directory, and the reverse, in steps.
#[test]
fn landing_in_steps_replaces_files_by_directories_and_the_reverse() {
    let rig = Rigged::local();
    let many: Vec<String> = (0..40).map(|number| format!("many/{number}")).collect();
    let mut files = vec![
        ("a", "file\n"),
        ("d/x", "x\n"),
        ("d/y/z", "z\n"),
        ("d-e", "e\n"),
    ];
    files.extend(many.iter().map(|name| (name.as_str(), "1\n")));
    let first = rig.commit(&rig.base, &files);
    lands(&rig, &first);
    let mut files = vec![("a", ""), ("d/x", ""), ("d/y/z", ""), ("d-e", "")];
    files.extend(many.iter().map(|name| (name.as_str(), "2\n")));
    let second = rig.commit(&first, &files);
    let second = rig.commit(&second, &[("a/b", "b\n"), ("d", "now a file\n")]);
    land(&rig.repo, "main", &first, &second).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(text(rig.origin().join("a/b")), "b\n");
    assert_eq!(text(rig.origin().join("d")), "now a file\n");
    assert_eq!(text(rig.origin().join("many/39")), "2\n");
}

/// The first step would be written with the attributes of before the landing.
#[test]
fn attributes_that_a_landing_brings_hold_for_all_its_files() {
    let rig = Rigged::local();
    let files = [
        (".a", "a\n"),
        (".gitattributes", "* text eol=crlf\n"),
        ("z", "z\n"),
    ];
    let new = rig.commit(&rig.base, &files);
    lands(&rig, &new);
    for name in [".a", "z"] {
        assert!(text(rig.origin().join(name)).ends_with("\r\n"), "{name}");
    }
}

/// The landing removes a file, and a program of the person makes it again, ignored, before its directory becomes a file.
#[test]
fn ignored_file_that_comes_back_between_two_steps_is_not_overwritten() {
    let rig = Rigged::local();
    fs::write(rig.origin().join(".git/info/exclude"), "*.log\n").unwrap();
    let slow = ["a.slow", "b.slow", "c.slow"];
    let mut files: Vec<_> = slow.map(|name| (name, "1\n")).into();
    files.push(("d.slow/x.log", "old\n"));
    let first = rig.commit(&rig.base, &files);
    lands(&rig, &first);
    slow_filter(&rig, "mkdir -p d.slow; echo mine > d.slow/x.log");
    let mut files: Vec<_> = slow.map(|name| (name, "2\n")).into();
    files.push(("d.slow/x.log", ""));
    let second = rig.commit(&first, &files);
    let second = rig.commit(&second, &[("d.slow", "now a file\n")]);
    let refused = land(&rig.repo, "main", &first, &second).unwrap_err();
    assert!(
        matches!(refused, RepoError::CheckoutBusy { .. }),
        "{refused}"
    );
    assert_eq!(text(rig.origin().join("d.slow/x.log")), "mine\n");
}

/// A file that a filter wrote makes room for a file, and for a directory.
#[test]
fn removed_file_with_a_filter_is_in_no_way() {
    let rig = Rigged::local();
    slow_filter(&rig, "true");
    let first = rig.commit(&rig.base, &[("d/x.slow", "x\n"), ("m.slow", "m\n")]);
    lands(&rig, &first);
    let second = rig.commit(&first, &[("d/x.slow", ""), ("m.slow", "")]);
    let second = rig.commit(&second, &[("d", "d\n"), ("m.slow/a", "a\n")]);
    land(&rig.repo, "main", &first, &second).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(text(rig.origin().join("d")), "d\n");
    assert_eq!(text(rig.origin().join("m.slow/a")), "a\n");
}

/// Nothing that the filter has to do with is in the way of the other files.
#[test]
fn filter_that_cannot_tell_stops_only_its_own_file() {
    let rig = Rigged::local();
    let attributes = rig.origin().join(".git/info/attributes");
    fs::write(attributes, "*.big filter=x\n").unwrap();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("a.big", "b\n")]);
    half_landed(&rig, &new, false);
    // Also one with which git is killed before it prints anything.
    for fails in ["false", "kill -9 $PPID"] {
        for (key, value) in [
            ("filter.x.smudge", fails),
            ("filter.x.clean", "false"),
            ("filter.x.required", "true"),
        ] {
            rig.in_origin(&["config", key, value]);
        }
        let refused = recover(&rig.repo).unwrap_err().to_string();
        assert!(refused.contains("a.big"), "{refused}");
        assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
    }
    assert!(record(&rig).exists(), "it is tried again");
    rig.in_origin(&["config", "filter.x.required", "false"]);
    rig.in_origin(&["config", "filter.x.smudge", "cat"]);
    rig.in_origin(&["config", "filter.x.clean", "cat"]);
    recover(&rig.repo).unwrap();
    assert!(!rig.origin().join("a.big").exists());
}

/// No file was written in part: an empty one is the person's, however often the landing is taken back.
#[test]
fn file_that_the_person_emptied_in_a_refused_landing_stays_when_the_taking_back_is_repeated() {
    let rig = Rigged::local();
    let attributes = rig.origin().join(".git/info/attributes");
    fs::write(attributes, "*.big filter=x\n").unwrap();
    let files = [("file", "landed\n"), ("other", "o\n"), ("a.big", "b\n")];
    let new = rig.commit(&rig.base, &files);
    let begun = written(&rig, &new);
    let other = rig.origin().join("other");
    fs::write(&other, "").unwrap();
    begun.writing().refused().unwrap();
    drop(begun);
    for (key, value) in [
        ("filter.x.smudge", "false"),
        ("filter.x.clean", "false"),
        ("filter.x.required", "true"),
    ] {
        rig.in_origin(&["config", key, value]);
    }
    recover(&rig.repo).unwrap_err();
    assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
    rig.in_origin(&["config", "filter.x.smudge", "cat"]);
    rig.in_origin(&["config", "filter.x.clean", "cat"]);
    recover(&rig.repo).unwrap();
    assert!(!rig.origin().join("a.big").exists());
    assert_eq!(text(other), "", "the person emptied it");
}
