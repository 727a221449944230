//! A nuke obeys the safety protocol, and salvage restores everything (`witness-patrol.md`, safety protocol).

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::city::snapshot;
use crate::support::git::{git, rev};
use crate::support::live::City;

const TOAST: &str = "horde/raiders/Toast";

/// Work of every kind that git knows, on no remote.
const ALL_KINDS: &[&str] = &[
    "commit committed.txt",
    "printf staged >staged.txt",
    "git add staged.txt",
    "printf 'staged\\n' >README",
    "git add README",
    "printf 'and more\\n' >>README",
    "printf '\\000\\001\\377 binary' >untracked.bin",
    "mkdir -p deep/er",
    "printf '#!/bin/sh\\n' >deep/er/run.sh",
    "chmod +x deep/er/run.sh",
    "ln -s run.sh deep/er/link",
    "printf '*.ignored\\n' >.gitignore",
    "printf 'key\\n' >secret.ignored",
    "sign ready",
    "forever",
];

fn state(sandbox: &Path) -> (String, String, String) {
    let index = git(sandbox, &["ls-files", "--stage"]);
    (
        rev(sandbox, "HEAD"),
        git(sandbox, &["status", "--porcelain"]),
        index,
    )
}

/// Refused with exit code 5 and the files, and nothing has changed: not even the session.
#[test]
fn a_nuke_that_would_lose_work_is_refused_and_changes_nothing() {
    let city = City::new();
    let relic = city.work("make all kinds", ALL_KINDS);
    city.wait_sign("ready");
    let sandbox = city.sandbox("Toast");
    let (before, files) = (state(&sandbox), snapshot(&sandbox));
    let session = city.wait_session(&relic, 1)["session"].clone();
    assert_eq!(
        city.hd(&["raider", "nuke", "Toast"]).code,
        2,
        "without confirmation"
    );
    let nobody = city.hd(&["raider", "nuke", "Nobody"]);
    assert_eq!(nobody.code, 4, "consent to what? {nobody:?}");
    let error = city.hd(&["raider", "nuke", "Toast", "--yes"]).error(5);
    assert_eq!(error["kind"], "refused");
    let message = error["message"].as_str().unwrap();
    for name in [
        "staged.txt",
        "README",
        "untracked.bin",
        "unpushed",
        "ignored files, which salvage does not keep: secret.ignored",
    ] {
        assert!(message.contains(name), "{name} is not in {message}");
    }
    let rehearse = |more: &[&str]| {
        let words = [&["raider", "nuke", "Toast", "--dry-run"], more].concat();
        let ran = city.hd(&words);
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(told["ignored"], json!(["secret.ignored"]));
        (ran.code, told["safe"].clone(), told["would"].clone())
    };
    assert_eq!(rehearse(&[]), (5, json!(false), json!("refuse")));
    let salvaged = (0, json!(false), json!("salvage"));
    assert_eq!(rehearse(&["--salvage"]), salvaged);
    let said = city.hd_text(&["raider", "nuke", "Toast", "--salvage", "--dry-run"]);
    assert!(said.out.contains("untracked: untracked.bin"), "{said:?}");
    assert!(said.out.contains("not keep: secret.ignored"), "{said:?}");
    assert_eq!((before, files), (state(&sandbox), snapshot(&sandbox)));
    assert_eq!(city.wait_session(&relic, 1)["session"], session);
    assert_eq!(city.status_of(&relic), "hooked");
    assert_eq!(city.hd(&["salvage", "list"]).json(), json!([]));
    for kind in ["raider.nuked", "raider.salvaged", "agent.stopped"] {
        assert_eq!(city.happened(kind, TOAST), Vec::<Value>::new());
    }
}

fn salvage(city: &City) -> PathBuf {
    let nuked = city
        .hd(&["raider", "nuke", "Toast", "--salvage", "--yes"])
        .json();
    let id = nuked["salvage"].as_str().expect("a salvage").to_owned();
    assert!(!city.sandbox("Toast").exists());
    assert_eq!(city.raiders(), Vec::<Value>::new());
    let list = city.hd(&["salvage", "list"]).json();
    assert_eq!(list[0]["id"], id.as_str());
    let shown = city.hd(&["salvage", "show", &id]).json();
    assert_eq!(
        (&shown["raider"], &shown["incarnation"]),
        (&"Toast".into(), &1.into())
    );
    let repo = city.root().join(".horde/custody/horde.git");
    for name in shown["refs"].as_array().unwrap() {
        rev(&repo, name.as_str().unwrap());
    }
    let restored = city.hd(&["salvage", "restore", &id]).json();
    let path = PathBuf::from(restored["path"].as_str().unwrap());
    assert_eq!(path, city.root().join("horde/restored").join(id));
    path
}

/// Committed, staged, changed and untracked work comes back byte for byte.
#[test]
fn salvage_gives_back_every_kind_of_work() {
    let city = City::new();
    let relic = city.work("make all kinds", ALL_KINDS);
    city.wait_sign("ready");
    let sandbox = city.sandbox("Toast");
    let (before, files) = (state(&sandbox), snapshot(&sandbox));
    let restored = salvage(&city);
    assert_eq!(before, state(&restored));
    assert_eq!(files, snapshot(&restored));
    assert_eq!(city.status_of(&relic), "open", "nuke returns the relic");
    assert_eq!(city.happened("raider.salvaged", TOAST).len(), 1);
    let nuked = city.happened("raider.nuked", TOAST);
    assert_eq!(nuked.len(), 1);
    assert_eq!(nuked[0]["data"]["ignored"], json!(["secret.ignored"]));
}

/// A clean tree whose commits are on no remote is work too.
#[test]
fn unpushed_commits_are_salvaged() {
    let city = City::new();
    city.work("commit", &["commit a.txt", "sign ready", "forever"]);
    city.wait_sign("ready");
    let head = rev(&city.sandbox("Toast"), "HEAD");
    let error = city.hd(&["raider", "nuke", "Toast", "--yes"]).error(5);
    assert!(
        error["message"].as_str().unwrap().contains("unpushed"),
        "{error}"
    );
    let restored = salvage(&city);
    assert_eq!(rev(&restored, "HEAD"), head);
    assert_eq!(git(&restored, &["status", "--porcelain"]), "");
}

/// The ids of lost stash entries were handed out, and the list said that all was kept.
#[test]
fn salvage_that_lost_a_stash_entry_is_listed_as_lost_and_restored_without_it() {
    let city = City::new();
    let stash = "printf 'changed\\n' >README; git stash push -m kept";
    city.work("stash", &["commit a.txt", stash, "sign ready", "forever"]);
    city.wait_sign("ready");
    let stashed = rev(&city.sandbox("Toast"), "refs/stash");
    let nuke = ["raider", "nuke", "Toast", "--salvage", "--yes"];
    city.hd(&nuke).json();
    let list = || city.hd(&["salvage", "list"]).json()[0].clone();
    assert_eq!(list()["present"], true);
    let id = list()["id"].as_str().unwrap().to_owned();
    let ids = || city.hd(&["salvage", "show", &id]).json()["stash_ids"].clone();
    assert_eq!(ids(), json!([stashed]));
    // Ours takes objects in packs.
    let unpacked = "mkdir x; mv objects/pack/*.pack x; for it in x/*; do git unpack-objects -q <$it; done; rm -r x";
    let unpacked = Command::new("sh")
        .args(["-ec", unpacked])
        .current_dir(city.repo())
        .status();
    assert!(unpacked.unwrap().success());
    let object = city.repo().join("objects").join(&stashed[..2]);
    std::fs::remove_file(object.join(&stashed[2..])).unwrap();
    assert_eq!(list()["present"], false);
    assert_eq!(ids(), json!([]));
    let restored = city.hd(&["salvage", "restore", &id]).json();
    let lost = restored["lost"].as_array().unwrap();
    let names: Vec<_> = lost.iter().map(|name| name.as_str().unwrap()).collect();
    assert!(
        names.len() == 1 && names[0].ends_with("/stash-0"),
        "{restored}"
    );
    assert_eq!(restored["stash_ids"], json!([]));
    assert_eq!(restored["stashes"], json!([]));
}

/// Without its directory, the branch is measured.
#[test]
fn nuke_of_a_removed_sandbox_with_commits_is_refused_and_salvaged() {
    let city = City::new();
    city.work("commit", &["commit a.txt", "sign ready", "forever"]);
    city.wait_sign("ready");
    let head = rev(&city.sandbox("Toast"), "HEAD");
    std::fs::remove_dir_all(city.sandbox("Toast")).unwrap();
    let would = city.hd(&["raider", "nuke", "Toast", "--dry-run"]);
    assert_eq!(would.code, 5, "{would:?}");
    let salvage_would = ["raider", "nuke", "Toast", "--dry-run", "--salvage"];
    assert_eq!(city.hd(&salvage_would).json()["would"], "salvage");
    let error = city.hd(&["raider", "nuke", "Toast", "--yes"]).error(5);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&head[..7]), "{error}");
    let restored = salvage(&city);
    assert_eq!(rev(&restored, "HEAD"), head);
}

/// With nothing at risk there is nothing to salvage; the relic is open again and can be charged.
#[test]
fn a_nuke_without_risk_returns_the_relic() {
    let city = City::new();
    let steps = [
        "[ $n = 2 ] || { sign ready; forever; }",
        "commit a.txt",
        "hd done",
    ];
    let relic = city.work("wait", &steps);
    city.wait_sign("ready");
    let would = city.hd(&["raider", "nuke", "Toast", "--dry-run"]).json();
    assert_eq!(would["incarnation"], 1);
    assert_eq!(
        (&would["safe"], &would["would"]),
        (&json!(true), &json!("nuke"))
    );
    let nuked = city.hd(&["raider", "nuke", "horde/Toast", "--yes"]).json();
    assert_eq!(nuked["salvage"], Value::Null);
    assert_eq!(city.status_of(&relic), "open");
    assert_eq!(city.hd(&["salvage", "list"]).json(), json!([]));
    assert_eq!(
        city.hd(&["raider", "show", "Toast"]).error(4)["kind"],
        "not_found"
    );
    city.charge(&relic);
    city.wait_status(&relic, "closed");
}
