//! Escalations: raised, answered, raised again, sent by a command (`contract.md`, `[notify]`; `rules.md`,
//! escalations).

use std::fs;

use serde_json::{Value, json};

use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

fn notified(city: &City) -> Vec<Value> {
    let text = fs::read_to_string(city.root().join("told")).unwrap_or_default();
    let lines = text.lines().filter(|line| line.ends_with('}'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn open(city: &City) -> Vec<Value> {
    let open = city.hd(&["escalations"]).json();
    open.as_array().unwrap().clone()
}

/// Returns the events `escalation.raised` with this problem.
fn raised(city: &City, problem: &str) -> Vec<Value> {
    let mut events = city.events();
    events.retain(|event| {
        event["type"] == "escalation.raised" && event["data"]["problem"] == problem
    });
    events
}

#[test]
fn a_raider_calls_for_help_people_are_told_and_answer() {
    let notify = "[notify]\nrun = [\"sh\", \"-c\", \"cat >> told\"]\n";
    let city = Plan::new().add(notify).start();
    let relic = city.work(
        "needs help",
        &[
            "try help hd --json escalate 'no key for the registry' --evidence 'it said 401'",
            "try again hd --json escalate 'no key for the registry' --evidence 'still so'",
            "try worse hd --json escalate 'no key for the registry' --severity high",
            "try ack hd --json escalations ack esc-1",
            "try close hd --json relic close esc-1",
            "try other hd --json escalate 'it is slow' --about Shadow",
            "sign tried",
            "forever",
        ],
    );
    city.wait_sign("tried");
    let toast = "horde/raiders/Toast";
    let first = city.wait_tried("help").json();
    assert_eq!(first["id"], "esc-1");
    for name in ["again", "worse"] {
        assert_eq!(city.wait_tried(name).json()["id"], "esc-1", "{name}");
    }
    for name in ["ack", "close", "other"] {
        assert_eq!(
            city.wait_tried(name).error(1)["kind"],
            "forbidden",
            "{name}"
        );
    }
    // The signal, and the escalation that the shaman made of three of them.
    let sent = city
        .events()
        .into_iter()
        .find(|event| event["type"] == "message.sent")
        .unwrap();
    let data = &sent["data"];
    assert_eq!(
        (&data["type"], &data["to"]),
        (&json!("HELP"), &json!("shaman"))
    );
    assert_eq!(
        (&data["agent"], &data["relic"]),
        (&json!(toast), &json!(relic))
    );
    assert_eq!(
        (&data["severity"], &data["evidence"]),
        (&json!("medium"), &json!("it said 401"))
    );
    let all = open(&city);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["severity"], "high");
    let evidence = all[0]["body"].as_str().unwrap();
    assert!(
        evidence.contains("401") && evidence.contains("still so"),
        "{evidence}"
    );
    it_says_as_much_by_its_id(&city, &all[0]);
    people_are_told_and_answer(&city);
}

/// A request for the escalation by its id tells at least as much as the list.
fn it_says_as_much_by_its_id(city: &City, listed: &Value) {
    let shown = city.hd(&["relic", "show", "esc-1"]).json();
    assert_eq!(shown, *listed);
    let why = city.hd(&["why", "esc-1"]).json();
    let why: Vec<_> = why["events"].as_array().unwrap().iter().collect();
    let kinds: Vec<_> = why
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["escalation.raised", "relic.updated", "escalation.raised"]
    );
    assert_eq!(why[0]["subject"], "horde/raiders/Toast");
}

fn people_are_told_and_answer(city: &City) {
    // Sent when it was raised and when it got worse, as the journal records.
    let raised = raised(city, "no key for the registry");
    assert_eq!(raised.len(), 2);
    until("both are told", || notified(city).len() == 2);
    assert_eq!(notified(city), raised);
    // Neither an acknowledgement nor the end of the work ends it; a person does.
    assert_eq!(
        city.hd(&["escalations", "ack", "esc-1"]).json()["acked"],
        true
    );
    assert_eq!(open(city)[0]["acked"], true);
    assert_eq!(
        city.happened("escalation.acked", "esc-1")[0]["cause"],
        "operator"
    );
    assert_eq!(city.hd(&["escalations", "ack", "esc-7"]).code, 4);
    city.hd(&["raider", "nuke", "Toast", "--yes"]).json();
    assert_eq!(open(city).len(), 1);
    city.hd(&["relic", "close", "esc-1"]).json();
    assert!(open(city).is_empty());
}

/// The notify command hangs, is left behind by a killed supervisor, and is ended by the next; no notice is lost, and
/// none is sent twice.
#[test]
fn hanging_notify_command_delays_nothing_and_is_ended_by_the_next_supervisor() {
    let script = "cat >> told; test -e slow || { : > over; exit 0; }; echo $$ > pid.new; mv pid.new pid; sleep 600";
    let notify = format!("[notify]\nrun = [\"sh\", \"-c\", \"{script}\"]\n");
    let mut city = Plan::new().add(&notify).start();
    city.hd(&["escalate", "first"]).json();
    until("the first is told", || city.root().join("over").exists());
    fs::write(city.root().join("slow"), "").unwrap();
    for problem in ["second", "third"] {
        city.hd(&["escalate", problem, "--severity", "critical"])
            .json();
    }
    let pid = |city: &City| fs::read_to_string(city.root().join("pid")).ok();
    let hanging: u32 = wait("it hangs", || pid(&city)).trim().parse().unwrap();
    let relic = city.work("land", &["commit a.txt", "hd done", "forever"]);
    city.wait_status(&relic, "closed");
    assert_eq!(open(&city).len(), 3);
    assert_eq!(notified(&city).len(), 2, "one at a time");
    assert!(processes::runs(hanging));
    city.kill();
    fs::remove_file(city.root().join("slow")).unwrap();
    city.start();
    until("the rest is told", || notified(&city).len() >= 4);
    assert!(!processes::runs(hanging));
    let problems = notified(&city);
    let problems: Vec<_> = problems
        .iter()
        .map(|event| &event["data"]["problem"])
        .collect();
    assert_eq!(problems, ["first", "second", "second", "third"]);
    // A command that hangs when the supervisor stops.
    fs::remove_file(city.root().join("pid")).unwrap();
    fs::write(city.root().join("slow"), "").unwrap();
    city.hd(&["escalate", "fourth"]).json();
    let hanging: u32 = wait("it hangs", || pid(&city)).trim().parse().unwrap();
    city.stop();
    assert!(!processes::runs(hanging));
}

#[test]
fn silence_raises_twice_over_a_kill_and_an_answer_ends_it() {
    let mut city = Plan::new().add("[notify]\nreraise = \"700ms\"\n").start();
    let known = city.hd(&["escalate", "known", "--severity", "low"]).json();
    city.hd(&["escalations", "ack", known["id"].as_str().unwrap()])
        .json();
    city.hd(&["escalate", "unheard", "--severity", "low"])
        .json();
    until("it is raised again", || raised(&city, "unheard").len() == 2);
    city.kill();
    city.start();
    until("it is raised once more", || {
        raised(&city, "unheard").len() == 3
    });
    // As long again, by the clock of another escalation.
    city.hd(&["escalate", "later", "--severity", "high"]).json();
    until("the later one is through", || {
        raised(&city, "later").len() == 3
    });
    let severities = |problem: &str| -> Vec<_> {
        let events = raised(&city, problem).into_iter();
        events
            .map(|event| event["data"]["severity"].clone())
            .collect()
    };
    assert_eq!(severities("unheard"), ["low", "medium", "high"]);
    assert_eq!(severities("later"), ["high", "critical", "critical"]);
    assert_eq!(severities("known"), ["low"]);
    assert_eq!(open(&city).len(), 3, "unanswered is not closed");
}

/// `notify.mail_to`: an agent gets a drum about each escalation.
#[test]
fn an_agent_is_mailed_an_escalation() {
    let city = Plan::new()
        .agent("clerk", "while :; do sleep 0.2; done", "")
        .add("[notify]\nmail_to = [\"clerk\"]\n")
        .start();
    city.hd(&["escalate", "the disk is slow", "--severity", "high"])
        .json();
    let drum = wait("the drum", || {
        let inbox = city.hd(&["drums", "inbox", "clerk"]).json();
        inbox["drums"].as_array().unwrap().first().cloned()
    });
    assert_eq!(drum["subject"], "escalation esc-1 (high): the disk is slow");
    let id = drum["id"].to_string();
    let body = city.hd(&["drums", "read", &id]).json()["body"].clone();
    assert!(body.as_str().unwrap().contains("severity: high"), "{body}");
    assert_eq!(city.happened("drums.sent", "clerk").len(), 1);
}
