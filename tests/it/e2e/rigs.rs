//! `hd rig add`, `list` and `remove`, with and without a supervisor.

use std::fs;

use serde_json::json;

use crate::support::git::{git, write};
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::repository::repository;

fn toml(city: &City) -> String {
    fs::read_to_string(city.root().join("city.toml")).unwrap()
}

/// A rig is added to a running city, its work lands, and it is removed; the rest of city.toml stays as it was.
#[test]
fn rig_is_added_works_and_is_removed_without_a_restart() {
    let mut city = City::made(&Plan::new());
    let text = format!("# mine\n{}", toml(&city));
    write(city.root(), "city.toml", &text);
    city.start();
    repository(
        &city.root().join("tool"),
        Some("tool-origin.git"),
        |checkout| {
            write(checkout, "README", "hello\n");
        },
    );
    let added = city
        .hd(&["rig", "add", "tool", "--name", "second", "--prefix", "se"])
        .json();
    assert_eq!(added["reload"]["rigs"][0]["action"], "added", "{added}");
    assert!(toml(&city).starts_with(&text), "{}", toml(&city));
    let listed = city.hd(&["rig", "list"]).json();
    assert_eq!(
        (&listed[0]["name"], &listed[1]["name"]),
        (&json!("horde"), &json!("second"))
    );
    let twice = city.hd(&["rig", "add", "tool", "--name", "second"]);
    assert_eq!(twice.code, 2, "{twice:?}");
    let relic = city.relic_in("second", "work", &["commit a.txt", "hd done"]);
    assert!(relic.starts_with("se-"), "{relic}");
    city.hd(&["charge", &relic, "second", "--harness", "script"])
        .json();
    city.wait_status(&relic, "closed");
    assert_eq!(
        city.hd(&["rig", "remove", "second"]).code,
        2,
        "it needs consent"
    );
    let removed = city.hd(&["--yes", "rig", "remove", "second"]).json();
    assert_eq!(removed["reload"]["rigs"][0]["rig"], "second", "{removed}");
    assert_eq!(toml(&city).trim_end(), text.trim_end());
    assert!(city.root().join("tool/README").exists());
    assert_eq!(city.hd(&["--yes", "rig", "remove", "second"]).code, 1);
}

/// Every later reload would be refused for it.
#[test]
fn rig_that_the_supervisor_refuses_is_taken_out_of_the_file_again() {
    let city = City::new();
    let before = toml(&city);
    let url = format!("file://{}/nowhere.git", city.root().display());
    let refused = city.hd_text(&["rig", "add", &url, "--name", "far"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let says = |words: &str| assert!(refused.err.contains(words), "{refused:?}");
    says("nothing is changed: the supervisor refuses the rig far");
    says("cannot be reached");
    assert_eq!(toml(&city), before);
    let status = city.ask("status", json!({})).unwrap();
    assert_eq!(status["last_reload_error"], json!(null));
    assert_eq!(city.hd(&["reload"]).code, 0);
}

#[test]
fn list_shows_no_password_of_a_url() {
    let city = City::made(&Plan::new());
    let url = "https://me:secret@forge.invalid/tool.git";
    let added = city.hd(&["rig", "add", url, "--name", "far"]);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(toml(&city).contains(url), "the supervisor needs it");
    let listed = city.hd(&["rig", "list"]).json();
    assert_eq!(listed[1]["remote"], "https://forge.invalid/tool.git");
    let listed = city.hd_text(&["rig", "list"]);
    assert!(!listed.out.contains("secret"), "{listed:?}");
}

/// The directory of a removed rig stays, and so does its work.
#[test]
fn name_of_a_rig_whose_directory_is_taken_is_said() {
    let city = City::new();
    fs::create_dir(city.root().join("work")).unwrap();
    repository(&city.root().join("work/tool"), None, |checkout| {
        write(checkout, "README", "hello\n");
    });
    fs::create_dir(city.root().join("tool")).unwrap();
    let added = city.hd_text(&["rig", "add", "work/tool"]);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(added.err.contains("the rig is named tool-rig"), "{added:?}");
    assert!(added.err.contains("`--name tool`"), "{added:?}");
}

/// A rig that is named by a URL has no checkout: its repository is fetched, and work lands at the remote.
#[test]
fn rig_is_added_by_its_url_and_its_work_lands_at_the_remote() {
    let city = City::new();
    repository(
        &city.root().join("tool"),
        Some("tool-origin.git"),
        |checkout| {
            write(checkout, "README", "hello\n");
        },
    );
    let origin = city.root().join("tool-origin.git");
    let url = format!("file://{}", origin.display());
    let added = city.hd(&["rig", "add", &url, "--prefix", "se"]).json();
    assert_eq!(added["reload"]["rigs"][0]["action"], "added", "{added}");
    let name = added["rig"].as_str().unwrap();
    let listed = city.hd(&["rig", "list"]).json();
    assert_eq!(
        (&listed[1]["name"], &listed[1]["remote"], &listed[1]["path"]),
        (&json!(name), &json!(url), &json!(null))
    );
    assert!(toml(&city).contains(&format!("remote = \"{url}\"")));
    // An ending that hosts ignore makes no other repository of it.
    let twice = city.hd_text(&["rig", "add", url.strip_suffix(".git").unwrap()]);
    assert_eq!(twice.code, 2, "{twice:?}");
    assert!(twice.err.contains("already"), "{twice:?}");
    let relic = city.relic_in(name, "work", &["commit a.txt", "hd done"]);
    city.hd(&["charge", &relic, name, "--harness", "script"])
        .json();
    city.wait_status(&relic, "closed");
    let landed = git(&origin, &["ls-tree", "--name-only", "main"]);
    assert!(landed.lines().any(|file| file == "a.txt"), "{landed}");
}

#[test]
fn rig_is_added_to_a_city_that_does_not_run() {
    let city = City::made(&Plan::without_rigs());
    repository(&city.root().join("tool"), None, |checkout| {
        write(checkout, "README", "hello\n");
    });
    let before = toml(&city);
    for wrong in ["nowhere", "home"] {
        assert_eq!(city.hd(&["rig", "add", wrong]).code, 2, "{wrong}");
    }
    assert_eq!(toml(&city), before);
    let added = city.hd(&["rig", "add", "tool"]).json();
    assert_eq!(
        (&added["rig"], &added["reload"]),
        (&json!("tool-rig"), &json!(null))
    );
    assert_eq!(city.hd(&["config", "check"]).code, 0);
    let before = toml(&city);
    let twice = city.hd_text(&["rig", "add", "./tool/"]);
    assert_eq!(twice.code, 2, "{twice:?}");
    assert!(
        twice.err.contains("is the rig tool-rig already"),
        "{twice:?}"
    );
    assert_eq!(toml(&city), before);
    city.hd(&["rig", "add", "tool", "--name", "again"]).json();
    assert_eq!(city.hd(&["config", "check"]).code, 0);
}

/// Reloads need the right `operate`, and so does every edit of city.toml by `hd`.
#[test]
fn agent_adds_no_rig() {
    let city = City::new();
    city.work(
        "add",
        &[
            "try add hd --json --city $HD_CITY rig add .",
            "sign tried",
            "forever",
        ],
    );
    city.wait_sign("tried");
    let refused = city.wait_tried("add");
    assert_eq!(refused.error(1)["kind"], "forbidden");
    assert!(!toml(&city).contains("Toast"));
}
