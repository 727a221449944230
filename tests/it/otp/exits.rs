//! Restart type × kind of end: the children that are started again.

use serde_json::{Value, json};

use super::{agent, bystander, in_state, later, runs_as, stamps_of, started, with};
use crate::support::live::City;
use crate::support::processes;

/// The ends of a stub: a name, its command, and code and signal in the journal.
const ENDS: [(&str, &str, Option<i64>, Option<i64>); 5] = [
    ("normal", "exit 0", Some(0), None),
    ("shutdown", "kill -TERM $$", None, Some(15)),
    ("error", "exit 1", Some(1), None),
    ("segv", "kill -SEGV $$", None, Some(11)),
    ("kill", "kill -KILL $$", None, Some(9)),
];

/// Returns whether OTP restarts the child: a permanent one always, a transient one unless it ended with `normal` or
/// `shutdown`, a temporary one never.
fn comes_back(restart: &str, end: &str) -> bool {
    match restart {
        "permanent" => true,
        "transient" => !["normal", "shutdown"].contains(&end),
        _ => false,
    }
}

fn cells() -> Vec<(&'static str, String, usize)> {
    let types = ["permanent", "transient", "temporary"];
    let cell = |restart| {
        (0..ENDS.len()).map(move |end| (restart, format!("{restart}-{}", ENDS[end].0), end))
    };
    types.into_iter().flat_map(cell).collect()
}

fn starts(city: &City, name: &str) -> Vec<Value> {
    city.happened("agent.started", name)
}

/// `permanent_normal`, `transient_normal`, `temporary_normal`, `permanent_shutdown`, `transient_shutdown`,
/// `temporary_shutdown`, `permanent_abnormal`, `transient_abnormal`, `temporary_abnormal`; and
/// `external_start_no_progress_log`: an operator's start is told apart from a restart, once.
#[test]
fn restart_type_decides_after_which_exit_a_child_restarts() {
    let mut parts: Vec<_> = cells()
        .iter()
        .map(|(restart, name, end)| {
            let lines = format!("[ $n != 1 ] || {{ await go; {}; }}\nrest", ENDS[*end].1);
            let keys = format!("restart = \"{restart}\"\nshutdown_timeout = \"0s\"");
            agent(name, &lines, &keys)
        })
        .collect();
    parts.push(bystander());
    let city = started(&with(&parts));
    for (_, name, _) in cells() {
        runs_as(&city, &name, 1);
    }
    city.sign("go");
    for (restart, name, end) in cells() {
        let (kind, _, code, signal) = ENDS[end];
        // An end that its type accepts as good is no crash.
        let good = restart != "permanent" && ["normal", "shutdown"].contains(&kind);
        let word = if good {
            "agent.stopped"
        } else {
            "agent.crashed"
        };
        let ended = city.wait_event(1, word, &name);
        assert_eq!(ended["data"]["code"], json!(code), "{name}");
        assert_eq!(ended["data"]["signal"], json!(signal), "{name}");
        assert_eq!(
            city.happened("agent.crashed", &name).is_empty(),
            good,
            "{name}"
        );
        if comes_back(restart, ENDS[end].0) {
            runs_as(&city, &name, 2);
            assert_eq!(starts(&city, &name)[1]["cause"], "session_died", "{name}");
        } else {
            city.wait_event(1, "agent.stopped", &name);
        }
    }
    later(&city);
    for (restart, name, end) in cells() {
        let back = comes_back(restart, ENDS[end].0);
        assert_eq!(starts(&city, &name).len(), 1 + usize::from(back), "{name}");
        if back {
            continue;
        }
        let resting = in_state(&city, &name, "stopped");
        assert_eq!(resting["pid"], Value::Null, "it keeps its place: {resting}");
        city.hd(&["agent", "start", &name]).json();
        runs_as(&city, &name, 2);
        let again = starts(&city, &name);
        assert_eq!((again.len(), &again[1]["cause"]), (2, &json!("operator")));
    }
}

/// `faulty_application_shutdown`: a program that cannot be started is reported at once, by its name.
#[test]
fn a_command_that_does_not_exist_is_named() {
    let ghost = "[[agents]]\nname = \"ghost\"\nrestart = \"temporary\"\n\
                 command = [\"no-such-program\"]\n";
    let city = started(&with(&[ghost.to_owned(), agent("other", "rest", "")]));
    let crashed = city.wait_event(1, "agent.crashed", "ghost");
    let error = crashed["data"]["error"].as_str().unwrap();
    assert!(error.contains("no-such-program"), "{error}");
    assert!(error.contains("PATH"), "{error}");
    assert_eq!(crashed["cause"], "start_failed");
    in_state(&city, "ghost", "stopped");
    runs_as(&city, "other", 1);
}

/// `sup_stop_race`: a child that ends by itself during the stop is not started again, with any restart type, and the
/// order of the others is kept.
#[test]
fn child_that_ends_during_the_stop_stays_down() {
    let names: Vec<_> = cells().into_iter().map(|(_, name, _)| name).collect();
    let mut parts = vec![agent("base", "polite", "")];
    for (restart, name, end) in cells() {
        let keys = format!("restart = \"{restart}\"\ndepends_on = [\"base\"]");
        let lines = format!("await stopping; stamp over; {}", ENDS[end].1);
        parts.push(agent(name.as_str(), &lines, &keys));
    }
    // Ended first, but exits only after all the others: their ends must not depend on its exit.
    let lines = "gone() { [ $(grep -c over stamps) = 15 ] && sleep 0.3 && stamp down && exit 0; }\n\
                 trap 'sign stopping; until gone; do sleep 0.05; done' INT TERM\nrest";
    let keys = format!("shutdown_timeout = \"1m\"\ndepends_on = {names:?}");
    parts.push(agent("first", lines, &keys));
    let mut city = started(&with(&parts));
    runs_as(&city, "first", 1);
    city.stop();
    let stamps = super::stamps(&city);
    let last: Vec<_> = stamps[stamps.len() - 2..].iter().collect();
    assert_eq!(last, ["first down", "base down"]);
    for name in names {
        assert_eq!(stamps_of(&city, &name), ["up", "over"]);
    }
    let left = processes::of(city.root());
    assert!(left.is_empty(), "{}", processes::describe(&left));
}
