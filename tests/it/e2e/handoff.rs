//! A handoff replaces the session and nothing else (`raider-lifecycle.md`, session layer; `rules.md`, restart).

use serde_json::Value;

use crate::support::git::write;
use crate::support::live::City;
use crate::support::plan::Plan;
use crate::support::repository::repository;

/// The note is in the next prompt, the sandbox is unchanged, and it counts as no restart.
#[test]
fn a_handoff_starts_a_fresh_session_that_has_the_note() {
    let city = City::new();
    let relic = city.work(
        "two halves",
        &[
            "[ $n = 2 ] || { echo half >half.txt; hd handoff -m 'the second half is missing'; forever; }",
            "await go",
            "git add half.txt",
            "git commit --quiet -m whole",
            "hd done",
        ],
    );
    let prompt = city.wait_prompt(&relic, 2);
    assert!(prompt.contains("handed off to you"), "{prompt}");
    assert!(prompt.contains("the second half is missing"), "{prompt}");
    let raider = city.wait_session(&relic, 2);
    assert_eq!(
        (&raider["incarnation"], &raider["restarts"]),
        (&1.into(), &0.into())
    );
    let toast = "horde/raiders/Toast";
    assert_eq!(city.happened("raider.handoff", toast).len(), 1);
    assert_eq!(
        city.happened("agent.restarted", toast)[0]["cause"],
        "handoff"
    );
    assert_eq!(city.happened("agent.crashed", toast), Vec::<Value>::new());
    assert_eq!(
        city.happened("raider.respawned", toast),
        Vec::<Value>::new()
    );
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"half.txt".to_owned()));
    assert_eq!(city.sessions_of(&relic), 2);
}

/// A program that hands off at each start: the fourth in a row waits, and is no death.
#[test]
fn a_loop_of_handoffs_is_braked() {
    let city = City::new();
    let relic = city.work("again and again", &["hd handoff -m again", "forever"]);
    let toast = "horde/raiders/Toast";
    let braked = city.wait_event(4, "agent.restarted", toast);
    assert_eq!(
        (&braked["cause"], &braked["data"]["wait_s"]),
        (&"handoff_loop".into(), &10.into())
    );
    assert_eq!(city.sessions_of(&relic), 4);
    let raider = city.hd(&["raider", "show", "Toast"]).json();
    assert_eq!(
        (&raider["session"], &raider["restarts"]),
        (&Value::Null, &0.into())
    );
    assert_eq!(raider["retry_at"], braked["data"]["until"]);
}

/// The note is for one session: the one after a crash does not get it again as new.
#[test]
fn a_note_is_read_once() {
    let city = City::new();
    let relic = city.work(
        "hand off, then crash",
        &[
            "[ $n != 1 ] || { hd handoff -m 'look at the parser'; forever; }",
            "[ $n != 2 ] || exit 1",
            "try rally hd --json rally",
            "try shown hd rally",
            "commit a.txt",
            "hd done",
        ],
    );
    assert!(city.wait_prompt(&relic, 2).contains("look at the parser"));
    let third = city.wait_prompt(&relic, 3);
    assert!(third.contains("ended before it was finished"), "{third}");
    assert!(!third.contains("handed off to you"), "{third}");
    // What it says of itself agrees with its prompt; the note is older, and stays.
    let rally = city.wait_tried("rally").json();
    assert_eq!(
        (&rally["last_end"], &rally["note"]),
        (&"crash".into(), &"look at the parser".into())
    );
    let shown = city.wait_tried("shown").out;
    assert!(shown.contains("crash: the last session died"), "{shown}");
    city.wait_status(&relic, "closed");
}

/// `contract.md`, `max_session`: the session is asked to hand off, and its successor gets the note.
#[test]
fn session_older_than_max_session_is_asked_to_hand_off() {
    let city = Plan::new()
        .set("daemon", "patrol_interval", r#""1s""#)
        .set("raiders", "max_session", r#""3s""#)
        .start();
    let first = "[ $n != 1 ] || { read line; hd handoff -m half-done; forever; }";
    let relic = city.work("long", &[first, "commit a.txt", "hd done"]);
    let asked = city.wait_event(1, "raider.nudged", "horde/raiders/Toast");
    assert_eq!(asked["cause"], "session_age");
    let prompt = city.wait_prompt(&relic, 2);
    assert!(prompt.contains("half-done"), "{prompt}");
    city.wait_status(&relic, "closed");
    let crashed = city.happened("agent.crashed", "horde/raiders/Toast");
    assert!(crashed.is_empty(), "{crashed:?}");
}

/// The scripted agent with the hooks of claude, and a rig of its own whose sessions are told to rally.
const COMPACTING: &str = r#"
[harness.compacting]
command = ["sh", "../../../agent.sh"]
prompt = "file"
hooks = "claude"
[[rigs]]
name = "other"
path = "other-checkout"
prefix = "ot"
[rigs.raiders]
harness = "compacting"
on_compact = "rally"
"#;

/// Says that its conversation is compacted, and reads the line that follows.
const COMPACTS: &str =
    r#"echo '{"hook_event_name":"PreCompact"}' | hd hook-event claude; read line"#;

/// `on_compact`: with "handoff" a fresh session gets the note, with "rally" the same session is told to read its task again.
#[test]
fn session_that_compacts_hands_off_or_rallies_as_its_rig_says() {
    let plan = Plan::new()
        .set("raiders", "harness", r#""compacting""#)
        .set("raiders", "on_compact", r#""handoff""#)
        .add(COMPACTING);
    let mut city = City::made(&plan);
    let checkout = city.root().join("other-checkout");
    repository(&checkout, Some("other-origin.git"), |checkout| {
        write(checkout, "README", "hello\n");
    });
    city.start();
    let told = r#"case "$line" in *handoff*) hd handoff -m half;; esac; forever"#;
    let first = format!("[ $n != 1 ] || {{ {COMPACTS}; {told}; }}");
    let handed = city.work("long", &[&first, "commit a.txt", "hd done"]);
    let told = r#"printf '%s' "$line" >../../../signs/line"#;
    let steps = [COMPACTS, told, "commit b.txt", "hd done"];
    let rallied = city.relic_in("other", "long, too", &steps);
    city.hd(&["charge", &rallied, "other"]).json();

    let prompt = city.wait_prompt(&handed, 2);
    assert!(prompt.contains("handed off to you"), "{prompt}");
    assert!(prompt.contains("half"), "{prompt}");
    for relic in [&handed, &rallied] {
        city.wait_status(relic, "closed");
    }
    let line = std::fs::read_to_string(city.root().join("signs/line")).unwrap();
    assert!(line.contains("was compacted"), "{line}");
    assert_eq!(city.sessions_of(&handed), 2);
    assert_eq!(city.sessions_of(&rallied), 1);
    assert_eq!(city.all_of("agent.crashed"), Vec::<Value>::new());
    let handoffs = city.all_of("raider.handoff");
    let by: Vec<_> = handoffs.iter().map(|event| &event["subject"]).collect();
    assert_eq!(by, ["horde/raiders/Toast"]);
}
