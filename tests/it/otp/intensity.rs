//! Intensity: the number of deaths within the window, and its consequence. OTP's supervisor gives up as a whole; ours
//! quarantines the child.

use nix::sys::signal::Signal;
use serde_json::json;

use super::{
    agent, counted, flaky, in_state, kill, made, put_flaky, runs_as, shown, stamps_of, started,
    with,
};
use crate::support::live::until;
use crate::support::processes;

/// `multiple_restarts`: deaths that are far enough apart never reach the limit.
#[test]
fn deaths_that_are_a_window_apart_never_quarantine() {
    let plan = with(&[agent("slow", "rest", "")]);
    let plan = plan.set("daemon", "max_restarts", "1");
    let city = started(&plan.set("daemon", "restart_window", "\"300ms\""));
    for generation in 1..=4 {
        runs_as(&city, "slow", generation);
        kill(&city, "slow");
        runs_as(&city, "slow", generation + 1);
        until("the death is forgotten", || {
            shown(&city, "slow")["restarts"] == 0
        });
    }
    assert!(city.happened("agent.quarantined", "slow").is_empty());
}

/// `one_for_one`, `one_for_one_escalation`: only the dead child is started again, with a new pid; failed attempts count
/// as deaths; the death after the last allowed one reaches the limit, and no other child is concerned.
#[test]
fn failed_attempts_count_and_the_limit_is_per_child() {
    let parts = [flaky(), agent("other", "rest", "")];
    let mut city = made(&with(&parts).set("daemon", "max_restarts", "4"));
    put_flaky(&city, "rest");
    city.start();
    let (first, other) = (runs_as(&city, "flaky", 1), runs_as(&city, "other", 1));
    kill(&city, "flaky");
    assert_ne!(runs_as(&city, "flaky", 2), first);
    let second = counted(&city, "flaky");
    std::fs::remove_file(city.root().join("flaky")).unwrap();
    processes::signal(second, Signal::SIGKILL);
    city.wait_event(1, "agent.quarantined", "flaky");
    let crashed = city.happened("agent.crashed", "flaky");
    let causes: Vec<_> = crashed.iter().map(|event| &event["cause"]).collect();
    let expected = [
        "session_died",
        "session_died",
        "start_failed",
        "start_failed",
        "start_failed",
    ];
    assert_eq!(causes, expected);
    assert_eq!(shown(&city, "flaky")["restarts"], 5);
    assert_eq!(runs_as(&city, "other", 1), other);
    assert_eq!(stamps_of(&city, "other"), ["up"]);
    city.hd(&["agent", "unquarantine", "flaky"]).error(1);
    put_flaky(&city, "rest");
    city.hd(&["agent", "start", "flaky"]).json();
    in_state(&city, "flaky", "running");
}

/// `count_restarting_children`: a child between two attempts is listed, and does not count as running.
#[test]
fn child_that_waits_for_its_restart_is_listed_as_such() {
    let backoff =
        r#"{ first = "10m", initial = "10m", max = "10m", multiplier = 1.0, jitter = 0.0 }"#;
    let parts = [agent("waits", "rest", ""), agent("runs", "rest", "")];
    let city = started(&with(&parts).set("daemon", "restart_backoff", backoff));
    runs_as(&city, "runs", 1);
    kill(&city, "waits");
    let waits = in_state(&city, "waits", "backoff");
    assert_eq!(
        (&waits["pid"], &waits["restarts"]),
        (&json!(null), &json!(1))
    );
    let agents = city.ask("agent.list", json!({})).unwrap();
    assert_eq!(agents.as_array().unwrap().len(), 2);
    // An operator need not wait for the back-off.
    city.hd(&["agent", "restart", "waits"]).json();
    runs_as(&city, "waits", 2);
}
