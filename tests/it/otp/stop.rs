//! Stop: with grace, without, in order, and with agents that will not end.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{agent, in_state, made, pid, runs_as, stamps, stamps_of, started, with};
use crate::support::git::write;
use crate::support::live::{City, until, wait};
use crate::support::processes;

const STUBBORN: usize = 12;

/// Agents with every kind of end, ended all at once.
fn crowd() -> Vec<String> {
    let stubborn = (0..STUBBORN).map(|number| {
        agent(
            &format!("stubborn-x{number}"),
            "stubborn",
            "shutdown_timeout = \"1s\"",
        )
    });
    let brutal = (0..10).map(|number| {
        agent(
            &format!("brutal-x{number}"),
            "stubborn",
            "shutdown_timeout = \"0s\"",
        )
    });
    let patient = "shutdown_timeout = \"10m\"";
    let slow =
        "trap 'trap : INT TERM; sleep 0.3; stamp down; kill $!; wait $!; exit 0' INT TERM\nrest";
    let odd = "polite 77";
    let others = [
        agent("patient", "polite", patient),
        agent("slow", slow, patient),
        agent("odd", odd, patient),
    ];
    stubborn.chain(brutal).chain(others).collect()
}

fn all_run(city: &City, count: usize) {
    until("all run", || {
        let agents = city.ask("agent.list", json!({})).unwrap();
        let agents = agents.as_array().unwrap().iter();
        // The agents' traps are set once they have written their stamps.
        let up = agents.filter(|agent| agent["state"] == "running").count();
        up == count && stamps(city).len() >= count
    });
}

/// `sup_stop_infinity`, `sup_stop_timeout`, `sup_stop_timeout_dynamic`, `sup_stop_brutal_kill`,
/// `sup_stop_brutal_kill_dynamic`, `sup_stop_non_shutdown_exit_dynamic`, `simple_one_for_one_shutdown`: every agent
/// ends in its own way, at the same time.
#[test]
fn dozen_stubborn_agents_cost_one_grace_and_no_other_is_killed() {
    let crowd = crowd();
    let mut city = started(&with(&crowd));
    all_run(&city, crowd.len());
    let begun = Instant::now();
    city.stop();
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(1),
        "they had their grace: {took:?}"
    );
    let serial = Duration::from_secs(STUBBORN.try_into().unwrap());
    assert!(took < serial / 2, "one after the other: {took:?}");
    for number in 0..STUBBORN {
        let stamps = stamps_of(&city, &format!("stubborn-x{number}"));
        assert!(
            stamps.len() > 1 && stamps[1..].iter().all(|stamp| stamp == "asked"),
            "{stamps:?}"
        );
    }
    for number in 0..10 {
        assert_eq!(
            stamps_of(&city, &format!("brutal-x{number}")),
            ["up"],
            "never asked"
        );
    }
    for name in ["patient", "slow", "odd"] {
        assert_eq!(stamps_of(&city, name), ["up", "down"], "{name}");
    }
    assert_eq!(processes::of(city.root()), Vec::<u32>::new());
    city.start();
    all_run(&city, crowd.len());
    let crashed = |event: &Value| event["type"] == "agent.crashed";
    assert!(
        !city.events().iter().any(crashed),
        "none of that was a death"
    );
    // The end of each is recorded (`do_terminate`: an unexpected end is reported).
    let how = |name: &str| city.happened("agent.stopped", name)[0]["data"]["how"].clone();
    assert_eq!(how("stubborn-x0"), "Killed");
    assert_eq!(how("brutal-x0"), "Killed");
    assert_eq!(how("patient"), "Gracefully");
    assert_eq!(how("odd"), "Gracefully");
}

/// `order_of_children`: here `depends_on` decides the order, not names or the order in the file; the stop is the exact
/// reverse.
#[test]
fn dependent_agent_starts_after_and_ends_before_its_dependency() {
    let parts = [
        agent("mike", "polite", "depends_on = [\"alpha\"]"),
        agent("zeta", "polite", ""),
        agent("alpha", "polite", "depends_on = [\"zeta\"]"),
        agent("bravo", "polite", "depends_on = [\"mike\", \"zeta\"]"),
    ];
    let mut city = started(&with(&parts));
    runs_as(&city, "bravo", 1);
    until("the last one is up", || stamps(&city).len() == 4);
    let order = ["zeta", "alpha", "mike", "bravo"];
    assert_eq!(stamps(&city), order.map(|name| format!("{name} up")));
    // The agent runs before it has set its trap for the stop.
    let pids = order.map(|name| runs_as(&city, name, 1));
    until("they hear", || {
        pids.iter().all(|pid| processes::hears_term(*pid))
    });
    city.stop();
    let mut reverse = order.map(|name| format!("{name} down"));
    reverse.reverse();
    assert_eq!(stamps(&city)[4..], reverse);
}

/// `child_unlink`: a process that has left the session, its group and its terminal, and ignores signals, is ended with
/// the agent; meanwhile the daemon answers.
#[test]
fn runaway_process_is_ended_with_its_agent_while_the_daemon_answers() {
    let away = "trap '' TERM INT HUP\nexec >/dev/null 2>&1 </dev/null\n\
                (while :; do sleep 0.1; done) &\n\
                echo $! >signs/away.new\nmv signs/away.new signs/away\n";
    let mut city = made(&with(&[agent(
        "runaway",
        "setsid sh away.sh\nstubborn",
        "shutdown_timeout = \"1s\"",
    )]));
    write(city.root(), "away.sh", away);
    city.start();
    let agent = in_state(&city, "runaway", "running");
    let away: u32 = wait("the child's pid", || {
        fs::read_to_string(city.root().join("signs/away"))
            .ok()?
            .trim()
            .parse()
            .ok()
    });
    assert!(processes::runs(away));
    let begun = Instant::now();
    thread::scope(|scope| {
        let stop = scope.spawn(|| city.hd(&["agent", "stop", "runaway"]));
        in_state(&city, "runaway", "draining");
        assert!(!stop.is_finished(), "the daemon answers meanwhile");
        stop.join().unwrap().json();
    });
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert!(!processes::runs(away) && !processes::runs(pid(&agent)));
    assert_eq!(city.happened("agent.stopped", "runaway").len(), 1);
}
