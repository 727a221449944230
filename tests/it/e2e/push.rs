//! A remote that will not take a raider's branch: a person is told, and has a way out.

use std::fs;

use serde_json::json;

use crate::support::live::{City, until};
use crate::support::program;

const TOAST: &str = "horde/raiders/Toast";

/// The remote has a rule about the names of branches.
#[test]
fn a_branch_that_the_remote_forbids_is_escalated_and_can_be_given_up() {
    let city = City::new();
    let hook = city.origin().join("hooks/update");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let rule = "case $1 in refs/heads/raider/*) echo not that name >&2; exit 1;; esac";
    program::script(&hook, rule);
    let steps = [
        "[ $n = 1 ] || { await lifted; commit b.txt; hd done; forever; }",
        "commit a.txt",
        "hd done",
        "forever",
    ];
    let relic = city.work("be refused", &steps);
    until("somebody is told", || {
        city.ask("status", json!({})).unwrap()["escalations"] == 1
    });
    let told = city.hd(&["escalations"]).json().to_string();
    assert!(
        told.contains("not that name") && told.contains("--salvage"),
        "{told}"
    );
    let refused = city.hd(&["raider", "nuke", "Toast", "--yes"]).error(1);
    assert_eq!(refused["kind"], "conflict");
    city.hd(&["raider", "nuke", "Toast", "--salvage", "--yes"])
        .json();
    city.wait_no_raiders();
    assert_eq!(city.status_of(&relic), "open");
    assert_eq!(city.happened("raider.done_withdrawn", TOAST).len(), 1);
    assert_eq!(
        city.hd(&["salvage", "list"])
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    fs::remove_file(&hook).unwrap();
    city.sign("lifted");
    city.charge(&relic);
    city.wait_status(&relic, "closed");
}
