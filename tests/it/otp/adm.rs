//! Administration of a single child: start, stop, restart, and their results in every state.

use serde_json::{Value, json};

use super::{
    agent, bystander, flaky, in_state, kill, later, made, pid, put_flaky, runs_as, stamps_of,
    started, with,
};
use crate::support::live::until;
use crate::support::plan::Plan;
use crate::support::processes;

/// `child_adm`: every order in every state, also twice.
#[test]
fn every_order_is_answered_in_every_state() {
    let mut city = started(&with(&[agent("mayor", "polite", ""), bystander()]));
    let first = runs_as(&city, "mayor", 1);
    let order = |verb: &str| city.hd(&["agent", verb, "mayor"]);
    // A process that has not written its stamp yet, or ignores signals, would end without one.
    let spoken = |pid, times| {
        let what = format!("{times} stamps: one for each start and end");
        until(&what, || stamps_of(&city, "mayor").len() == times);
        until("it listens", || processes::hears_term(pid));
    };
    spoken(first, 1);
    order("start").json();
    later(&city);
    assert_eq!(runs_as(&city, "mayor", 1), first, "it runs already");
    for _ in 0..2 {
        assert_eq!(order("stop").json()["state"], "stopped");
        assert!(!processes::runs(first));
        assert_eq!(in_state(&city, "mayor", "stopped")["pid"], Value::Null);
    }
    let stopped = city.happened("agent.stopped", "mayor");
    assert_eq!(stopped.len(), 1, "once: {stopped:?}");
    order("restart").json();
    let second = runs_as(&city, "mayor", 2);
    assert_ne!(first, second);
    spoken(second, 3);
    order("restart").json();
    let third = runs_as(&city, "mayor", 3);
    assert!(!processes::runs(second));
    spoken(third, 5);
    assert_eq!(order("unquarantine").error(1)["kind"], "conflict");
    order("stop").json();
    order("start").json();
    let fourth = runs_as(&city, "mayor", 4);
    assert!(!processes::runs(third));
    spoken(fourth, 7);
    let started = city.happened("agent.started", "mayor");
    let causes: Vec<_> = started
        .iter()
        .skip(1)
        .map(|event| &event["cause"])
        .collect();
    assert_eq!(causes, ["operator"; 3]);
    for verb in ["start", "stop", "restart", "unquarantine"] {
        assert_eq!(
            city.hd(&["agent", verb, "nobody"]).error(4)["kind"],
            "not_found"
        );
    }
    order("stop").json();
    city.stop();
    city.start();
    // A daemon that never ran the child still knows it.
    in_state(&city, "mayor", "stopped");
    assert_eq!(
        city.hd(&["agent", "stop", "mayor"]).json()["state"],
        "stopped"
    );
    city.hd(&["agent", "restart", "mayor"]).json();
    in_state(&city, "mayor", "running");
}

/// `extra_return`: a session belongs to its agent, however it was started: one at a time, under one name.
#[test]
fn the_name_of_a_session_outlives_it_and_there_is_only_ever_one() {
    let mut city = started(&with(&[agent("mayor", "polite", "")]));
    let session = |generation| {
        let pid = runs_as(&city, "mayor", generation);
        // The daemon, the holder, the agent and its child process.
        until("one session", || processes::of(city.root()).len() == 4);
        assert!(processes::runs(pid));
        super::shown(&city, "mayor")["session"].clone()
    };
    assert_eq!(session(1), "e2e-mayor");
    city.hd(&["agent", "restart", "mayor"]).json();
    assert_eq!(session(2), "e2e-mayor");
    kill(&city, "mayor");
    assert_eq!(session(3), "e2e-mayor");
    city.kill();
    city.start();
    let adopted = in_state(&city, "mayor", "running");
    assert_eq!(
        (&adopted["generation"], &adopted["session"]),
        (&json!(3), &json!("e2e-mayor"))
    );
}

/// `sup_start_child_returns_error`, `sup_start_restart_child_returns_error`: the caller that starts a child that cannot
/// start gets the reason, and the child stays at rest.
#[test]
fn failed_start_is_answered_with_its_reason() {
    let mut city = made(&with(&[flaky(), bystander()]));
    put_flaky(&city, "polite");
    city.start();
    runs_as(&city, "flaky", 1);
    city.hd(&["agent", "stop", "flaky"]).json();
    std::fs::remove_file(city.root().join("flaky")).unwrap();
    for verb in ["start", "restart"] {
        let error = city.hd(&["agent", verb, "flaky"]).error(1);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("./flaky"), "{message}");
        assert!(message.to_lowercase().contains("no such file"), "{message}");
        later(&city);
        assert_eq!(in_state(&city, "flaky", "stopped")["restarts"], 0);
    }
    city.stop();
    put_flaky(&city, "polite");
    city.start();
    in_state(&city, "later", "running");
    later(&city);
    in_state(&city, "flaky", "stopped");
    city.hd(&["agent", "start", "flaky"]).json();
    pid(&in_state(&city, "flaky", "running"));
}

/// `already_started_outside_supervisor`: a foreign session of that name is left alone, and the agent's start says so.
/// Only on tmux can a stranger take a name.
#[test]
fn a_strangers_session_of_the_same_name_is_not_ended() {
    use crate::support::tmux;
    use horde_supervisor::domain::city::tmux_server;
    use std::process::Command;

    if !tmux::is_there() {
        return;
    }
    let plan = Plan::new().set("session", "provider", "\"tmux\"");
    let plan = plan.add(&agent("mayor", "rest", "restart = \"temporary\""));
    let mut city = made(&plan);
    let server = tmux_server(city.root(), "");
    let tmux = |words: &[&str]| {
        let mut tmux = Command::new("tmux");
        let output = tmux.args(["-L", &server]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-s",
        "e2e-mayor",
        "exec sleep 1000",
    ]);
    let stranger: u32 = tmux(&["list-panes", "-a", "-F", "#{pane_pid}"])
        .trim()
        .parse()
        .unwrap();
    city.start();
    let crashed = city.wait_event(1, "agent.crashed", "mayor");
    let error = crashed["data"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("e2e-mayor"), "{crashed}");
    assert!(processes::runs(stranger));
    city.stop();
    assert!(processes::runs(stranger), "not ours to end");
    tmux(&["kill-server"]);
    until("it is gone", || !processes::runs(stranger));
    let uid = nix::unistd::geteuid();
    std::fs::remove_file(format!("/tmp/tmux-{uid}/{server}")).unwrap();
}
