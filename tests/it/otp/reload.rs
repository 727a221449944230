//! Reload, the counterpart of OTP's `code_change`: changes of a supervisor's flags and children at runtime.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    agent, bystander, flaky, group, in_state, kill, later, made, put_flaky, runs_as, shown,
    started, with,
};
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::processes;

/// Saves as an editor does. Returns when the change is applied.
fn save(city: &City, plan: &Plan) -> Value {
    let new = city.root().join(".city.toml.new");
    fs::write(&new, plan.toml()).unwrap();
    fs::rename(new, city.root().join("city.toml")).unwrap();
    city.hd(&["reload"]).json()
}

/// `code_change`, `code_change_map`, `code_change_simple`: flags apply from the next death on and change no pid, nor do
/// keys that need no restart; a child that is no longer configured ends (OTP: it runs on), and a new one starts (OTP:
/// it waits).
#[test]
fn reload_changes_flags_and_children_and_no_other_pid() {
    let kept = agent("kept", "polite", "");
    let city = started(&with(&[
        kept.clone(),
        agent("gone", "polite", ""),
        bystander(),
    ]));
    let (pid, gone) = (runs_as(&city, "kept", 1), runs_as(&city, "gone", 1));
    let live = kept.clone() + "shutdown_timeout = \"3s\"\nrestart = \"transient\"\n";
    let next = with(&[live, agent("new", "polite", ""), bystander()]);
    let told = save(&city, &next.set("daemon", "max_restarts", "1"));
    assert_eq!(
        told["actions"],
        json!([
            { "agent": "kept", "action": "live" }, { "agent": "new", "action": "start" },
            { "agent": "later", "action": "none" }, { "agent": "gone", "action": "drain" },
        ])
    );
    runs_as(&city, "new", 1);
    city.wait_event(1, "agent.stopped", "gone");
    assert!(!processes::runs(gone));
    assert_eq!(shown(&city, "gone"), Value::Null);
    assert_eq!(runs_as(&city, "kept", 1), pid);
    // The new flag: the second death is one too many.
    for generation in 1..=2 {
        runs_as(&city, "new", generation);
        kill(&city, "new");
    }
    city.wait_event(1, "agent.quarantined", "new");
    // The new restart type: the agent rests after a good end.
    processes::signal(pid, Signal::SIGTERM);
    city.wait_event(1, "agent.stopped", "kept");
    in_state(&city, "kept", "stopped");
}

/// The deletion of a specification in every state of its child (`child_adm`: delete); a later specification of the same
/// name is a new child.
#[test]
fn a_specification_can_go_in_every_state_and_come_again() {
    let waits = agent("waits", "exit 1", "");
    let parts = [
        flaky(),
        waits,
        agent("stopped", "polite", ""),
        agent("suspended", "polite", "suspended = true"),
        agent("over", "exit 0", "restart = \"transient\""),
        agent("blocked", "polite", "depends_on = [\"suspended\"]"),
        agent("runs", "polite", ""),
        bystander(),
    ];
    let backoff =
        r#"{ first = "10m", initial = "10m", max = "10m", multiplier = 1.0, jitter = 0.0 }"#;
    let plan = |parts: &[String]| with(parts).set("daemon", "restart_backoff", backoff);
    let mut city = made(&plan(&parts));
    city.start();
    let states = [
        "backoff",
        "backoff",
        "stopped",
        "suspended",
        "stopped",
        "blocked",
        "running",
    ];
    let names = [
        "flaky",
        "waits",
        "stopped",
        "suspended",
        "over",
        "blocked",
        "runs",
    ];
    runs_as(&city, "stopped", 1);
    city.hd(&["agent", "stop", "stopped"]).json();
    for (name, state) in names.iter().zip(states) {
        in_state(&city, name, state);
    }
    save(&city, &plan(&[bystander()]));
    later(&city);
    for name in names {
        crate::support::live::until("it is gone", || shown(&city, name).is_null());
        city.hd(&["agent", "restart", name]).error(4);
    }
    put_flaky(&city, "rest");
    save(&city, &plan(&parts));
    for (name, state) in names.iter().zip(["running"].iter().chain(&states[1..])) {
        in_state(&city, name, state);
    }
    city.stop();
}

/// A group that changes while it is restarted: no member is forgotten.
#[test]
fn group_removed_while_it_restarts_leaves_no_process_behind() {
    let lines = "[ $n = 1 ] || [ -e $signs/mended ] || exit 1\npolite";
    let agents = [
        agent("zeta", "polite", ""),
        agent("alpha", lines, ""),
        agent("mike", "polite", ""),
    ];
    let alone = with(&agents).set("daemon", "max_restarts", "2");
    let together = group("one_for_all", &["zeta", "alpha", "mike"]);
    let plan = with(&agents)
        .add(&together)
        .set("daemon", "max_restarts", "2");
    let city = started(&plan);
    runs_as(&city, "mike", 1);
    kill(&city, "alpha");
    city.wait_event(1, "agent.quarantined", "alpha");
    in_state(&city, "mike", "backoff");
    save(&city, &alone);
    in_state(&city, "zeta", "running");
    in_state(&city, "mike", "running");
    assert_eq!(shown(&city, "alpha")["state"], "quarantined");
    city.sign("mended");
    city.hd(&["agent", "unquarantine", "alpha"]).json();
    in_state(&city, "alpha", "running");
}

/// A culprit whose specification was mended is released (`rules.md`, restart), and with it the children that
/// waited for it.
#[test]
fn a_culprit_that_is_mended_by_a_reload_lets_its_group_go_on() {
    let zeta = agent("zeta", "polite", "");
    let group = group("one_for_all", &["zeta", "alpha"]);
    let bad = [
        zeta.clone(),
        agent("alpha", "[ $n = 1 ] || exit 1\npolite", ""),
        group.clone(),
    ];
    let good = [zeta, agent("alpha", "polite", ""), group];
    let plan = |parts: &[String]| with(parts).set("daemon", "max_restarts", "2");
    let city = started(&plan(&bad));
    runs_as(&city, "zeta", 1);
    kill(&city, "alpha");
    city.wait_event(1, "agent.quarantined", "alpha");
    in_state(&city, "zeta", "backoff");
    save(&city, &plan(&good));
    in_state(&city, "alpha", "running");
    in_state(&city, "zeta", "running");
}
