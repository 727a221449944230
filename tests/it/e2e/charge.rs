//! Work that waits its turn: dependencies, priorities, free slots (`rules.md`, charge;
//! `contract.md`, `auto_charge`).

use serde_json::{Value, json};

use crate::support::live::asks::body;
use crate::support::plan::Plan;

/// `hd run --after`: charged when its dependency has closed, not before.
#[test]
fn work_after_other_work_is_charged_when_that_has_closed() {
    let city = Plan::new().set("raiders", "auto_charge", "true").start();
    let first = city.relic(
        "first",
        &["sign first", "await go", "commit a.txt", "hd done"],
    );
    city.wait_sign("first");
    let task = format!(
        "second\n\n{}",
        body(&["test -e a.txt", "commit b.txt", "hd done"])
    );
    let ran = city.hd(&["run", &task, "--after", &first, "-d"]).json();
    assert_eq!(ran["relics"][0]["raider"], Value::Null, "{ran}");
    let second = ran["relics"][0]["relic"].as_str().unwrap().to_owned();
    assert_eq!(city.status_of(&second), "open");
    assert_eq!(city.raiders().len(), 1);
    city.sign("go");
    city.wait_status(&second, "closed");
    assert_eq!(city.status_of(&first), "closed");
    assert!(city.landed().contains(&"b.txt".to_owned()));
}

/// Ready relics go to free slots by priority, then age, as slots become free.
#[test]
fn ready_relics_are_charged_by_priority_then_age() {
    let city = Plan::new()
        .set("raiders", "auto_charge", "true")
        .set("raiders", "max", "1")
        .start();
    let mut expected =
        vec![city.relic("first", &["sign first", "await go", "commit 0", "hd done"])];
    city.wait_sign("first");
    let make = |name: &str, priority: i64| {
        let steps = body(&[&format!("commit {name}"), "hd done"]);
        let args = json!({ "title": name, "body": steps, "rig": "horde", "priority": priority });
        let relic = city.ask("relic.create", args).unwrap();
        relic["id"].as_str().unwrap().to_owned()
    };
    let (low, older) = (make("1", 0), make("2", 1));
    let (newer, high) = (make("3", 1), make("4", 4));
    expected.extend([high, older, newer, low]);
    city.sign("go");
    for relic in &expected {
        city.wait_status(relic, "closed");
    }
    let charged = city.happened("raider.charged", "horde/raiders/Toast");
    let order: Vec<_> = charged
        .iter()
        .map(|event| event["data"]["relic"].as_str().unwrap())
        .collect();
    assert_eq!(order, expected);
}

/// Without `auto_charge` nothing is charged without a request.
#[test]
fn without_auto_charge_ready_work_waits_to_be_charged() {
    let city = Plan::new().start();
    let first = city.work("first", &["await go", "commit a.txt", "hd done"]);
    let ran = city.hd(&["run", "second", "--after", &first, "-d"]).json();
    let second = ran["relics"][0]["relic"].as_str().unwrap().to_owned();
    city.sign("go");
    city.wait_status(&first, "closed");
    city.wait_no_raiders();
    assert_eq!(city.status_of(&second), "open");
    assert_eq!(
        city.happened("raider.charged", "horde/raiders/Toast").len(),
        1
    );
}

/// A pause is stored: a supervisor that was killed charges nothing after its next start either.
#[test]
fn pause_of_automatic_charging_outlives_a_killed_supervisor() {
    let mut city = Plan::new().set("raiders", "auto_charge", "true").start();
    let told = city.hd_text(&["charge", "pause"]).out;
    assert!(told.contains("hd charge resume"), "{told}");
    let waits = city.relic("waits", &["commit a.txt", "hd done"]);
    city.kill();
    city.start();
    let shown = city.hd_text(&["status"]).out;
    assert!(
        shown.contains("automatic charging paused by operator"),
        "{shown}"
    );
    let ready = city.hd_text(&["relic", "ready"]).out;
    assert!(ready.contains("automatic charging is paused"), "{ready}");
    let why = city.hd_text(&["why", &waits]).out;
    assert!(why.contains("`hd charge resume` resumes it"), "{why}");
    // What is asked for is charged.
    let asked = city.work("asked", &["commit b.txt", "hd done"]);
    city.wait_status(&asked, "closed");
    assert_eq!(city.status_of(&waits), "open");
    assert!(city.hd(&["charge", "resume"]).json()["changed"] == true);
    city.wait_status(&waits, "closed");
}

/// `hd run -f FILE --after RELIC`: each task of the file waits.
#[test]
fn tasks_of_a_file_wait_for_the_relic_they_come_after() {
    let city = Plan::new().set("raiders", "auto_charge", "true").start();
    let first = city.relic("first", &["await go", "commit a.txt", "hd done"]);
    let line = |name: &str| {
        let steps = body(&["test -e a.txt", &format!("commit {name}"), "hd done"]);
        json!({ "title": name, "body": steps }).to_string()
    };
    let file = city.root().join("tasks");
    std::fs::write(&file, [line("b.txt"), line("c.txt")].join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let ran = city
        .hd(&["run", "-f", file, "--after", &first, "-d"])
        .json();
    let relics: Vec<_> = ran["relics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["relic"].as_str().unwrap().to_owned())
        .collect();
    for relic in &relics {
        let shown = city.hd(&["relic", "show", relic]).json();
        assert_eq!(
            (&shown["deps"], &shown["status"]),
            (&json!([first]), &json!("open"))
        );
    }
    city.sign("go");
    for relic in &relics {
        city.wait_status(relic, "closed");
    }
}
