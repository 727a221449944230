//! `restart_history = "persistent"`: a quarantine outlives `kill -9` of the daemon.

use serde_json::{Value, json};

use crate::support::live::{City, LIMIT, wait};
use crate::support::plan::Plan;

/// Dies until the file `mended` exists.
const FRAGILE: &str = "[ -e mended ] || exit 1; while read -r line; do :; done";

fn fragile(city: &City) -> Value {
    city.ask("agent.list", json!({})).unwrap()[0].clone()
}

fn wait_state(city: &City, state: &str) -> Value {
    wait(&format!("it is {state}"), || {
        Some(fragile(city)).filter(|agent| agent["state"] == state)
    })
}

#[test]
fn a_quarantine_outlives_the_kill_of_the_daemon_until_an_operator_ends_it() {
    let plan = Plan::new()
        .set("daemon", "max_restarts", "2")
        .set("daemon", "restart_history", r#""persistent""#)
        .agent("fragile", FRAGILE, "");
    let mut city = plan.start();
    city.wait_event(1, "agent.quarantined", "fragile");
    let until = wait_state(&city, "quarantined")["quarantined_until"].clone();
    for _ in 0..2 {
        city.kill();
        city.start();
        let agent = wait_state(&city, "quarantined");
        assert_eq!(agent["restarts"], 3);
        let time = |at: &Value| at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let moved = time(&agent["quarantined_until"]).duration_since(time(&until));
        assert!(
            moved.unsigned_abs() < LIMIT,
            "it began anew: {until} {agent}"
        );
    }
    assert_eq!(city.happened("agent.started", "fragile").len(), 3);
    std::fs::write(city.root().join("mended"), "").unwrap();
    city.hd(&["agent", "unquarantine", "fragile"]).json();
    let agent = wait_state(&city, "running");
    assert_eq!(agent["restarts"], 0);
    city.kill();
    city.start();
    city.wait_event(1, "agent.adopted", "fragile");
    assert_eq!(wait_state(&city, "running")["restarts"], 0);
}
