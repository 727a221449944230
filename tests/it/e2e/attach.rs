//! `hd attach` on a real terminal, the real holder and daemon at the other end.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::live::City;
use crate::support::pty::{shown, terminal};

const TOAST: &str = "horde/raiders/Toast";

/// `hd attach Toast` on this terminal.
fn attach(city: &City, end: &File) -> Child {
    let on = || Stdio::from(end.try_clone().unwrap());
    let mut hd = city.program("hd");
    hd.env("TERM", "xterm").args(["attach", "Toast"]);
    hd.stdin(on()).stdout(on()).stderr(on()).spawn().unwrap()
}

#[test]
fn a_person_ends_a_program_by_ctrl_c_without_a_crash_and_is_told_that_the_next_one_is_done() {
    let city = City::new();
    let relic = city.work(
        "be watched",
        &[
            "echo ready $n",
            "sign up$n",
            "[ $n = 2 ] || forever",
            "await go",
            "commit a.txt",
            "hd done",
            "forever",
        ],
    );
    let (mut seat, end) = terminal();
    city.wait_sign("up1");
    let mut hd = attach(&city, &end);
    shown(&mut seat, "ready 1");
    seat.write_all(b"\x03").unwrap();
    shown(&mut seat, "counts as no crash");
    assert!(hd.wait().unwrap().success());
    city.wait_sign("up2");
    let raider = city.wait_session(&relic, 2);
    assert_eq!(raider["restarts"], 0);
    assert_eq!(city.happened("agent.crashed", TOAST), Vec::<Value>::new());
    let restarted = city.happened("agent.restarted", TOAST);
    assert_eq!(restarted[0]["cause"], "ended_by_person", "{restarted:?}");

    let mut hd = attach(&city, &end);
    shown(&mut seat, "ready 2");
    city.sign("go");
    let told = shown(&mut seat, &format!("Toast is done: {relic} is completed"));
    assert!(!told.contains("143"), "{told}");
    assert!(hd.wait().unwrap().success());
}

#[test]
fn a_person_is_told_who_ended_the_session() {
    let city = City::new();
    let _relic = city.work("be stopped", &["echo ready", "sign up", "forever"]);
    let (mut seat, end) = terminal();
    city.wait_sign("up");
    let mut hd = attach(&city, &end);
    shown(&mut seat, "ready");
    city.hd(&["agent", "stop", "Toast"]).json();
    let told = shown(&mut seat, "Toast was stopped by an operator");
    assert!(!told.contains("exit code"), "{told}");
    assert!(hd.wait().unwrap().success());
}
