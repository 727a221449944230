//! An upgrade of the programs under a running city ends no session.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::live::{City, wait};
use crate::support::plan::Plan;
use crate::support::processes;

const ECHO: &str = "while read -r line; do echo got $line; done";

/// Returns the file that a process runs, as the kernel names it.
fn program(pid: &Value) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

fn agent(city: &City) -> Value {
    wait("the agent runs", || {
        let agents = city.ask("agent.list", json!({})).unwrap();
        Some(agents[0].clone()).filter(|agent| agent["state"] == "running")
    })
}

/// Returns the identity of a relic's session, which an upgrade must not change.
fn who(city: &City, relic: &str) -> (Value, Value) {
    let agent = agent(city);
    let session = &city.wait_session(relic, 1)["session"];
    let raider = ["pid", "holder_pid", "generation"].map(|key| &session[key]);
    (json!([agent["pid"], agent["generation"]]), json!(raider))
}

fn holder(city: &City, relic: &str) -> Value {
    city.wait_session(relic, 1)["session"]["holder_pid"].clone()
}

#[test]
fn an_upgrade_under_a_running_city_ends_no_session() {
    let plan = Plan::new().agent("echo", ECHO, "");
    let mut city = City::made(&plan.set("daemon", "on_term", r#""detach""#));
    let bin = city.install("one");
    let supervisor = bin.join("horde-supervisor");
    let replaced = PathBuf::from(format!("{} (deleted)", supervisor.display()));
    city.start();
    let early = city.work(
        "early",
        &["sign early", "await go", "commit a.txt", "hd done"],
    );
    city.wait_sign("early");
    let before = who(&city, &early);
    assert_eq!(program(&holder(&city, &early)), supervisor);

    city.install("two");
    // The old daemon goes on with its own program, even after the file was replaced.
    let between = city.work(
        "between",
        &["sign between", "await go", "commit b.txt", "hd done"],
    );
    city.wait_sign("between");
    let old = holder(&city, &between);
    assert_eq!(program(&old), replaced);
    let known = fs::read(format!("/proc/{old}/comm")).unwrap();
    assert_eq!(known, b"horde-hold\n");

    processes::signal(city.pid(), Signal::SIGTERM);
    assert!(city.ended().success());
    city.start();
    assert_eq!(program(&json!(city.pid())), supervisor);
    assert_eq!(who(&city, &early), before);
    for subject in ["echo", "horde/raiders/Toast", "horde/raiders/Shadow"] {
        city.wait_event(1, "agent.adopted", subject);
    }
    talk(&city);

    let late = city.work(
        "late",
        &["sign late", "commit c.txt", "await go", "hd done"],
    );
    city.wait_sign("late");
    assert_eq!(program(&holder(&city, &late)), supervisor);
    city.sign("go");
    for relic in [&early, &between, &late] {
        city.wait_status(relic, "closed");
        assert_eq!(city.sessions_of(relic), 1);
    }
    city.wait_no_raiders();
    city.stop();
}

/// Uses the new programs with the holder of an old one: send, peek, and attaching to the terminal.
fn talk(city: &City) {
    city.hd(&["send", "echo", "hello"]).json();
    wait("the answer is on the screen", || {
        let peeked = city.hd(&["peek", "echo"]).json();
        peeked["text"].as_str()?.contains("got hello").then_some(())
    });
    let mut watch = city.program("hd");
    watch.arg("--city").arg(city.root());
    let mut watch = watch.args(["logs", "--follow", "echo"]);
    watch = watch.stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let terminal = BufReader::new(watch.stdout.take().unwrap());
    let mut lines = terminal.split(b'\n').map(Result::unwrap);
    let seen = lines.any(|line| String::from_utf8_lossy(&line).contains("got hello"));
    assert!(seen, "the terminal shows what was there before");
    drop(lines);
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// A running city goes on after its programs were removed.
#[test]
fn a_daemon_whose_program_was_removed_starts_sessions() {
    let mut city = City::made(&Plan::new().agent("echo", ECHO, ""));
    let bin = city.install("one");
    city.start();
    let first = agent(&city);
    remove(&bin);
    city.ask("agent.restart", json!({ "name": "echo" }))
        .unwrap();
    city.wait_event(2, "agent.started", "echo");
    assert_ne!(agent(&city)["pid"], first["pid"]);
    city.install("two");
    city.stop();
}

fn remove(bin: &Path) {
    fs::remove_dir_all(bin).unwrap();
}
