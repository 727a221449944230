//! The merge queue at work: the real daemon lands the work of a scripted agent, or tells why not.

mod gates;
mod local;
mod order;
mod remote;
mod rework;

use std::fs;

use serde_json::Value;

use crate::support::git::{commit_all, git, write};
use crate::support::live::City;

/// Another client pushes a change of one file to main.
fn foreign(city: &City, file: &str, content: &str) -> String {
    let other = city.root().join("other");
    if !other.exists() {
        git(city.root(), &["clone", "-q", "horde-origin.git", "other"]);
    }
    git(&other, &["pull", "-q", "--rebase"]);
    match content {
        "" => fs::remove_file(other.join(file)).expect("it was there"),
        content => write(&other, file, content),
    }
    let commit = commit_all(&other, &format!("Theirs: {file}"));
    git(&other, &["push", "-q", "origin", "HEAD:main"]);
    commit
}

/// Returns the subjects on the origin's main, the oldest first, without the first commit.
fn landed(city: &City) -> Vec<String> {
    let log = git(&city.origin(), &["log", "--reverse", "--format=%s", "main"]);
    log.lines().skip(1).map(str::to_owned).collect()
}

/// Returns all MERGE_FAILED messages of a relic.
fn failures(city: &City, relic: &str) -> Vec<Value> {
    let sent = city.all_of("message.sent").into_iter();
    let data = sent.map(|event| event["data"].clone());
    data.filter(|data| data["type"] == "MERGE_FAILED" && data["relic"] == relic)
        .collect()
}

/// Asserts that the work was not blamed: no MERGE_FAILED, and a single raider did all of it.
fn assert_no_raider_blamed(city: &City, relic: &str) {
    assert_eq!(failures(city, relic), Vec::<Value>::new());
    let charged = city.all_of("raider.charged");
    let charged = charged
        .iter()
        .filter(|event| event["data"]["relic"] == relic);
    assert_eq!(charged.count(), 1);
}

/// Waits until the merge request of a relic is held: in the queue, with a reason and a time.
fn wait_held(city: &City, relic: &str) -> Value {
    let held = city.wait_first("mr.held");
    assert_eq!(held["data"]["relic"], relic);
    let mrs = city.mrs(relic);
    assert_eq!(mrs.len(), 1);
    let mr = mrs[0].clone();
    assert_eq!(mr["state"], "held", "{mr}");
    assert!(mr["not_before"].is_string(), "{mr}");
    assert!(mr["note"].is_string(), "{mr}");
    mr
}
