//! A process that a gate or a set-up command leaves without parent, session and environment may only read, and does not
//! outlive its run.

use std::fs;

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// Makes a city whose gate and set-up command leave such a process each.
fn city() -> City {
    let hd = cargo_bin("hd");
    let stray = |who: &str| {
        format!(
            "sh $PWD/../../../stray.sh {who} {} $PWD/../../..",
            hd.display()
        )
    };
    let gates = format!("[{{ name = \"test\", run = {:?} }}]", stray("gate"));
    let plan = Plan::new().set("forge", "gates", &gates);
    let plan = plan.set("raiders", "setup", &format!("[{:?}]", stray("setup")));
    let plan = plan.set("raiders", "auto_charge", "true");
    let mut city = City::made(&plan);
    write(city.root(), "stray.sh", include_str!("../support/stray.sh"));
    city.start();
    city
}

fn read(city: &City, name: &str) -> String {
    fs::read_to_string(city.root().join("signs").join(name)).unwrap_or_default()
}

/// Waits until the stray of this program was refused twice. Returns its pid.
fn wait_refused(city: &City, who: &str) -> u32 {
    let tries = || read(city, &format!("{who}-codes")).lines().count();
    until("the stray has tried", || tries() >= 2);
    let error: Value = serde_json::from_str(&read(city, &format!("{who}-error"))).unwrap();
    assert_eq!(error["error"]["kind"], "forbidden", "{who}: {error}");
    let pid = read(city, &format!("{who}-stray"));
    let pid = pid.trim().parse().unwrap();
    assert!(processes::runs(pid));
    pid
}

fn wait_ended(pid: u32) {
    until("the stray has ended", || !processes::runs(pid));
}

/// Asserts that every try of a stray has failed, and that there is no relic besides this one.
fn assert_nothing_done(city: &City, relic: &str) {
    for who in ["setup", "gate"] {
        let codes = read(city, &format!("{who}-codes"));
        assert!(codes.lines().all(|code| code != "0"), "{who}: {codes}");
    }
    let relics = city.ask("relic.list", json!({})).unwrap();
    let ids: Vec<_> = relics
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, [relic]);
    assert!(city.all_of("mr.approved").is_empty());
}

#[test]
fn stray_of_a_gate_or_a_set_up_only_looks_and_ends_with_its_run() {
    let mut city = city();
    let relic = city.relic("change", &["commit a.txt", "hd done"]);
    for who in ["setup", "gate"] {
        let stray = wait_refused(&city, who);
        city.sign(&format!("{who}-go"));
        wait_ended(stray);
    }
    city.wait_status(&relic, "closed");
    assert_nothing_done(&city, &relic);
    city.stop();
}

#[test]
fn stray_of_a_gate_ends_with_a_cancel() {
    let city = city();
    city.sign("setup-go");
    let relic = city.relic("change", &["commit a.txt", "hd done"]);
    let stray = wait_refused(&city, "gate");
    city.hd(&["cancel", &relic, "--yes"]).json();
    wait_ended(stray);
    assert_nothing_done(&city, &relic);
}

#[test]
fn stray_of_a_gate_ends_with_a_stop() {
    let mut city = city();
    city.sign("setup-go");
    city.relic("change", &["commit a.txt", "hd done"]);
    let stray = wait_refused(&city, "gate");
    city.stop();
    assert!(!processes::runs(stray), "{}", processes::describe(&[stray]));
}

#[test]
fn stray_of_a_set_up_ends_with_a_stop() {
    let mut city = city();
    city.relic("change", &["commit a.txt", "hd done"]);
    let stray = wait_refused(&city, "setup");
    city.stop();
    assert!(!processes::runs(stray), "{}", processes::describe(&[stray]));
}

/// The keeper goes on without the supervisor; the next one knows both by the keeper's mark.
#[test]
fn stray_of_a_killed_supervisor_only_looks_and_is_ended_by_the_next() {
    for who in ["setup", "gate"] {
        let mut city = city();
        if who == "gate" {
            city.sign("setup-go");
        }
        let relic = city.relic("change", &["commit a.txt", "hd done"]);
        let stray = wait_refused(&city, who);
        city.kill();
        let tries = || read(&city, &format!("{who}-codes")).lines().count();
        let before = tries();
        wait("the stray tries on", || {
            (tries() > before + 1).then_some(())
        });
        assert!(processes::runs(stray), "it outlives the supervisor");
        city.start();
        wait_ended(stray);
        assert_nothing_done(&city, &relic);
    }
}
