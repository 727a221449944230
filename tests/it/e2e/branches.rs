//! `hd run --branch`: work that begins on an existing branch of the remote or of the rig's checkout
//! (`agent-lifecycle.md`, section 1).

use serde_json::Value;

use crate::support::git::{commit_all, git, rev, try_git, write};
use crate::support::live::City;
use crate::support::live::asks::body;

/// Commits a file on a branch of the rig's checkout, and returns to the branch that was checked out.
fn topic(city: &City, branch: &str, file: &str) -> String {
    let checkout = city.checkout();
    let exists = try_git(&checkout, &["rev-parse", "-q", "--verify", branch])
        .status
        .success();
    let new: &[&str] = if exists { &[] } else { &["-b"] };
    git(&checkout, &[&["checkout", "-q"], new, &[branch]].concat());
    write(&checkout, file, "by a person\n");
    let head = commit_all(&checkout, "half done");
    git(&checkout, &["checkout", "-q", "main"]);
    head
}

fn run_on(city: &City, branch: &str, steps: &[&str]) -> Value {
    let task = format!("go on\n\n{}", body(steps));
    let ran = city.hd(&["run", &task, "--branch", branch, "-d"]).json();
    ran["relics"][0].clone()
}

#[test]
fn raider_goes_on_from_a_branch_and_lands_it_with_its_own_work() {
    let city = City::new();
    let head = topic(&city, "topic/remote", "begun.txt");
    git(&city.checkout(), &["push", "-q", "origin", "topic/remote"]);
    let told = run_on(
        &city,
        "topic/remote",
        &["test -e begun.txt", "commit more.txt", "hd done"],
    );
    assert_eq!(
        (&told["start"]["taken"], &told["start"]["head"]),
        (&"remote".into(), &head.clone().into())
    );
    assert_eq!(told["start"]["note"], Value::Null);
    city.wait_status(told["relic"].as_str().unwrap(), "closed");
    city.wait_no_raiders();
    let landed = city.landed();
    for file in ["begun.txt", "more.txt"] {
        assert!(landed.contains(&file.to_owned()), "{landed:?}");
    }
    // The person's branch is neither moved nor deleted.
    assert_eq!(rev(&city.origin(), "topic/remote"), head);
    assert_eq!(rev(&city.checkout(), "topic/remote"), head);
}

#[test]
fn local_branch_is_taken_with_the_commits_that_the_remote_lacks() {
    let city = City::new();
    let first = topic(&city, "topic", "one.txt");
    git(&city.checkout(), &["push", "-q", "origin", "topic"]);
    let second = topic(&city, "topic", "two.txt");
    let told = run_on(
        &city,
        "topic",
        &[
            "test -e two.txt",
            "sign at-work",
            "await go",
            "commit more.txt",
            "hd done",
        ],
    );
    assert_eq!(told["start"]["head"], second.as_str());
    let note = told["start"]["note"].as_str().unwrap();
    assert!(
        note.contains("taken from the checkout, which has"),
        "{note}"
    );
    city.wait_sign("at-work");
    // Custody: the commits of the checkout are on no remote, so the sandbox is not removed without being saved.
    let refused = city.hd(&["raider", "nuke", "Toast", "--yes"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    city.sign("go");
    city.wait_status(told["relic"].as_str().unwrap(), "closed");
    let landed = city.landed();
    assert!(
        landed.contains(&"two.txt".to_owned()) && landed.contains(&"more.txt".to_owned()),
        "{landed:?}"
    );
    assert_eq!(rev(&city.origin(), "topic"), first);
    assert_eq!(rev(&city.checkout(), "topic"), second);
}

/// The branch has a commit of the target that a person takes off the target while the raider works.
#[test]
fn commit_that_was_taken_off_the_target_does_not_come_back_with_a_branch_that_has_it() {
    let city = City::new();
    let checkout = city.checkout();
    let before = rev(&checkout, "main");
    write(&checkout, "password.txt", "secret\n");
    commit_all(&checkout, "a password");
    git(&checkout, &["push", "-q", "origin", "main"]);
    topic(&city, "topic", "begun.txt");
    git(&checkout, &["push", "-q", "origin", "topic"]);
    let steps = ["sign at-work", "await go", "commit more.txt", "hd done"];
    let told = run_on(&city, "topic", &steps);
    city.wait_sign("at-work");
    let back = format!("{before}:refs/heads/main");
    git(&checkout, &["push", "-q", "--force", "origin", &back]);
    city.sign("go");
    city.wait_status(told["relic"].as_str().unwrap(), "closed");
    let landed = city.landed();
    for file in ["begun.txt", "more.txt"] {
        assert!(landed.contains(&file.to_owned()), "{landed:?}");
    }
    assert!(!landed.contains(&"password.txt".to_owned()), "{landed:?}");
}

#[test]
fn branch_that_diverged_or_does_not_exist_is_told() {
    let city = City::new();
    topic(&city, "topic", "one.txt");
    git(&city.checkout(), &["push", "-q", "origin", "topic"]);
    let remote = rev(&city.origin(), "topic");
    git(&city.checkout(), &["branch", "-q", "-f", "topic", "main"]);
    topic(&city, "topic", "other.txt");
    git(&city.checkout(), &["checkout", "-q", "--detach"]);
    git(&city.checkout(), &["checkout", "-q", "topic"]);
    let shown = run_on(
        &city,
        "topic",
        &["test -e one.txt", "commit more.txt", "hd done"],
    );
    assert_eq!(shown["start"]["head"], remote.as_str());
    let note = shown["start"]["note"].as_str().unwrap();
    assert!(
        note.contains("have diverged; it is taken from the remote"),
        "{note}"
    );
    assert!(note.contains("it is checked out in"), "{note}");
    let missing = city.hd(&["run", "x", "--branch", "topik", "-d"]).error(4);
    assert_eq!(missing["hint"], "did you mean topic?", "{missing}");
    let target = city.hd(&["run", "x", "--branch", "main", "-d"]).error(2);
    assert!(
        target["message"].as_str().unwrap().contains("lands on"),
        "{target}"
    );
    city.wait_status(shown["relic"].as_str().unwrap(), "closed");
}
