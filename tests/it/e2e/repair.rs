//! `hd raider repair`: a sandbox that git cannot use is made whole around its work, which is saved in salvage first
//! (`raider-lifecycle.md`, what "recycle" means).

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::git::{git, rev};
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::processes;

const TOAST: &str = "horde/raiders/Toast";

const WORK: &[&str] = &[
    "[ $n = 1 ] || { sign again; forever; }",
    "commit committed.txt",
    "printf 'not yet' >untracked.txt",
    "sign ready",
    "forever",
];

/// A healthy sandbox: uncommitted work is in salvage, and the agent continues in it.
#[test]
fn sandbox_is_salvaged_before_it_is_repaired() {
    let city = City::new();
    let relic = city.work("work", WORK);
    city.wait_sign("ready");
    let sandbox = city.sandbox("Toast");
    let head = rev(&sandbox, "HEAD");
    assert_eq!(city.hd(&["raider", "repair", "Toast"]).code, 2, "unasked");
    let repaired = city.hd(&["raider", "repair", "Toast", "--yes"]).json();
    assert_eq!(repaired["was"], json!(null), "{repaired}");
    let id = repaired["salvage"].as_str().expect("a salvage");
    let list = city.hd(&["salvage", "list"]).json();
    assert_eq!(
        (&list[0]["id"], &list[0]["reason"]),
        (&json!(id), &json!("repair"))
    );
    city.wait_sign("again");
    assert_eq!(rev(&sandbox, "HEAD"), head);
    let left = fs::read_to_string(sandbox.join("untracked.txt")).unwrap();
    assert_eq!(left, "not yet");
    assert_eq!(city.status_of(&relic), "hooked");
    let restored = city.hd(&["salvage", "restore", id]).json();
    let restored = restored["path"].as_str().unwrap().to_owned();
    assert_eq!(rev(restored.as_ref(), "HEAD"), head);
}

/// A name, and the act that breaks a sandbox.
type Break = (&'static str, fn(&City));

/// Broken in ways that git cannot read: the branch and every file are there afterwards, and the agent continues.
#[test]
fn a_broken_sandbox_is_made_whole_around_its_work() {
    let breaks: [Break; 4] = [
        ("its link is gone", |city| {
            fs::remove_file(city.sandbox("Toast").join(".git")).unwrap();
        }),
        ("its index is cut off", |city| {
            let index = git(
                &city.sandbox("Toast"),
                &["rev-parse", "--git-path", "index"],
            );
            let index = city.sandbox("Toast").join(index);
            fs::write(index, "DIRC").unwrap();
        }),
        ("its index is missing", |city| {
            let index = git(
                &city.sandbox("Toast"),
                &["rev-parse", "--git-path", "index"],
            );
            fs::remove_file(city.sandbox("Toast").join(index)).unwrap();
        }),
        ("its administration is gone", |city| {
            let admin = city.root().join("horde/repo.git/worktrees");
            fs::remove_dir_all(admin).unwrap();
        }),
    ];
    for (what, break_it) in breaks {
        let city = City::new();
        city.work("work", WORK);
        city.wait_sign("ready");
        let sandbox = city.sandbox("Toast");
        let head = rev(&sandbox, "HEAD");
        break_it(&city);
        assert_reported(&city, what);
        let repaired = city.hd(&["raider", "repair", "Toast", "--yes"]).json();
        assert!(repaired["was"].is_string(), "{what}: {repaired}");
        city.wait_sign("again");
        assert_eq!(rev(&sandbox, "HEAD"), head, "{what}");
        let status = git(&sandbox, &["status", "--porcelain"]);
        assert_eq!(status, "?? untracked.txt", "{what}");
        city.wait_event(1, "raider.repaired", TOAST);
        assert_eq!(city.raiders()[0]["condition"], json!(null), "{what}");
    }
}

/// Asserts that status and doctor report the living raider's sandbox as broken, with the fix.
fn assert_reported(city: &City, what: &str) {
    let fix = format!("hd raider repair {TOAST}");
    let raider = &city.raiders()[0];
    assert_eq!(raider["condition"], "sandbox_broken", "{what}: {raider}");
    assert!(raider["session"].is_object(), "it is left alone: {raider}");
    let detail = raider["detail"].as_str().unwrap();
    assert!(detail.contains(&fix), "{what}: {detail}");
    let status = city.hd_text(&["status"]).out;
    let line = "! horde/Toast: sandbox_broken: ";
    assert!(status.contains(line), "{what}: {status}");
    let doctor = city.hd(&["doctor"]).out;
    let found: Value = serde_json::from_str(&doctor).unwrap();
    let mut found = found["findings"].as_array().unwrap().iter();
    let lost = found.find(|it| it["kind"] == "lost_sandbox");
    let hint = lost.expect(what)["hint"].as_str().unwrap();
    assert!(hint.contains(&fix), "{what}: {hint}");
}

/// git looks for a repository upwards, and a city may lie in one: an agent in a broken sandbox must not reach that
/// repository.
#[test]
fn in_a_broken_sandbox_git_finds_no_other_repository() {
    let city = City::new();
    git(city.root(), &["init", "--quiet"]);
    let asks = "git rev-parse --show-toplevel >asked 2>&1 || true";
    city.work("work", &["rm .git", asks, "sign ready", "forever"]);
    city.wait_sign("ready");
    let said = fs::read_to_string(city.sandbox("Toast").join("asked")).unwrap();
    assert!(said.contains("not a git repository"), "{said}");
}

/// The directory is removed under a living session: every verb reports that, a death of that session costs one restart
/// and no more, and the commits are there after the repair that is named.
#[test]
fn a_sandbox_that_vanished_is_named_and_made_anew() {
    let city = Plan::new().set("daemon", "max_restarts", "1").start();
    let relic = city.work("work", WORK);
    city.wait_sign("ready");
    let sandbox = city.sandbox("Toast");
    let head = rev(&sandbox, "HEAD");
    fs::remove_dir_all(&sandbox).unwrap();
    let fix = format!("hd raider repair {TOAST}");
    let raider = &city.raiders()[0];
    assert_eq!(raider["condition"], "sandbox_gone", "{raider}");
    assert!(
        raider["detail"].as_str().unwrap().contains(&fix),
        "{raider}"
    );
    assert!(raider["session"].is_object(), "it is left alone: {raider}");
    let status = city.hd_text(&["status"]).out;
    assert!(status.contains("! horde/Toast: sandbox_gone: "), "{status}");
    let doctor = city.hd(&["doctor"]);
    let found: Value = serde_json::from_str(&doctor.out).unwrap();
    let mut found = found["findings"].as_array().unwrap().iter();
    let lost = found
        .find(|it| it["kind"] == "lost_sandbox")
        .expect("a finding");
    assert_eq!((&lost["subject"], doctor.code), (&json!(TOAST), 1));
    assert!(lost["hint"].as_str().unwrap().contains(&fix), "{lost}");
    let pid = raider["session"]["pid"].as_u64().unwrap();
    processes::signal(pid.try_into().unwrap(), Signal::SIGKILL);
    let told = city.wait_event(1, "raider.homeless", TOAST);
    assert!(
        told["data"]["hint"].as_str().unwrap().contains(&fix),
        "{told}"
    );
    let refused = city.hd(&["agent", "restart", "Toast"]).error(1);
    assert!(
        refused["hint"].as_str().unwrap().contains(&fix),
        "{refused}"
    );
    assert_eq!(city.happened("agent.crashed", TOAST).len(), 1);
    city.hd(&["raider", "repair", "Toast", "--yes"]).json();
    city.wait_sign("again");
    assert_eq!(rev(&sandbox, "HEAD"), head);
    let raider = city.wait_session(&relic, 2);
    assert_eq!(raider["condition"], json!(null), "{raider}");
}
