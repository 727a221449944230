//! Tests of landings that put a file in the place of a submodule in a person's checkout.

use std::fs;

use super::Rigged;
use super::checkout::{persons, text};
use super::landing_recovery::half_landed_from;
use crate::adapters::git::checkout::recover;
use crate::adapters::git::command::Git;
use crate::adapters::git::land::land;
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// Returns a commit on main with a repository of the person in `lib`, as a submodule.
fn submodule(rig: &Rigged) -> Oid {
    let lib = rig.origin().join("lib");
    fs::create_dir(&lib).unwrap();
    let git = |args: &[&str]| Git::in_dir(&lib).args(args).run().unwrap();
    git(&["init", "-q"]);
    git(&[
        "-c",
        "user.name=P",
        "-c",
        "user.email=p@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "l",
    ]);
    rig.in_origin(&["add", "lib"]);
    assert!(persons(rig, &["commit", "-qm", "lib"]).ok());
    fs::write(lib.join("work"), "mine\n").unwrap();
    rig.repo
        .git()
        .args(["fetch", "-q", "origin"])
        .run()
        .unwrap();
    rig.at("main").unwrap()
}

/// Returns a commit with one change of the index.
fn changed(rig: &Rigged, old: &Oid, change: &[&str]) -> Oid {
    let index = rig.path("other-index");
    let git = |args: &[&str]| {
        let git = Git::in_dir(&rig.origin()).env("GIT_INDEX_FILE", &index);
        let git = git.args(["-c", "user.name=P", "-c", "user.email=p@x"]);
        git.args(args).run().unwrap().text().trim().to_owned()
    };
    git(&["read-tree", old.as_str()]);
    git(change);
    let tree = git(&["write-tree"]);
    let new = git(&["commit-tree", "-m", "changed", "-p", old.as_str(), &tree]);
    git(&["update-ref", "refs/heads/brought", &new]);
    let fetch = ["fetch", "-q", "origin", "brought"];
    rig.repo.git().args(fetch).run().unwrap();
    Oid::new(&new).unwrap()
}

/// Returns a commit that has a file in the place of the submodule.
fn with_a_file(rig: &Rigged, old: &Oid) -> Oid {
    let file = rig.path("a-file");
    fs::write(&file, "a file\n").unwrap();
    let blob = rig.in_origin(&["hash-object", "-w", "--no-filters", file.to_str().unwrap()]);
    let entry = format!("100644,{},lib", blob.trim());
    changed(rig, old, &["update-index", "--cacheinfo", &entry])
}

/// git removes the checkout of such a submodule, with the repository in it.
#[test]
fn submodule_that_becomes_a_file_waits_while_anything_is_in_it() {
    let rig = Rigged::local();
    let old = submodule(&rig);
    let new = with_a_file(&rig, &old);
    let refused = land(&rig.repo, "main", &old, &new).unwrap_err();
    let RepoError::CheckoutBusy { why, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(matches!(why, CheckoutBusy::InTheWay(_)), "{refused}");
    assert_eq!(text(rig.origin().join("lib/work")), "mine\n");
    fs::remove_dir_all(rig.origin().join("lib")).unwrap();
    fs::create_dir(rig.origin().join("lib")).unwrap();
    half_landed_from(&rig, &old, &new, true);
    assert_eq!(text(rig.origin().join("lib")), "a file\n");
    recover(&rig.repo).unwrap();
    assert!(rig.origin().join("lib").is_dir());
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
    land(&rig.repo, "main", &old, &new).unwrap();
    assert_eq!(text(rig.origin().join("lib")), "a file\n");
}

/// Returns a commit without the submodule.
fn without_it(rig: &Rigged, old: &Oid) -> Oid {
    changed(rig, old, &["rm", "-q", "--cached", "lib"])
}

/// No filter has a submodule to write, though its pattern may match.
#[test]
fn submodule_that_a_filter_pattern_matches_lands() {
    let rig = Rigged::local();
    let old = submodule(&rig);
    rig.in_origin(&["config", "filter.all.smudge", "cat"]);
    rig.in_origin(&["config", "filter.all.clean", "cat"]);
    rig.in_origin(&["config", "filter.all.required", "true"]);
    fs::write(rig.origin().join(".git/info/attributes"), "* filter=all\n").unwrap();
    let entry = format!("160000,{},lib", rig.base);
    let new = changed(&rig, &old, &["update-index", "--cacheinfo", &entry]);
    land(&rig.repo, "main", &old, &new).unwrap();
    assert_eq!(rig.at("main"), Some(new));
    assert_eq!(text(rig.origin().join("lib/work")), "mine\n");
}

/// git removes its empty directory, which `git status` shows as a change of the person.
#[test]
fn directory_of_a_removed_submodule_comes_back() {
    let rig = Rigged::local();
    let old = submodule(&rig);
    let new = without_it(&rig, &old);
    let lib = rig.origin().join("lib");
    fs::remove_dir_all(&lib).unwrap();
    fs::create_dir(&lib).unwrap();
    half_landed_from(&rig, &old, &new, false);
    assert!(!lib.exists());
    recover(&rig.repo).unwrap();
    assert!(lib.is_dir());
    assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
}
