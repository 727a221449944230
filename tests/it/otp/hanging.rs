//! A child that fails to start again and again: everything else is unaffected.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{bystander, counted, flaky, group, in_state, later, made, put_flaky, shown, with};
use crate::support::live::{City, until};
use crate::support::processes;

/// The limit of an answer on a busy machine: far less than endless attempts with back-off would take.
const PROMPT: Duration = Duration::from_secs(20);

/// Makes a city whose flaky agent is retried for ever.
fn looping(more: &[String]) -> City {
    let parts = [&[flaky(), bystander()], more].concat();
    let mut city = made(&with(&parts).set("daemon", "max_restarts", "0"));
    put_flaky(&city, "rest");
    city.start();
    let pid = counted(&city, "flaky");
    for name in ["later", "after"] {
        until("the others run", || {
            [&Value::Null, &Value::from("running")].contains(&&shown(&city, name)["state"])
        });
    }
    std::fs::remove_file(city.root().join("flaky")).unwrap();
    processes::signal(pid, nix::sys::signal::Signal::SIGKILL);
    city.wait_event(5, "agent.crashed", "flaky");
    city
}

/// `hanging_restart_loop`, `hanging_restart_loop_simple`: the daemon answers, reports the error, and a stop ends the
/// loop.
#[test]
fn restart_loop_delays_no_other_and_a_stop_ends_it() {
    let mut city = looping(&[]);
    let begun = Instant::now();
    let state = shown(&city, "flaky")["state"].clone();
    assert!(state == "backoff" || state == "starting", "{state}");
    for verb in ["start", "restart"] {
        let error = city.hd(&["agent", verb, "flaky"]).error(1);
        assert!(
            error["message"].as_str().unwrap().contains("./flaky"),
            "{error}"
        );
    }
    assert_eq!(
        city.hd(&["agent", "unquarantine", "flaky"]).error(1)["kind"],
        "conflict"
    );
    city.wait_event(10, "agent.crashed", "flaky");
    city.hd(&["agent", "stop", "flaky"]).json();
    assert_eq!(shown(&city, "flaky")["state"], "stopped");
    later(&city);
    let crashes = city.happened("agent.crashed", "flaky").len();
    later(&city);
    assert_eq!(city.happened("agent.crashed", "flaky").len(), crashes);
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    city.stop();
}

/// `hanging_restart_loop`, the end: the daemon's own stop does not wait for the loop.
#[test]
fn a_stop_of_everything_ends_the_loop() {
    let mut city = looping(&[]);
    let begun = Instant::now();
    city.stop();
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
}

/// `hanging_restart_loop_rest_for_one`: the members after it wait, and one of them can be laid to rest; after a stop of
/// the culprit the last one runs.
#[test]
fn those_after_it_wait_and_can_be_stopped() {
    let others = ["after", "last"].map(|name| super::agent(name, "polite", ""));
    let rest = group("rest_for_one", &["flaky", "after", "last"]);
    let city = looping(&[others.concat(), rest]);
    in_state(&city, "after", "backoff");
    in_state(&city, "last", "backoff");
    city.hd(&["agent", "stop", "after"]).json();
    assert_eq!(shown(&city, "after")["state"], "stopped");
    city.hd(&["agent", "stop", "flaky"]).json();
    in_state(&city, "last", "running");
    assert_eq!(shown(&city, "after")["state"], "stopped");
    assert_eq!(shown(&city, "flaky")["state"], "stopped");
}
