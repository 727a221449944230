//! The real git-lfs, where the machine has one: an agent's file lands, is in the store of the origin, and comes back in a
//! clone.

use std::fs;
use std::process::Command;

use crate::support::git::{commit_all, git, write};
use crate::support::live::City;
use crate::support::live::asks::body;
use crate::support::plan::Plan;

const TOAST: &str = "horde/raiders/Toast";
/// The SHA-256 of the agent's file.
const SUM: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

/// Runs git-lfs in a directory; none if there is no such program.
fn git_lfs(city: &City, words: &[&str]) -> Option<bool> {
    let mut git = Command::new("git");
    let git = git.arg("lfs").args(words).current_dir(city.checkout());
    let git = git.env("HOME", city.root().join("home"));
    git.status().ok().map(|status| status.success())
}

/// Makes a city with git-lfs in its checkout; none, said, if there is no such program.
fn with_lfs() -> Option<City> {
    let plan = Plan::new().file(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    );
    let city = City::made(&plan);
    if git_lfs(&city, &["version"]) != Some(true) {
        let needed = std::env::var_os("HORDE_TESTS_NEED_LFS").is_some();
        assert!(!needed, "git-lfs is not installed");
        eprintln!("skipped: git-lfs is not installed here");
        return None;
    }
    assert_eq!(git_lfs(&city, &["install", "--local"]), Some(true));
    Some(city)
}

/// The branch was never pushed, so no remote has its files: they are in the store of the checkout alone.
#[test]
fn raider_on_a_branch_of_the_checkout_has_the_files_that_only_the_checkout_has() {
    let Some(mut city) = with_lfs() else { return };
    let checkout = city.checkout();
    git(&checkout, &["checkout", "-q", "-b", "art"]);
    write(&checkout, "picture.bin", "hello\n");
    commit_all(&checkout, "a picture");
    git(&checkout, &["checkout", "-q", "main"]);
    city.start();
    let steps = body(&["grep -qx hello picture.bin", "commit more.txt", "hd done"]);
    let task = format!("go on\n\n{steps}");
    let ran = city.hd(&["run", &task, "--branch", "art", "-d"]).json();
    assert_eq!(ran["relics"][0]["start"]["taken"], "local", "{ran}");
    city.wait_status(ran["relics"][0]["relic"].as_str().unwrap(), "closed");
    let stored = city.origin().join("lfs/objects").join(&SUM[..2]);
    let stored = fs::read_to_string(stored.join(&SUM[2..4]).join(SUM));
    assert_eq!(stored.unwrap(), "hello\n");
    city.wait_no_raiders();
    city.stop();
}

/// Case B8 of an adversary: the hook of git-lfs is asked to push to the address of a sandbox.
#[test]
fn file_of_an_agent_is_uploaded_by_the_real_git_lfs() {
    let Some(mut city) = with_lfs() else { return };
    city.start();
    let make = "echo hello >picture.bin";
    let commit = "git add picture.bin && git commit -q -m picture";
    let relic = city.work("paint", &[make, commit, "hd done"]);
    city.wait_status(&relic, "closed");
    assert_eq!(city.happened("raider.push_blocked", TOAST).len(), 0);
    let landed = git(&city.origin(), &["show", "main:picture.bin"]);
    assert!(landed.contains(&format!("oid sha256:{SUM}")), "{landed}");
    let stored = city.origin().join("lfs/objects").join(&SUM[..2]);
    let stored = fs::read_to_string(stored.join(&SUM[2..4]).join(SUM));
    assert_eq!(stored.unwrap(), "hello\n");
    city.wait_no_raiders();
    city.stop();
}
