//! Files in a session's directory are removed, garbled, forged or replaced.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use super::{crowd, kill, named, runs_as};
use crate::support::live::{City, until};
use crate::support::processes;

on_tmux_too!(
    daily: ;
    long: stranger_that_a_record_names_is_left_alone,
    session_whose_record_is_lost_or_garbled_is_taken_over_and_never_doubled,
    record_that_is_garbled_while_it_runs_is_written_again_by_a_patrol,
    death_is_answered_whatever_was_made_of_the_log
);

fn session(city: &City) -> PathBuf {
    city.root().join(".horde/sessions/e2e-a0")
}

fn city() -> City {
    crowd(1).set("daemon", "patrol_interval", r#""1s""#).start()
}

/// A supervisor that finds a living session without a record adopts it, and starts no second one.
#[test]
fn session_whose_record_is_lost_or_garbled_is_taken_over_and_never_doubled() {
    let mut city = city();
    let agent = runs_as(&city, "a0", 1);
    let state = session(&city).join("state.json");
    for round in ["garbage", "removed", "all of it"] {
        city.kill();
        match round {
            "garbage" => fs::write(&state, "{\"id\":").unwrap(),
            "removed" => fs::remove_file(&state).unwrap(),
            _ => fs::remove_dir_all(session(&city)).unwrap(),
        }
        city.start();
        until("it is looked after again", || {
            let agents = city.ask("agent.list", json!({})).unwrap();
            agents[0]["state"] == "running" && agents[0]["pid"] == agent
        });
        assert_eq!(named(&city, "sleep"), [agent], "{round}");
    }
}

#[test]
#[ignore = "long tier: chaos"]
fn record_that_is_garbled_while_it_runs_is_written_again_by_a_patrol() {
    let mut city = city();
    let agent = runs_as(&city, "a0", 1);
    let state = session(&city).join("state.json");
    let before: Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    fs::write(&state, "nonsense").unwrap();
    until("it is whole again", || {
        let now = fs::read(&state).unwrap();
        serde_json::from_slice::<Value>(&now).is_ok_and(|now| now == before)
    });
    // The holder may write there meanwhile.
    until("it is removed", || {
        fs::remove_dir_all(session(&city)).is_ok()
    });
    until("it is there again", || state.exists());
    assert_eq!(named(&city, "sleep"), [agent]);
    city.stop();
    assert!(!processes::runs(agent));
}

/// A record claims that a process belongs to a session: that alone proves nothing, and the process is not touched.
#[test]
fn stranger_that_a_record_names_is_left_alone() {
    let mut city = city();
    let agent = runs_as(&city, "a0", 1);
    let mut stranger = Command::new("sleep").arg("100000").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    let started: u64 = stat.split(' ').nth(21).unwrap().parse().unwrap();
    let state = session(&city).join("state.json");
    let forge = |city: &City| {
        let mut record: Value =
            serde_json::from_slice(&fs::read(session(city).join("state.json")).unwrap()).unwrap();
        let named = json!({ "pid": stranger.id(), "started": started });
        (record["holder"], record["agent"]) = (named.clone(), named);
        record["token"] = "f".repeat(32).into();
        fs::write(session(city).join("state.json"), record.to_string()).unwrap();
    };
    forge(&city);
    until("a patrol has mended it", || {
        !fs::read_to_string(&state).unwrap().contains("ffffffff")
    });
    city.kill();
    forge(&city);
    city.start();
    until("it is looked after", || runs_as(&city, "a0", 1) == agent);
    forge(&city);
    city.stop();
    assert!(!processes::runs(agent));
    forge(&city);
    city.start();
    until("it is started anew", || named(&city, "sleep").len() == 1);
    city.stop();
    assert!(processes::runs(stranger.id()), "the stranger lives");
    processes::signal(stranger.id(), Signal::SIGKILL);
    stranger.wait().unwrap();
}

/// The log of a session is replaced by something that blocks, or can be read for ever; then the agent dies.
/// Case log-path of an adversary: a session's log is replaced by a link or a pipe.
#[test]
fn death_is_answered_whatever_was_made_of_the_log() {
    let city = city();
    let (log, older) = (session(&city).join("log.0"), session(&city).join("log.1"));
    let outside = city.root().join("outside");
    fs::write(&outside, "precious").unwrap();
    for generation in 1..=4 {
        let agent = runs_as(&city, "a0", generation);
        let _missing = (fs::remove_file(&log), fs::remove_file(&older));
        match generation {
            1 => mkfifo(&log, Mode::S_IRWXU).unwrap(),
            2 => {
                fs::write(&log, "text").unwrap();
                fs::hard_link(&log, &older).unwrap();
            }
            3 => std::os::unix::fs::symlink(&outside, &log).unwrap(),
            _ => {
                mkfifo(&log, Mode::S_IRWXU).unwrap();
                mkfifo(&older, Mode::S_IRWXU).unwrap();
            }
        }
        kill(agent);
    }
    runs_as(&city, "a0", 5);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert_eq!(city.hd(&["logs", "a0"]).code, 0);
    let said = "a link is in the place of a session's log";
    let told = || fs::read_to_string(city.root().join("supervisor.log")).unwrap();
    until("the links are in its log", || told().contains(said));
    assert_eq!(told().matches(said).count(), 1, "once");
}
