//! `hd attach` on a real terminal, with the real holder and daemon at the other end.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::live::{City, until};
use crate::support::plan::Plan;
use crate::support::pty::{shown, terminal};

const TOAST: &str = "horde/raiders/Toast";

/// Runs `hd attach NAME` on this terminal.
fn attach(city: &City, end: &File, name: &str) -> Child {
    let on = || Stdio::from(end.try_clone().unwrap());
    let mut hd = city.program("hd");
    hd.env("TERM", "xterm").args(["attach", name]);
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
    let mut hd = attach(&city, &end, "Toast");
    shown(&mut seat, "ready 1");
    seat.write_all(b"\x03").unwrap();
    shown(&mut seat, "does not count as a crash");
    assert!(hd.wait().unwrap().success());
    city.wait_sign("up2");
    let raider = city.wait_session(&relic, 2);
    assert_eq!(raider["restarts"], 0);
    assert_eq!(city.happened("agent.crashed", TOAST), Vec::<Value>::new());
    let restarted = city.happened("agent.restarted", TOAST);
    assert_eq!(restarted[0]["cause"], "ended_by_person", "{restarted:?}");

    let mut hd = attach(&city, &end, "Toast");
    shown(&mut seat, "ready 2");
    city.sign("go");
    let told = shown(&mut seat, &format!("Toast is done: {relic} is completed"));
    assert!(!told.contains("143"), "{told}");
    assert!(hd.wait().unwrap().success());
}

#[test]
fn attached_person_learns_by_whom_the_session_was_ended() {
    let city = City::new();
    let _relic = city.work("be stopped", &["echo ready", "sign up", "forever"]);
    let (mut seat, end) = terminal();
    city.wait_sign("up");
    let mut hd = attach(&city, &end, "Toast");
    shown(&mut seat, "ready");
    city.hd(&["agent", "stop", "Toast"]).json();
    let told = shown(&mut seat, "Toast was stopped by an operator");
    assert!(!told.contains("exit code"), "{told}");
    assert!(hd.wait().unwrap().success());
}

/// A program that reads lines, and prints each of them.
const READER: &str = "echo ready; while read -r line; do echo \"got <$line>\"; done";

/// Both texts would become one message: the line is still there after the person has left.
#[test]
fn text_is_refused_while_a_line_stands_that_an_attached_person_has_begun() {
    let city = Plan::new().agent("reader", READER, "").start();
    let screen = || city.hd(&["peek", "reader"]).out;
    until("it runs", || screen().contains("ready"));
    let (mut seat, end) = terminal();
    let mut hd = attach(&city, &end, "reader");
    shown(&mut seat, "ready");
    seat.write_all(b"delete the").unwrap();
    shown(&mut seat, "delete the");
    let refused = city.hd(&["send", "reader", "go on"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    for said in ["a person began", "delete the", "--force"] {
        assert!(refused.err.contains(said), "{refused:?}");
    }
    seat.write_all(b"\x1c").unwrap();
    shown(&mut seat, "detached");
    assert!(hd.wait().unwrap().success());
    assert_eq!(city.hd(&["send", "reader", "go on"]).code, 7);

    assert_eq!(
        city.hd(&["send", "reader", "--keys", "C-u"]).code,
        0,
        "the terminal empties the line"
    );
    let sent = city.hd(&["send", "reader", "go on"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    until("it has the text alone", || screen().contains("got <go on>"));
    assert!(!screen().contains("got <delete the"), "{}", screen());

    let mut hd = attach(&city, &end, "reader");
    shown(&mut seat, "on>");
    seat.write_all(b"fix ").unwrap();
    shown(&mut seat, "fix");
    let forced = city.hd(&["send", "reader", "it all", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    shown(&mut seat, "<fix it all>");
    seat.write_all(b"\x1c").unwrap();
    assert!(hd.wait().unwrap().success());
}
