//! Processes that do not move or do not stop: SIGSTOP, ignored signals, endless output.

use std::fs;

use horde_supervisor::testing::tier::by_tier;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{agent, count, crowd, kill, name, named, pid, runs_as};
use crate::support::live::until;
use crate::support::plan::Plan;
use crate::support::processes;

/// Each agent takes its own grace and no more; a polite agent is gone before those that use up their grace. (A stopped
/// agent is continued, so that it hears the signal.)
#[test]
#[ignore = "long tier: chaos"]
fn deaf_or_frozen_agent_is_ended_and_delays_no_other() {
    let deaf = agent("deaf", "trap '' TERM INT HUP; while :; do sleep 1; done");
    let others = ["polite", "frozen", "held"].map(|name| agent(name, "exec sleep 100000"));
    let mut city = Plan::new().add(&(deaf + &others.concat())).start();
    let pids = ["polite", "deaf", "frozen", "held"].map(|name| runs_as(&city, name, 1));
    let held = city.happened("agent.started", "held").remove(0);
    processes::signal(pids[2], Signal::SIGSTOP);
    processes::signal(pid(&held["data"]["holder_pid"]), Signal::SIGSTOP);
    city.stop();
    assert!(!pids.iter().any(|pid| processes::runs(*pid)));
    city.start();
    let stopped = |name| -> u64 {
        let event: Value = city.happened("agent.stopped", name).remove(0);
        event["seq"].as_u64().unwrap()
    };
    for slow in ["deaf", "held"] {
        assert!(stopped("polite") < stopped(slow), "{slow}");
    }
}

/// A stopped daemon sees nothing, and answers each death once afterwards.
#[test]
fn a_daemon_that_was_frozen_catches_up_without_a_storm() {
    let city = crowd(8).start();
    let pids = (0..8).map(|number| runs_as(&city, &name(number), 1));
    let pids: Vec<_> = pids.collect();
    processes::signal(city.pid(), Signal::SIGSTOP);
    pids[..4].iter().copied().for_each(kill);
    let dead = || !pids[..4].iter().any(|pid| processes::runs(*pid));
    until("they are dead", dead);
    assert_eq!(named(&city, "sleep").len(), 4, "no agent is started");
    processes::signal(city.pid(), Signal::SIGCONT);
    for (number, before) in pids.iter().enumerate() {
        let generation = if number < 4 { 2 } else { 1 };
        let pid = runs_as(&city, &name(number), generation);
        assert_eq!(pid == *before, number >= 4);
    }
    assert_eq!(count(&city, "agent.crashed"), 4);
    assert_eq!(named(&city, "sleep").len(), 8);
}

/// Returns the most memory that the process has had so far, in KiB.
fn most_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let most = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    most.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Random bytes: no lines, no encoding, and every possible control sequence.
#[test]
#[ignore = "long tier: chaos"]
fn flood_of_output_is_bounded_and_stops_no_other_agent() {
    const WAVE: usize = 8_000_000;
    let waves = by_tier(1, 125);
    let wave = |number| format!("head -c {WAVE} /dev/urandom; : >signs/wave{number}\n");
    let flood: String = (0..waves).map(wave).collect();
    let flood = flood + "exec sleep 100000";
    let agents = agent("flood", &flood) + &agent("calm", "exec sleep 100000");
    let plan = Plan::new().set("session", "output_limit", r#""1MiB""#);
    let city = plan.add(&agents).start();
    kill(runs_as(&city, "calm", 1));
    runs_as(&city, "calm", 2);
    for number in 0..waves {
        city.wait_sign(&format!("wave{number}"));
    }
    city.ask("peek", json!({ "name": "flood" })).unwrap();
    let mut kept = 0;
    for session in fs::read_dir(city.root().join(".horde/sessions")).unwrap() {
        for file in fs::read_dir(session.unwrap().path()).unwrap() {
            kept += file.unwrap().metadata().unwrap().len();
        }
    }
    // Both segments of one log, and the records of two sessions.
    assert!(kept < 1_300_000, "{kept} bytes");
    let flooded = city.happened("agent.started", "flood").remove(0);
    let holder = most_memory(pid(&flooded["data"]["holder_pid"]));
    let daemon = most_memory(city.pid());
    let bytes = WAVE * waves;
    eprintln!("C14: {bytes} bytes; kept {kept}; KiB at most: holder {holder}, daemon {daemon}");
    assert!(holder < 32 * 1024, "{holder} KiB");
    assert!(daemon < 256 * 1024, "{daemon} KiB");
    runs_as(&city, "flood", 1);
}
