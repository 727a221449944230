//! Tests of the moment of a landing in a person's checkout: what comes between its steps, and what interrupts it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::UNIX_EPOCH;

use super::Rigged;
use super::checkout::{busy, lands, persons, text};
use super::landing_recovery::half_landed;
use crate::adapters::git::checkout::{Unfinished, look, recover};
use crate::adapters::git::command::Git;
use crate::adapters::git::land::land;
use crate::adapters::git::ref_transaction::Prepared;
use crate::adapters::git::remote::{delete_branch, push_branch};
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;
use crate::testing::{eventually, program};

/// Writes the pre-push hook of the person.
fn pre_push(rig: &Rigged, script: &str) {
    let hooks = rig.path("hooks");
    fs::create_dir_all(&hooks).unwrap();
    rig.in_origin(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
    let script = format!("cd '{}'\nunset GIT_DIR\n{script}", rig.origin().display());
    program::script(&hooks.join("pre-push"), &script);
}

/// The files were checked before a push whose hook may take minutes.
#[test]
fn ignored_file_that_appears_during_the_push_is_not_overwritten() {
    for mine in ["secret.ignored", "dir.ignored/a/b"] {
        let rig = Rigged::local();
        fs::write(rig.origin().join(".git/info/exclude"), "*.ignored\n").unwrap();
        let place = rig.origin().join(mine);
        let dir = place.parent().unwrap().display().to_string();
        pre_push(&rig, &format!("mkdir -p '{dir}'; echo mine > {mine}"));
        let top = mine.split('/').next().unwrap();
        let new = rig.commit(&rig.base, &[(top, "landed\n"), ("other", "o\n")]);
        let (_, why) = busy(&rig, &new);
        assert_eq!(why, CheckoutBusy::InTheWay(mine.into()));
        assert_eq!(text(place), "mine\n");
        assert!(!rig.origin().join("other").exists(), "all or nothing");
    }
}

/// The index and the files of the commit were reset to the landing, and the next `git commit -a` reverted it.
#[test]
fn commit_of_the_person_during_the_push_stays_as_it_is() {
    let rig = Rigged::local();
    let commit = "echo mine > mine; echo p > file; git add mine file\n\
        git -c user.name=P -c user.email=p@x -c core.hooksPath=/dev/null commit -qm mine";
    pre_push(&rig, commit);
    let new = rig.commit(&rig.base, &[("landed", "l\n")]);
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(error, RepoError::Moved { .. }), "{error}");
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(text(rig.origin().join("mine")), "mine\n");
    assert!(!rig.origin().join("landed").exists());
}

/// A push that a killed supervisor left behind had gone on after its hook, over the next landing.
#[test]
fn push_that_runs_the_hook_moves_nothing_by_itself() {
    let rig = Rigged::local();
    pre_push(&rig, "exit 1");
    let new = rig.commit(&rig.base, &[("landed", "l\n")]);
    let refused = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(refused, RepoError::Rejected(_)), "{refused}");
    pre_push(&rig, "git rev-parse main > ../at");
    lands(&rig, &new);
    assert_eq!(text(rig.path("at")).trim(), rig.base.as_str());
}

/// An agent may have committed them, where `core.hooksPath` is a directory of the work tree.
#[test]
fn no_hook_of_the_checkout_runs_in_a_landing_or_a_push_but_pre_push() {
    let rig = Rigged::local();
    let (hooks, ran) = (rig.path("hooks"), rig.path("ran"));
    pre_push(&rig, "true");
    for name in [
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
        "push-to-checkout",
        "reference-transaction",
        "post-index-change",
        "post-merge",
        "post-checkout",
        "pre-auto-gc",
        "proc-receive",
    ] {
        let script = format!("echo {name} >> '{}'", ran.display());
        program::script(&hooks.join(name), &script);
    }
    let new = rig.commit(&rig.base, &[("file", "landed\n")]);
    push_branch(&rig.repo, "raider/Toast/gt-1-1", &new, None).unwrap();
    lands(&rig, &new);
    delete_branch(&rig.repo, "raider/Toast/gt-1-1", &new).unwrap();
    assert_eq!(text(rig.origin().join("file")), "landed\n");
    let ran = fs::read_to_string(ran).unwrap_or_default();
    assert_eq!(ran, "");
}

/// A person may want to go back to it.
#[test]
fn landing_keeps_the_orig_head_of_the_person() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    lands(&rig, &new);
    let orig = ["rev-parse", "-q", "--verify", "ORIG_HEAD"];
    let left = Git::in_dir(&rig.origin()).args(orig).output().unwrap();
    assert!(!left.ok(), "there was none");
    rig.in_origin(&["reset", "-q", "--hard", "HEAD~1"]);
    rig.in_origin(&["reset", "-q", "--hard", "ORIG_HEAD"]);
    let before = rig.in_origin(&orig);
    let next = rig.commit(&new, &[("b", "b\n")]);
    land(&rig.repo, "main", &new, &next).unwrap();
    assert_eq!(rig.in_origin(&orig), before);
}

/// `git merge` obeyed the options of the branch: with `-s ours`, work was recorded as landed without its files.
#[test]
fn settings_of_the_branch_change_no_landing() {
    let rig = Rigged::local();
    for options in ["-s ours", "--squash", "--no-ff", "--nonsense"] {
        let old = rig.at("main").unwrap();
        rig.in_origin(&["config", "branch.main.mergeOptions", options]);
        let new = rig.commit(&old, &[(options.trim_start_matches('-'), "x\n")]);
        land(&rig.repo, "main", &old, &new).unwrap();
        assert_eq!(rig.at("main"), Some(new));
        assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    }
}

#[test]
fn no_commit_and_no_checkout_comes_between_the_files_and_the_branch() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.foreign_push("side", &new);
    let prepared = || Prepared::head(Git::in_dir(&rig.origin()), &rig.base, &new).unwrap();
    let change = prepared().unwrap_or_else(|why| panic!("{why}"));
    for args in [
        &["commit", "-q", "--allow-empty", "-m", "x"][..],
        &["checkout", "-q", "-b", "other"],
        &["reset", "-q", "--hard", "side"],
    ] {
        assert!(!persons(&rig, args).ok(), "{args:?}");
    }
    assert!(prepared().is_err_and(|why| why.contains("File exists")));
    drop(change);
    assert_eq!(rig.at("main"), Some(rig.base.clone()));
    assert!(persons(&rig, &["commit", "-q", "--allow-empty", "-m", "x"]).ok());
    assert!(prepared().is_err_and(|why| why.contains("but expected")));
}

/// It takes no lock of the index, and waits for that of HEAD: the new branch had the files of the landing.
#[test]
fn switch_of_the_person_to_a_new_branch_comes_before_the_landing_or_after_it() {
    let rig = Rigged::local();
    let attributes = rig.origin().join(".git/info/attributes");
    fs::write(attributes, "*.slow filter=x\n").unwrap();
    let log = rig.path("log");
    let switch = "git -c core.filesRefLockTimeout=60000 switch -q -c mine";
    // The filter is asked before the landing, too.
    let switch = format!(
        "[ ! -e .git/index.lock ] || env -u GIT_INDEX_FILE -u GIT_DIR {switch} >'{}' 2>&1 &",
        log.display()
    );
    let filter = rig.path("filter");
    program::script(&filter, &format!("{switch}\ncat"));
    rig.in_origin(&["config", "filter.x.smudge", filter.to_str().unwrap()]);
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("a.slow", "a\n")]);
    // A busy machine may start the switch only after the landing.
    let main = match land(&rig.repo, "main", &rig.base, &new) {
        Ok(()) => new,
        Err(RepoError::CheckoutBusy { why, .. }) => {
            assert!(why.to_string().contains("git switch"), "{why}");
            rig.base.clone()
        }
        Err(other) => panic!("{other}"),
    };
    let head = || rig.in_origin(&["symbolic-ref", "HEAD"]);
    eventually("the switch ends", || {
        (head() == "refs/heads/mine").then_some(())
    });
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    assert_eq!(rig.at("main"), Some(main.clone()));
    // A switch that had read HEAD before waited for its lock; then the files are as it found them.
    let mine = rig.at("mine");
    assert!(
        [Some(main), Some(rig.base.clone())].contains(&mine),
        "{mine:?}"
    );
}

/// A person may be in the middle of a checkout of the branch, in a worktree that is still on another one.
#[test]
fn branch_that_is_checked_out_nowhere_waits_for_every_worktree() {
    let rig = Rigged::local();
    rig.in_origin(&["checkout", "-q", "-b", "mine"]);
    let linked = rig.path("linked");
    rig.in_origin(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        linked.to_str().unwrap(),
    ]);
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let lock = rig.origin().join(".git/worktrees/linked/index.lock");
    fs::write(&lock, "").unwrap();
    let (path, why) = busy(&rig, &new);
    assert!(matches!(why, CheckoutBusy::Underway(_)), "{why}");
    assert_eq!(path, linked);
    fs::remove_file(&lock).unwrap();
    lands(&rig, &new);
    assert!(!rig.origin().join(".git/index.lock").exists());
}

/// git lists the directory of the repository in place of such a checkout: it had been waited for without end.
#[test]
fn checkout_whose_repository_is_elsewhere_moves_too() {
    let rig = Rigged::local();
    let apart = rig.path("apart.git");
    rig.in_origin(&["init", "-q", "--separate-git-dir", apart.to_str().unwrap()]);
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    lands(&rig, &new);
    assert_eq!(text(rig.origin().join("a")), "a\n");
    fs::write(rig.origin().join(".git"), "gitdir: ../apart.git\n").unwrap();
    let next = rig.commit(&new, &[("b", "b\n")]);
    land(&rig.repo, "main", &new, &next).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
}

/// A look had locked it while it read all files.
#[test]
fn look_does_not_lock_the_index_of_the_person() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("more", "m\n")]);
    let index = rig.origin().join(".git/index");
    let file = fs::File::options()
        .append(true)
        .open(rig.origin().join("file"))
        .unwrap();
    file.set_modified(UNIX_EPOCH).unwrap();
    let before = fs::read(&index).unwrap();
    look(&rig.repo, "main", Some((&rig.base, &new))).unwrap();
    assert_eq!(fs::read(&index).unwrap(), before, "nothing was written");
}

/// The landing was taken back although it had written nothing, and an empty file counted as a part of its own.
#[test]
fn file_of_the_person_that_appears_before_git_writes_stays() {
    let rig = Rigged::local();
    fs::write(rig.origin().join(".git/info/exclude"), "*.log\n").unwrap();
    let mine = rig.origin().join("out.log");
    let new = rig.commit(&rig.base, &[("out.log", "landed\n")]);
    rig.foreign_push("brought", &new);
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, &new)).unwrap();
    begun.copy_index_for_git().unwrap();
    fs::write(&mine, "").unwrap();
    drop(begun);
    recover(&rig.repo).unwrap();
    assert_eq!(text(mine), "");
    assert!(!rig.origin().join(".git/index.lock").exists());
}

/// The message of a filter was taken for git's refusal, and nothing was taken back.
#[test]
fn words_of_a_filter_are_no_refusal_of_git() {
    for ends in ["cat", "exit 1"] {
        let rig = Rigged::local();
        let attributes = rig.origin().join(".git/info/attributes");
        fs::write(attributes, "*.big filter=x\n").unwrap();
        let filter = rig.path("filter");
        let script = format!("echo 'cache overwritten, not uptodate' >&2\n{ends}");
        program::script(&filter, &script);
        rig.in_origin(&["config", "filter.x.smudge", filter.to_str().unwrap()]);
        rig.in_origin(&["config", "filter.x.clean", "cat"]);
        rig.in_origin(&["config", "filter.x.required", "true"]);
        let new = rig.commit(&rig.base, &[("a", "a\n"), ("overwritten.big", "b\n")]);
        let landed = land(&rig.repo, "main", &rig.base, &new);
        assert_eq!(landed.is_ok(), ends == "cat", "{landed:?}");
        assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    }
}

/// git had refused every attempt to write such a file, and the index stayed locked.
#[test]
fn file_that_the_person_had_removed_from_the_index_is_not_restored() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", ""), ("more", "m\n")]);
    rig.foreign_push("brought", &new);
    rig.in_origin(&["rm", "-q", "file"]);
    let begun = Unfinished::begin(&rig.repo, &rig.origin(), "main", (&rig.base, &new)).unwrap();
    begun.copy_index_for_git().unwrap();
    begun.keep_index().unwrap();
    drop(begun);
    recover(&rig.repo).unwrap();
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "D  file");
    assert!(!rig.origin().join(".git/index.lock").exists());
}

/// An empty file is the beginning of any other: one that a person emptied after the crash was taken for git's.
#[test]
fn file_that_the_person_emptied_after_an_interrupted_landing_stays() {
    let rig = Rigged::local();
    let new = rig.commit(&rig.base, &[("file", "landed\n"), ("more", "m\n")]);
    half_landed(&rig, &new, false);
    let wrote = || fs::metadata(rig.origin().join("more")).unwrap().ctime();
    let emptied = eventually("three seconds have passed", || {
        fs::write(rig.origin().join("file"), "").unwrap();
        let at = fs::metadata(rig.origin().join("file")).unwrap().ctime();
        (at > wrote() + 2).then_some(at)
    });
    assert!(emptied > wrote());
    recover(&rig.repo).unwrap();
    assert_eq!(text(rig.origin().join("file")), "");
    assert!(!rig.origin().join("more").exists());
}
