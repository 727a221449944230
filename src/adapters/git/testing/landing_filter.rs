//! Tests of landings whose files a slow or failing filter writes.

use std::fs;
use std::time::Duration;

use super::Rigged;
use super::checkout::{lands, text};
use super::landing_recovery::{half_landed, half_landed_from, record};
use crate::adapters::git::checkout::recover;
use crate::adapters::git::land::land;
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;
use crate::testing::poll::poll;
use crate::testing::program;

/// Gives `*.slow` files a filter that runs these commands, with the path in `$1`.
fn filter(rig: &Rigged, commands: &str) {
    let attributes = rig.origin().join(".git/info/attributes");
    fs::write(attributes, "*.slow filter=slow\n").unwrap();
    let script = rig.path("smudge");
    let checkout = rig.origin().display().to_string();
    let text = format!("cd {checkout}; unset GIT_DIR GIT_INDEX_FILE\n{commands}\nexec cat\n");
    program::script(&script, &text);
    let smudge = format!("{} %f", script.display());
    rig.in_origin(&["config", "filter.slow.smudge", &smudge]);
    rig.in_origin(&["config", "filter.slow.clean", "cat"]);
}

/// A file whose filter turned out to be slow is written alone: what a person saves meanwhile in the place of the next one is seen.
#[test]
fn slow_file_after_many_quick_ones_is_written_alone() {
    let rig = Rigged::local();
    let quick: Vec<String> = (0..40).map(|at| format!("a{at:02}.slow")).collect();
    let names = || quick.iter().map(String::as_str).chain(["m.slow", "n.slow"]);
    let old: Vec<_> = names().map(|name| (name, "1\n")).collect();
    let first = rig.commit(&rig.base, &old);
    lands(&rig, &first);
    let seen = rig.path("seen").display().to_string();
    // It is asked with all, then to be measured, then to write.
    let slow = format!(
        "[ $1 != m.slow ] || {{ sleep 0.2; echo >> {seen}; [ $(wc -l < {seen}) -lt 3 ] || echo mine > n.slow; }}"
    );
    filter(&rig, &slow);
    let new: Vec<_> = names().map(|name| (name, "2\n")).collect();
    let second = rig.commit(&first, &new);
    let refused = land(&rig.repo, "main", &first, &second).unwrap_err();
    assert!(
        matches!(refused, RepoError::CheckoutBusy { .. }),
        "{refused}"
    );
    assert_eq!(text(rig.origin().join("n.slow")), "mine\n");
    assert_eq!(text(rig.origin().join("a00.slow")), "1\n");
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), " M n.slow");
}

/// git asks a filter twice for a file: once before anything is written, so that a download is not waited for with no file in its place.
#[test]
fn filter_is_asked_before_its_file_is_removed() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("a.slow", "1\n")]);
    lands(&rig, &first);
    let log = rig.path("log").display().to_string();
    filter(&rig, &format!("cat $1 >> {log} 2>&1 || true"));
    let second = rig.commit(&first, &[("a.slow", "2\n")]);
    land(&rig.repo, "main", &first, &second).unwrap();
    let log = text(rig.path("log"));
    assert!(log.starts_with("1\n"), "{log}");
    assert_eq!(text(rig.origin().join("a.slow")), "2\n");
}

/// Outside of a sparse checkout the flag hides nothing from git: it writes the file, which its filter must be asked for before.
#[test]
fn absent_file_with_the_flag_skip_worktree_is_filtered_before() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("a.slow", "1\n")]);
    lands(&rig, &first);
    rig.in_origin(&["update-index", "--skip-worktree", "a.slow"]);
    fs::remove_file(rig.origin().join("a.slow")).unwrap();
    filter(&rig, "exit 1");
    rig.in_origin(&["config", "filter.slow.required", "true"]);
    let second = rig.commit(&first, &[("a.slow", "2\n")]);
    let refused = land(&rig.repo, "main", &first, &second).unwrap_err();
    assert!(refused.to_string().contains("before anything"), "{refused}");
}

/// A taking back may have written such a file in part, so it does not count as untouched.
#[test]
fn removed_file_whose_filter_cannot_tell_is_not_taken_for_untouched() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("a.slow", "all of it\n")]);
    lands(&rig, &first);
    let second = rig.commit(&first, &[("a.slow", "")]);
    let rig = Rigged {
        base: first.clone(),
        ..rig
    };
    rig.foreign_push("brought", &second);
    half_landed_from(&rig, &first, &second, false);
    fs::write(rig.origin().join("a.slow"), "all").unwrap();
    filter(&rig, "exit 1");
    rig.in_origin(&["config", "filter.slow.clean", "false"]);
    rig.in_origin(&["config", "filter.slow.required", "true"]);
    let refused = recover(&rig.repo).unwrap_err().to_string();
    assert!(refused.contains("a.slow"), "{refused}");
    assert!(record(&rig).exists(), "it is tried again");
}

/// git writes a file with this flag if its content is as committed, and status says nothing of it.
#[test]
fn file_with_the_flag_skip_worktree_is_taken_back() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    rig.in_origin(&["update-index", "--skip-worktree", "file"]);
    half_landed(&rig, &new, false);
    assert_eq!(text(rig.origin().join("file")), "landed\n");
    recover(&rig.repo).unwrap();
    assert_eq!(text(rig.origin().join("file")), "1\n2\n3\n");
}

/// git removes a file before it asks the filter, and could not bring it back.
#[test]
fn required_filter_that_fails_is_found_before_anything_is_written() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("a.slow", "1\n"), ("file", "1\n")]);
    lands(&rig, &first);
    filter(&rig, "exit 1");
    rig.in_origin(&["config", "filter.slow.required", "true"]);
    let second = rig.commit(&first, &[("a.slow", "2\n"), ("file", "2\n")]);
    let refused = land(&rig.repo, "main", &first, &second)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("a.slow"), "{refused}");
    assert_eq!(text(rig.origin().join("a.slow")), "1\n");
    assert_eq!(text(rig.origin().join("file")), "1\n");
    assert!(!rig.origin().join(".git/index.lock").exists());
}

/// A person's file in the place of a directory is no absent file.
#[test]
fn file_that_a_person_put_in_the_place_of_a_directory_stays_in_a_taking_back() {
    let rig = Rigged::local();
    filter(&rig, "true");
    let first = rig.commit(&rig.base, &[("a.slow", "1\n"), ("d/x", "x\n")]);
    lands(&rig, &first);
    let second = rig.commit(&first, &[("a.slow", "2\n"), ("d/x", "")]);
    rig.foreign_push("brought", &second);
    half_landed_from(&rig, &first, &second, false);
    assert!(!rig.origin().join("d").exists());
    fs::write(rig.origin().join("d"), "mine\n").unwrap();
    recover(&rig.repo).unwrap();
    assert_eq!(text(rig.origin().join("d")), "mine\n");
    assert_eq!(text(rig.origin().join("a.slow")), "1\n");
}

/// git gives a link to no filter.
#[test]
fn link_that_a_filter_pattern_matches_lands() {
    let rig = Rigged::local();
    filter(&rig, "exit 1");
    rig.in_origin(&["config", "filter.slow.required", "true"]);
    let old = rig.base.clone();
    std::os::unix::fs::symlink("file", rig.origin().join("a.slow")).unwrap();
    rig.in_origin(&["add", "a.slow"]);
    let tree = rig.in_origin(&["write-tree"]);
    let who = ["-c", "user.name=P", "-c", "user.email=p@x"];
    let commit = ["commit-tree", "-m", "link", "-p", old.as_str(), tree.trim()];
    let new = rig.in_origin(&[&who[..], &commit[..]].concat());
    rig.in_origin(&["reset", "-q", "--hard"]);
    rig.in_origin(&["update-ref", "refs/heads/brought", new.trim()]);
    let fetch = ["fetch", "-q", "origin", "brought"];
    rig.repo.git().args(fetch).run().unwrap();
    let new = Oid::new(new.trim()).unwrap();
    land(&rig.repo, "main", &old, &new).unwrap();
    assert!(rig.origin().join("a.slow").is_symlink());
}

/// A git that was killed while its disk hung had gone on writing beside the taking back.
#[test]
fn landing_that_fails_is_not_taken_back_while_its_git_still_writes() {
    let rig = Rigged::local();
    let first = rig.commit(&rig.base, &[("a", "1\n"), ("b.slow", "1\n")]);
    lands(&rig, &first);
    // It stands for git, which fails beside it: it has its command and environment.
    let (began, go) = (rig.path("began"), rig.path("go"));
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let file = rig.origin().join("a");
    let writer = format!(
        ": >started\nread line <{}\necho 2 >{}\n",
        go.display(),
        file.display()
    );
    fs::write(rig.path("read-tree"), writer).unwrap();
    // Before it has begun it does not have its command.
    let write = "setsid sh read-tree </dev/null >/dev/null 2>&1 & until [ -e started ]; do sleep 0.01; done;";
    let (there, began) = (rig.path("."), began.display());
    let once = format!(
        "[ -e {began} ] || {{ : >{began}; cd {}; {write} exit 1; }}",
        there.display()
    );
    let text_of = format!("case $GIT_INDEX_FILE in *horde-landing*) {once} ;; esac\nexec cat\n");
    let script = rig.path("smudge");
    program::script(&script, &text_of);
    fs::write(
        rig.origin().join(".git/info/attributes"),
        "*.slow filter=slow\n",
    )
    .unwrap();
    for (key, value) in [
        ("filter.slow.smudge", script.to_str().unwrap()),
        ("filter.slow.clean", "cat"),
        ("filter.slow.required", "true"),
    ] {
        rig.in_origin(&["config", key, value]);
    }
    let second = rig.commit(&first, &[("a", "2\n"), ("b.slow", "2\n")]);
    for _ in 0..2 {
        let refused = land(&rig.repo, "main", &first, &second).unwrap_err();
        assert!(
            matches!(&refused, RepoError::CheckoutBusy { why: CheckoutBusy::Underway(what), .. } if what.contains("git of a landing")),
            "{refused}"
        );
        assert!(record(&rig).exists());
        assert!(rig.origin().join(".git/index.lock").exists());
    }
    fs::write(&go, "\n").unwrap();
    let lands = || land(&rig.repo, "main", &first, &second);
    poll(Duration::from_secs(60), || lands().ok()).expect("it lands once that has ended");
    assert_eq!(text(rig.origin().join("b.slow")), "2\n");
}
