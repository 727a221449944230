//! A session's terminal as a person reads it.

use crate::support::live::until;
use crate::support::plan::Plan;

/// A program that moves its cursor between words, redraws a spinner in place, and dies of it.
const PAINTER: &str = r"printf 'Unable\033[1Cto\033[1Cconnect\r\n'
for n in 1 2 3 4 5 6 7 8 9; do printf '\033[2K* Waiting (%ss)\r\n\033[1A' $n; done
until [ -e signs/go ]; do sleep 0.05; done
exit 3
";

#[test]
fn logs_and_the_tail_of_a_crash_read_as_a_person_saw_them() {
    let city = Plan::new()
        .agent("painter", PAINTER, r#"restart = "temporary""#)
        .start();
    let read = |words: &[&str]| city.hd_text(words).out;
    until("it has written all", || {
        read(&["logs", "painter"]).contains("(9s)")
    });
    let expected = "Unable to connect\n* Waiting (9s)\n";
    let written = |log: &str| {
        let (title, rest) = log.split_once('\n').unwrap();
        assert!(title.starts_with("--- session 1, since "), "{log}");
        rest.to_owned()
    };
    assert_eq!(written(&read(&["logs", "painter"])), expected);
    let log = city.hd(&["logs", "painter"]).json();
    assert_eq!(written(log["text"].as_str().unwrap()), expected);
    let raw = read(&["logs", "painter", "--raw"]);
    assert!(
        raw.contains("Unable\x1b[1Cto") && raw.contains("(1s)"),
        "{raw:?}"
    );
    city.sign("go");
    let crashed = city.wait_event(1, "agent.crashed", "painter");
    assert_eq!(crashed["data"]["tail"], expected, "{crashed}");
    // The log of an ended session is read in the same way.
    assert_eq!(written(&read(&["logs", "painter"])), expected);
}
