//! Groups: the members that a death concerns besides the dead one.

use serde_json::json;

use super::{agent, bystander, group, in_state, kill, later, runs_as, shown, started, with};
use crate::support::live::{City, until};

const NAMES: [&str; 3] = ["zeta", "alpha", "mike"];

/// Three polite agents in a group.
fn three(strategy: &str) -> Vec<String> {
    let agents = NAMES.iter().map(|name| agent(name, "polite", ""));
    agents
        .chain([group(strategy, &NAMES), bystander()])
        .collect()
}

/// Waits until all three have run this often.
fn generations(city: &City, wanted: [u64; 3]) -> Vec<u32> {
    let each = NAMES.iter().zip(wanted);
    each.map(|(name, generation)| runs_as(city, name, generation))
        .collect()
}

/// Returns the journal's events of the three after the first `seen`, in order. The processes' own stamps come in the
/// order in which the machine schedules them.
fn since(city: &City, seen: usize) -> Vec<String> {
    let mut events = city.events();
    events.retain(|event| NAMES.iter().any(|name| event["subject"] == *name));
    let words = events.iter().filter_map(|event| {
        let word = match event["type"].as_str().unwrap() {
            "agent.started" => "up",
            "agent.stopped" => "down",
            "agent.crashed" => "died",
            _ => return None,
        };
        Some(format!("{} {word}", event["subject"].as_str().unwrap()))
    });
    words.skip(seen).collect()
}

/// `one_for_one`, `one_for_all`, `rest_for_one`: the members restarted with the second of three, their order, and that
/// no other pid changes.
#[test]
fn strategy_decides_which_members_are_restarted_after_a_death() {
    for (strategy, after, happened) in [
        ("one_for_one", [1, 2, 1], &["alpha died", "alpha up"][..]),
        (
            "rest_for_one",
            [1, 2, 2],
            &["alpha died", "mike down", "alpha up", "mike up"],
        ),
        (
            "one_for_all",
            [2, 2, 2],
            &[
                "alpha died",
                "mike down",
                "zeta down",
                "zeta up",
                "alpha up",
                "mike up",
            ],
        ),
    ] {
        let city = started(&with(&three(strategy)));
        let before = generations(&city, [1, 1, 1]);
        until("all are told of", || since(&city, 0).len() == 3);
        kill(&city, "alpha");
        let now = generations(&city, after);
        later(&city);
        assert_eq!(since(&city, 3), happened, "{strategy}");
        for (index, generation) in after.iter().enumerate() {
            assert_eq!(
                before[index] == now[index],
                *generation == 1,
                "{strategy}: {index}"
            );
        }
        for name in NAMES {
            let deaths = u32::from(name == "alpha");
            assert_eq!(
                shown(&city, name)["restarts"],
                deaths,
                "only the death counts"
            );
        }
    }
}

/// `one_for_all_other_child_fails_restart`, `rest_for_one_other_child_fails_restart`: a restarted member dies at once.
/// With `one_for_all` the first ends again and all start; with `rest_for_one` it runs on, and only the second is
/// retried.
#[test]
fn member_that_dies_at_a_restart_of_its_group_is_restarted_as_the_strategy_says() {
    for (strategy, zeta, happened) in [
        (
            "one_for_all",
            3,
            &[
                "zeta up",
                "alpha up",
                "alpha died",
                "zeta down",
                "zeta up",
                "alpha up",
                "mike up",
            ][..],
        ),
        (
            "rest_for_one",
            2,
            &["zeta up", "alpha up", "alpha died", "alpha up", "mike up"],
        ),
    ] {
        let mut parts = three(strategy);
        parts[1] = agent(
            "alpha",
            "[ $n != 2 ] || { await fail; exit 1; }\npolite",
            "",
        );
        let city = started(&with(&parts));
        generations(&city, [1, 1, 1]);
        until("all are told of", || since(&city, 0).len() == 3);
        kill(&city, "zeta");
        // The member before has been started, and waits for no other.
        runs_as(&city, "alpha", 2);
        runs_as(&city, "zeta", 2);
        city.sign("fail");
        runs_as(&city, "zeta", zeta);
        runs_as(&city, "alpha", 3);
        in_state(&city, "mike", "running");
        later(&city);
        // The event of the start may come after the state.
        let last = || since(&city, 6).last().cloned();
        until("mike is up", || {
            last().is_some_and(|what| what == "mike up")
        });
        let mut seen = since(&city, 6);
        // The agent may have started before its predecessor failed, and may have ended before or after that was
        // recorded.
        if let Some(down) = seen.iter().position(|what| what == "mike down") {
            seen.remove(down);
            let early = seen[..down].iter().position(|what| what == "mike up");
            early.map(|early| seen.remove(early));
        }
        assert_eq!(seen, happened, "{strategy}");
    }
}

/// `one_for_all_escalation`, `rest_for_one_escalation`: the limit. Here the culprit is quarantined, and the members
/// that its death concerns wait with it, while the others run on; once an operator releases it or lays it to rest, all
/// of them continue at once.
#[test]
fn members_that_a_quarantine_concerns_wait_and_go_on_with_it() {
    for (strategy, order, zeta) in [
        ("one_for_all", "unquarantine", "backoff"),
        ("rest_for_one", "unquarantine", "running"),
        ("one_for_all", "stop", "backoff"),
    ] {
        let mut parts = three(strategy);
        let lines = "[ $n = 1 ] || [ -e $signs/mended ] || exit 1\npolite";
        parts[1] = agent("alpha", lines, "");
        let city = started(&with(&parts).set("daemon", "max_restarts", "2"));
        generations(&city, [1, 1, 1]);
        kill(&city, "alpha");
        city.wait_event(1, "agent.quarantined", "alpha");
        in_state(&city, "zeta", zeta);
        in_state(&city, "mike", "backoff");
        later(&city);
        assert_eq!(city.happened("agent.crashed", "alpha").len(), 3);
        let starts = city.happened("agent.started", "mike").len();
        city.sign("mended");
        city.hd(&["agent", order, "alpha"]).json();
        for name in NAMES {
            let state = if (name, order) == ("alpha", "stop") {
                "stopped"
            } else {
                "running"
            };
            in_state(&city, name, state);
        }
        assert_eq!(city.happened("agent.started", "mike").len(), starts + 1);
        let released = city.happened("agent.unquarantined", "alpha").len();
        assert_eq!(
            released,
            usize::from(order == "unquarantine"),
            "{strategy}: once"
        );
    }
}

/// `temporary_bystander`: a temporary sibling that its group's restart ends is not started again, and that counts as no
/// death.
#[test]
fn a_temporary_bystander_ends_with_its_group() {
    for strategy in ["one_for_all", "rest_for_one"] {
        let mut parts = three(strategy);
        parts[2] = agent("mike", "polite", "restart = \"temporary\"");
        let city = started(&with(&parts));
        generations(&city, [1, 1, 1]);
        kill(&city, "alpha");
        runs_as(&city, "alpha", 2);
        let mike = in_state(&city, "mike", "stopped");
        assert_eq!(mike["restarts"], json!(0));
        later(&city);
        assert_eq!(city.happened("agent.started", "mike").len(), 1);
        assert_eq!(city.happened("agent.crashed", "mike").len(), 0);
    }
}
