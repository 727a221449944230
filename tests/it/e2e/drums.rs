//! Drums between a raider and a person, with the real daemon; the hook and the note of a standing agent.

use std::fs;

use serde_json::{Value, json};

use crate::support::live::{City, wait};
use crate::support::plan::Plan;

/// Raider → person → reply → `rally`.
#[test]
fn a_raider_asks_a_person_and_finds_the_reply_at_rally() {
    let city = City::new();
    let relic = city.work(
        "ask first",
        &[
            "try send hd --json drums send operator --subject 'which runner' --message 'old or new'",
            "try piped sh -c 'echo from a pipe | hd --json drums send operator -s piped'",
            "try unknown hd --json drums send oprator -s x -m y",
            "try others hd --json drums inbox operator",
            "sign sent",
            "await replied",
            "try rally hd --json rally",
            "try read hd --json drums read 3",
            "try ack hd --json mail ack 3",
            "try empty hd --json drums inbox",
            "sign over",
            "await go",
            "commit a.txt",
            "hd done",
        ],
    );
    city.wait_sign("sent");
    let sent = city.wait_tried("send").json();
    assert_eq!(
        (&sent["id"], &sent["from"]),
        (&json!(1), &json!("horde/raiders/Toast"))
    );
    assert_eq!(sent["mailbox"], "operator");
    assert_eq!(city.wait_tried("piped").json()["id"], 2);
    let unknown = city.wait_tried("unknown").error(4);
    assert_eq!(unknown["hint"], "did you mean operator?");
    assert_eq!(city.wait_tried("others").error(1)["kind"], "forbidden");

    assert_eq!(city.hd(&["status"]).json()["drums"], 2);
    let inbox = city.hd(&["drums", "inbox"]).json();
    assert_eq!(inbox["waiting"], 2);
    assert_eq!(inbox["drums"][0]["subject"], "which runner");
    let read = city.hd(&["drums", "read", "1"]).json();
    assert_eq!(
        (&read["body"], read["read"].is_string()),
        (&json!("old or new"), true)
    );
    assert_eq!(
        city.hd(&["drums", "read", "2"]).json()["body"],
        "from a pipe"
    );
    let reply = city
        .hd(&["drums", "reply", "1", "-m", "the new one"])
        .json();
    assert_eq!(
        (&reply["id"], &reply["to"]),
        (&json!(3), &json!("horde/raiders/Toast"))
    );
    assert_eq!(reply["delivery"]["state"], "waits");
    assert_eq!(reply["mailbox"], format!("relic/{relic}"));
    city.sign("replied");
    city.wait_sign("over");
    let drums = &city.wait_tried("rally").json()["drums"];
    let expected =
        json!([{ "id": 3, "from": "operator", "subject": "Re: which runner", "read": false }]);
    assert_eq!((&drums["waiting"], &drums["drums"]), (&json!(1), &expected));
    assert_eq!(city.wait_tried("read").json()["body"], "the new one");
    assert!(city.wait_tried("ack").json()["acked"].is_string());
    assert_eq!(city.wait_tried("empty").json()["waiting"], 0);
    let kinds = |subject: &str, kind: &str| city.happened(kind, subject).len();
    assert_eq!(kinds("horde/raiders/Toast", "drums.acked"), 1);
    assert_eq!(kinds("operator", "drums.sent"), 2);
    city.sign("go");
    city.wait_status(&relic, "closed");
}

/// An agent that runs `hd` with each line that it reads, and writes the answers into files.
const OBEDIENT: &str = "while read -r verb rest; do \
    hd --json $verb $rest >.new 2>&1; mv .new \"$verb.json\"; done";

fn answer(city: &City, verb: &str) -> Value {
    let path = city.root().join(format!("{verb}.json"));
    let answer = wait(&format!("the answer to {verb}"), || {
        let text = fs::read_to_string(&path).ok()?;
        serde_json::from_str(&text).ok()
    });
    fs::remove_file(path).unwrap();
    answer
}

#[test]
fn a_standing_agent_takes_its_relic_and_closes_it_and_keeps_its_note() {
    let city = Plan::new().agent("mayor", OBEDIENT, "").start();
    city.wait_event(1, "agent.started", "mayor");
    let relic = city.hd(&["relic", "create", "write the report"]).json();
    let relic = relic["id"].as_str().unwrap().to_owned();
    city.hd(&["relic", "edit", &relic, "--assignee", "mayor"])
        .json();
    let tell = |line: &str| {
        city.hd(&["send", "mayor", line]).json();
    };
    tell("hook");
    assert_eq!(answer(&city, "hook")["relic"]["id"], relic.as_str());
    city.hd(&["drums", "send", "mayor", "-s", "hello", "-m", "a"])
        .json();
    tell("handoff -m half-way");
    city.wait_event(2, "agent.started", "mayor");
    let second = || city.ask("agent.list", json!({})).unwrap()[0]["generation"] == 2;
    wait("the second session", || second().then_some(()));
    tell("rally");
    let rally = answer(&city, "rally");
    assert_eq!(
        (&rally["note"], &rally["relic"]["id"]),
        (&json!("half-way"), &json!(relic))
    );
    assert_eq!(rally["drums"]["drums"][0]["subject"], "hello");
    tell("done --reason sent");
    assert_eq!(answer(&city, "done")["status"], "closed");
    city.wait_status(&relic, "closed");
    let closed = city.happened("relic.closed", &relic);
    assert_eq!(closed[0]["data"]["by"], "mayor");
}

/// A program that shows each line that it reads.
const READER: &str = r#"
[harness.reader]
command = ["sh", "-c", 'echo ready; while read -r line; do echo "heard <$line>"; done']
[[agents]]
name = "mayor"
harness = "reader"
prompt = "p"
"#;

/// A line in the terminal says that a drum has arrived, not what it says. A person's text is typed by `nudge`, the older word for
/// `send`.
#[test]
fn a_drum_is_delivered_into_a_session_that_waits_for_text() {
    let city = Plan::new().add(READER).start();
    let screen = || city.hd_text(&["peek", "mayor"]).out;
    let shows = |words: &str| wait(words, || screen().contains(words).then_some(()));
    shows("ready");
    let mail = ["drums", "send", "mayor", "-s", "lunch", "-m", "at noon"];
    let sent = city.hd(&[&mail[..], &["--deliver"]].concat()).json();
    assert_eq!(sent["delivery"]["state"], "delivered", "{sent}");
    shows("heard <Drum 1 from operator has arrived");
    assert!(!screen().contains("at noon"), "{}", screen());
    assert_eq!(city.happened("drums.delivered", "mayor").len(), 1);
    assert_eq!(city.hd_text(&["nudge", "mayor", "hello there"]).code, 0);
    shows("heard <hello there>");
}
