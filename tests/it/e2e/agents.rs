//! Standing agents (`health-patrol.md`, reconciliation; `contract.md`, `[[agents]]`).

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::git::write;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// A plan with a mayor that prints its input.
fn with_mayor() -> Plan {
    let script = "echo good morning; while read -r line; do echo heard $line; done";
    Plan::new().agent("mayor", script, "")
}

fn mayor(city: &City) -> Value {
    city.ask("agent.list", json!({})).unwrap()[0].clone()
}

fn wait_state(city: &City, state: &str) -> Value {
    wait(&format!("the mayor is {state}"), || {
        Some(mayor(city)).filter(|mayor| mayor["state"] == state)
    })
}

/// Started with the city, and again after a death, which counts.
#[test]
fn a_standing_agent_is_started_and_restarted_on_death() {
    let city = with_mayor().start();
    let first = wait_state(&city, "running");
    assert_eq!(first["generation"], 1);
    processes::signal(
        first["pid"].as_u64().unwrap().try_into().unwrap(),
        Signal::SIGKILL,
    );
    city.wait_event(2, "agent.started", "mayor");
    let second = wait_state(&city, "running");
    assert_ne!(first["pid"], second["pid"]);
    assert_eq!(
        (&second["generation"], &second["restarts"]),
        (&json!(2), &json!(1))
    );
    let crashed = city.happened("agent.crashed", "mayor");
    assert_eq!(crashed[0]["data"]["signal"], 9);
}

/// The program of a plain command dies inside its wrapper: `process_names` tells that the shell which is left is empty.
#[test]
fn a_wrapper_whose_program_died_is_replaced() {
    let script = "sh ./worker & echo $! >pid.new; mv pid.new pid; while :; do sleep 1000; done";
    let city = Plan::new()
        .set("session", "startup_timeout", r#""1s""#)
        .set("daemon", "patrol_interval", r#""200ms""#)
        .agent("mayor", script, "process_names = [\"worker\"]");
    let mut city = City::made(&city);
    write(city.root(), "worker", "while :; do sleep 1000; done\n");
    city.start();
    let file = city.root().join("pid");
    until("the program runs", || file.exists());
    let pid = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    processes::signal(pid.trim().parse().unwrap(), Signal::SIGKILL);
    let crashed = city.wait_event(1, "agent.crashed", "mayor");
    assert_eq!(crashed["cause"], "agent_dead");
    until("it runs again", || file.exists());
    assert_eq!(wait_state(&city, "running")["restarts"], 1);
}

/// An explicit stop is sticky: patrols do not restart the agent, an operator does.
#[test]
fn a_stopped_agent_stays_stopped_until_it_is_started() {
    let city = with_mayor()
        .set("daemon", "patrol_interval", r#""100ms""#)
        .start();
    let first = wait_state(&city, "running");
    city.hd(&["agent", "stop", "mayor"]).json();
    assert_eq!(mayor(&city)["state"], "stopped");
    let pid = first["pid"].as_u64().unwrap().try_into().unwrap();
    until("it is gone", || !processes::runs(pid));
    let patrolled = || {
        let status = city.ask("status", json!({})).unwrap();
        status["rigs"][0]["witness"]["last_patrol"].clone()
    };
    let mut last = patrolled();
    for _ in 0..3 {
        last = wait("a patrol", || Some(patrolled()).filter(|now| *now != last));
    }
    assert_eq!(mayor(&city)["state"], "stopped");
    assert_eq!(city.happened("agent.crashed", "mayor"), Vec::<Value>::new());
    city.hd(&["agent", "start", "mayor"]).json();
    assert_eq!(wait_state(&city, "running")["restarts"], 0);
}

/// An operator's restart gives a fresh session, and counts as no death.
#[test]
fn an_operators_restart_is_not_counted() {
    let city = with_mayor().start();
    let first = wait_state(&city, "running");
    city.hd(&["agent", "restart", "mayor"]).json();
    city.wait_event(2, "agent.started", "mayor");
    let second = wait_state(&city, "running");
    assert_ne!(first["pid"], second["pid"]);
    assert_eq!(second["restarts"], 0);
    assert_eq!(city.happened("agent.crashed", "mayor"), Vec::<Value>::new());
}

/// OTP's meaning: a transient agent rests after a good end and is restarted after a bad one; a temporary one rests
/// after any end.
#[test]
fn restart_types_behave_as_in_otp() {
    let plan = Plan::new()
        .set("daemon", "max_restarts", "1")
        .agent("good", "exit 0", r#"restart = "transient""#)
        .agent("bad", "exit 1", r#"restart = "transient""#)
        .agent("once", "exit 1", r#"restart = "temporary""#);
    let city = plan.start();
    city.wait_event(1, "agent.quarantined", "bad");
    assert_eq!(city.happened("agent.started", "bad").len(), 2);
    for name in ["good", "once"] {
        city.wait_event(1, "agent.stopped", name);
        assert_eq!(city.happened("agent.started", name).len(), 1, "{name}");
    }
    let good = city.wait_event(1, "agent.stopped", "good");
    assert_eq!(
        (&good["cause"], &good["data"]["code"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!(
        city.happened("agent.crashed", "good").len(),
        0,
        "that is no crash"
    );
    assert_eq!(
        city.happened("agent.crashed", "once").len(),
        1,
        "that is one"
    );
}

/// The terminal of an agent: its screen, its input, its log.
#[test]
fn an_agents_terminal_can_be_read_and_written() {
    let city = with_mayor().start();
    let shows = |text: &str| {
        until(&format!("it shows {text:?}"), || {
            let peeked = city.ask("peek", json!({ "name": "mayor" }));
            peeked.is_ok_and(|peeked| peeked["text"].as_str().unwrap().contains(text))
        });
    };
    shows("good morning");
    assert_eq!(
        city.hd(&["send", "mayor", "the news"]).json()["taken"],
        true
    );
    shows("heard the news");
    let logs = city.hd(&["logs", "mayor"]).json();
    let text = logs["text"].as_str().unwrap();
    assert!(
        text.contains("good morning") && text.contains("heard the news"),
        "{text}"
    );
    let attached = city.hd(&["attach", "mayor"]);
    assert_eq!(attached.code, 2, "without a terminal: {attached:?}");
}

/// A worker that asks to be let go as soon as the file `finish` exists.
const WORKER: &str = r#"
[[agents]]
name = "worker"
command = ["sh", "-c", "until [ -e $HD_CITY/finish ] && hd done; do sleep 0.05; done; sleep 1000"]
pool = { max = 2, check = "cat wanted", check_interval = "100ms" }
"#;

/// A pool member that is no longer needed ends when it says `done`, long before its time is up; one that is needed is
/// not let go.
#[test]
fn a_member_that_drains_ends_when_it_says_that_it_has_finished() {
    let mut city = City::made(&Plan::new().add(WORKER));
    let want = |city: &City, size: &str| {
        let new = city.root().join("wanted.new");
        fs::write(&new, size).unwrap();
        fs::rename(new, city.root().join("wanted")).unwrap();
    };
    want(&city, "2\n");
    city.start();
    let members = |state: &'static str, count: usize| {
        wait(&format!("{count} are {state}"), || {
            let agents = city.ask("agent.list", json!({})).unwrap();
            let mut agents = agents.as_array().unwrap().clone();
            agents.retain(|agent| agent["state"] == state);
            (agents.len() == count).then_some(agents)
        })
    };
    members("running", 2);
    want(&city, "1\n");
    let leaves = members("draining", 1).remove(0);
    let stays = members("running", 1).remove(0);
    fs::write(city.root().join("finish"), "").unwrap();
    city.wait_event(1, "agent.drained", leaves["name"].as_str().unwrap());
    assert_eq!(members("running", 1)[0]["pid"], stays["pid"]);
    assert!(city.happened("agent.crashed", "worker-1").is_empty());
}

/// People get sentences; `--json` gives the record.
#[test]
fn an_action_is_answered_with_a_sentence() {
    let city = with_mayor().start();
    wait_state(&city, "running");
    for (verb, said) in [
        ("restart", "mayor is starting\n"),
        ("stop", "mayor is stopped, until `hd agent start mayor`\n"),
        ("start", "mayor is starting\n"),
        (
            "suspend",
            "mayor is suspended, until `hd agent resume mayor`\n",
        ),
        ("resume", "mayor is resumed\n"),
    ] {
        let ran = city.hd_text(&["agent", verb, "mayor"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, said), "{ran:?}");
    }
    wait_state(&city, "running");
    assert_eq!(
        city.hd_text(&["send", "mayor", "news"]).out,
        "mayor accepted the text\n"
    );
    let relic = city.hd_text(&["relic", "create", "a thing"]).out;
    assert_eq!(relic, "gt-1 is open: a thing\n");
    let raised = city.hd_text(&["escalate", "look"]).out;
    assert_eq!(raised, "esc-1 is open, and in `hd escalations`: look\n");
    let known = city.hd_text(&["escalations", "ack", "esc-1"]).out;
    assert!(
        known.starts_with("esc-1 is acknowledged and sends no more notices"),
        "{known}"
    );
}
