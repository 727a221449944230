//! Tests of the text output for results shaped as in the contract.

use serde_json::{Value, json};

use crate::cli::output::Style;

use super::child::Child;
use super::{event, lists, show, status};
use crate::control::protocol::answers::{Escalation, Git, LogText, MrRow, Raider, Salvage};
use crate::testing::samples::sample;

pub(super) const PLAIN: Style = Style {
    color: false,
    width: None,
};
const COLOR: Style = Style {
    color: true,
    width: None,
};
const NARROW: Style = Style {
    color: false,
    width: Some(60),
};

/// Renders `status` at noon.
pub(super) fn screen(city: &Value, style: Style) -> String {
    let now = "2026-01-31T12:00:00Z".parse().unwrap();
    status::at_time(&sample(city.clone()), style, now)
}

pub(super) fn city() -> Value {
    json!({
        "city": "bright-lights", "pid": 41, "uptime_s": 273_840, "version": "0.1.0",
        "last_reload_error": null,
        "agents": [{"name": "mayor", "state": "running", "pid": 10, "generation": 1, "restarts": 0,
            "quarantined_until": null, "since": "2026-01-31T11:00:00Z", "condition": null}],
        "rigs": [{
            "name": "horde",
            "raiders": [
                {"name": "Ash", "id": "horde/raiders/Ash", "state": "working", "condition": null,
                 "hook": "gt-2", "branch": "raider/Ash/gt-2-1", "restarts": 0,
                 "session": {"id": "gt-horde-Ash", "since": "2026-01-31T11:59:48Z"},
                 "git": {"ahead": 1}},
                {"name": "Toast", "id": "horde/raiders/Toast", "state": "working",
                 "needs_person": true, "condition": "needs_input", "detail": "rm -r \u{1b}[2J target?",
                 "hook": "gt-1", "branch": "raider/Toast/gt-1-1", "restarts": 1,
                 "session": {"id": "gt-horde-Toast", "since": "2026-01-31T11:57:46Z"},
                 "git": {"ahead": 3, "dirty": 2, "untracked": 1}},
            ],
            "relics": {"open": 9, "hooked": 0, "blocked": 2, "deferred": 0},
            "forge": {"paused": true, "queue": [
                {"id": "gt-4", "relic": "gt-3", "state": "testing", "note": null,
                 "branch": "raider/Shadow/gt-3-1"},
                {"id": "gt-6", "relic": "gt-5", "state": "reviewing", "needs_person": true,
                 "note": "hd mq approve gt-6", "branch": "raider/Rust/gt-5-1"}]},
        }],
        "automations": [], "escalations": 2,
    })
}

#[test]
fn status_is_one_screen_with_what_needs_a_person_first() {
    insta::assert_snapshot!(screen(&city(), PLAIN), @r"
    bright-lights  up 3d04h (pid 41)  2 raiders  1 agent  2 escalations (hd escalations)
    ! horde gt-6: hd mq approve gt-6
       NAME         STATE                FOR    HOOK  GIT       BRANCH               DEATHS
    !  horde/Toast  working needs_input  2m14s  gt-1  +3 ~2 ?1  raider/Toast/gt-1-1  1
       horde/Ash    working              12s    gt-2  +1        raider/Ash/gt-2-1    0
       mayor        running              1h00m  -     -         -                    0
    ! horde/Toast: needs_input: rm -r \x1b[2J target?
    relics horde  9 open, 2 blocked
    queue horde  paused
       MR    RELIC  STATE      BRANCH                NOTE
    !  gt-6  gt-5   reviewing  raider/Rust/gt-5-1    hd mq approve gt-6
       gt-4  gt-3   testing    raider/Shadow/gt-3-1  -
    ");
}

/// A pool shows the reason of its size.
#[test]
fn status_shows_pools() {
    let mut city = city();
    city["pools"] = json!([
        {"name": "worker", "min": 0, "max": 4, "wanted": 4, "asked": 9, "running": 3, "draining": 1,
         "last_check": "2026-01-31T11:59:50Z", "error": null},
        {"name": "tester", "min": 1, "max": 2, "wanted": 1, "running": 0, "draining": 0,
         "last_check": "2026-01-31T11:59:30Z", "error": "it failed: no queue"}]);
    let screen = screen(&city, PLAIN);
    let from = screen.find("POOL").unwrap();
    let to = screen.find("relics").unwrap();
    insta::assert_snapshot!(&screen[from..to], @r"
    POOL    WANTED           RUNNING  DRAINING  BOUNDS  CHECKED  ERROR
    worker  4 (asked for 9)  3        1         0..4    10s      -
    tester  1                0        0         1..2    30s      it failed: no queue
    ");
}

#[test]
fn colours_are_used_only_where_wanted() {
    assert!(!screen(&city(), PLAIN).contains('\u{1b}'));
    let colored = screen(&city(), COLOR);
    assert!(colored.contains("\u{1b}[33m"));
    assert!(
        !colored.contains("\u{1b}[2J"),
        "an agent's text steers the terminal"
    );
}

#[test]
fn an_empty_city_and_a_bad_reload_are_said() {
    let empty =
        json!({"city": "c", "pid": 1, "uptime_s": 5, "last_reload_error": "city.toml:3: no"});
    let text = screen(&empty, PLAIN);
    assert!(
        text.contains("the last reload failed: city.toml:3: no"),
        "{text}"
    );
    assert!(text.contains("no work in progress"), "{text}");
}

#[test]
fn lists_say_when_they_are_empty() {
    for text in [
        lists::relics(&[], PLAIN),
        lists::raiders(&[], PLAIN),
        lists::merge_requests(&[], PLAIN),
        lists::salvages(&[], PLAIN),
        lists::stashes(&[], PLAIN),
    ] {
        assert!(!text.is_empty());
    }
}

#[test]
fn an_event_is_one_line() {
    let said = json!({"seq": 12, "ts": "2026-01-31T12:00:00.123456789Z", "type": "raider.nuked",
        "subject": "horde/raiders/Toast", "cause": "done_clean_pushed",
        "data": {"incarnation": 1, "note": null, "error": "x".repeat(90)}});
    let line = event::event(&sample(said.clone()), PLAIN);
    let start = "    12  2026-01-31T12:00:00Z  raider.nuked            \
                 horde/raiders/Toast  (done_clean_pushed)";
    assert!(line.starts_with(start), "{line}");
    assert!(line.ends_with('…') || line.contains("… "), "{line}");
    assert_eq!(line.lines().count(), 1);
    let story = json!({"subject": "horde/raiders/Toast", "events": [said]});
    let story = event::why(&sample(story), PLAIN);
    assert_eq!(story.lines().count(), 3, "and the error, whole");
}

/// The tail of a crashed session's output shows its last line, which tells why.
#[test]
fn of_an_output_the_end_is_shown() {
    let tail = format!("it starts\n{}\nout of memory\n", "working ".repeat(20));
    let died = json!({"seq": 1, "ts": "2026-01-31T12:00:00Z", "type": "agent.crashed",
        "subject": "mayor", "cause": "crashed", "data": {"code": null, "signal": 9, "tail": tail}});
    for columns in [None, Some(120), Some(102)] {
        let style = Style {
            width: columns,
            ..PLAIN
        };
        let line = event::event(&sample(died.clone()), style);
        assert!(line.contains("signal=9 tail=\"…"), "{line}");
        assert!(line.ends_with("out of memory\""), "{line}");
        assert!(columns.is_none_or(|most| line.chars().count() <= most));
    }
}

/// A `config.reloaded` event lists its actions in words, without the agents that it did not concern.
#[test]
fn a_reload_in_the_journal_is_told_in_words() {
    let reloaded = json!({"seq": 1, "ts": "2026-01-31T12:00:00Z", "type": "config.reloaded",
        "subject": "city", "cause": "config", "data": {"pending": [], "actions": [
            {"action": "none", "agent": "mayor"}, {"action": "start", "agent": "clock"},
            {"action": "restart", "agent": "api"}]}});
    let line = event::event(&sample(reloaded), PLAIN);
    let told = "actions=\"start clock, restart api\"";
    assert!(line.ends_with(told), "{line}");
}

#[test]
fn a_relic_shows_its_body_below_its_facts() {
    let relic = json!({"id": "gt-1", "title": "add a flag", "body": "first\nsecond",
        "status": "open", "children": [], "deps": ["gt-0"]});
    insta::assert_snapshot!(show::relic(&sample(relic), PLAIN), @r"
    gt-1  add a flag
    charge_failures  0
    created          2026-01-31T12:00:00Z
    deps             gt-0
    kind             task
    priority         0
    reworks          0
    status           open
    body
      first
      second
    ");
}

#[test]
fn charged_and_waiting_relics_are_told_apart() {
    let result = json!({"relics": [
        {"relic": "gt-1", "raider": "horde/raiders/Toast", "branch": "raider/Toast/gt-1-1"},
        {"relic": "gt-2", "raider": null, "note": "no free slot", "rig": "horde",
         "auto_charge": false},
        {"relic": "gt-3", "raider": null, "note": "no free slot", "rig": "auto",
         "auto_charge": true},
        {"relic": "gt-4", "raider": null, "note": "no harness", "error": {"kind": "conflict"}},
        {"relic": "gt-5", "raider": null, "note": "it waits", "rig": "horde",
         "auto_charge": false, "deps": ["gt-1"]}]});
    insta::assert_snapshot!(show::started(&sample(result), PLAIN), @r"
    gt-1 is charged to horde/raiders/Toast, on branch raider/Toast/gt-1-1
    gt-2 waits: no free slot
    gt-3 waits: no free slot
    gt-4 is not charged
    gt-5 waits: it waits
    gt-2 does not start automatically, because auto_charge is off: hd charge gt-2 horde
    gt-5 does not start automatically, because auto_charge is off: hd charge gt-5 horde, when gt-1 is closed
    ");
}

#[test]
fn a_terminals_log_reads_as_text() {
    let log = "\u{1b}[1;32mok\u{1b}[0m\r\n\u{1b}]0;title\u{7}two\
               \u{1b}]8;;x\u{1b}\\link\u{1b}(B\n\u{1b}7three";
    let text = show::text::<LogText>(&sample(json!({ "text": log })), PLAIN);
    assert_eq!(
        text,
        "ok\n\\x1b]0;title\\x07two\\x1b]8;;x\\x1b\\link\n\\x1b7three"
    );
}

/// Escalations are rendered from their relics.
#[test]
fn an_escalation_says_how_urgent_it_is_about_what_and_how_to_close_it() {
    let relics = json!([
        {"id": "hd-2", "kind": "escalation", "title": "its work cannot be pushed",
         "body": "remote: no", "status": "open", "priority": 2,
         "acked": true, "again": 1, "labels": ["about:horde/raiders/Toast:gt-1"], "created": "2026-01-31T12:00:00Z"},
        {"id": "hd-1", "kind": "escalation", "title": "the disk is full", "body": "",
         "status": "open", "priority": 0, "labels": ["about:horde/forge"],
         "created": "2026-01-31T11:00:00Z"}]);
    let open: Vec<Escalation> = sample(relics);
    insta::assert_snapshot!(lists::escalations(&open, PLAIN), @r"
    ID    SEVERITY  STATE  ABOUT                     CREATED               PROBLEM
    hd-2  high      acked  horde/raiders/Toast gt-1  2026-01-31T12:00:00Z  its work cannot be pushed
    hd-1  low       new    horde/forge               2026-01-31T11:00:00Z  the disk is full
    `hd relic show ID` shows details; `hd escalations ack ID` stops repeated notices; `hd relic close ID` closes a resolved one, for example: hd relic close hd-2
    ");
    assert!(!lists::escalations(&[], PLAIN).contains("close"));
}

#[test]
fn the_queue_leaves_out_what_has_ended_and_says_so() {
    let queue = json!([
        {"id": "gt-4", "state": "testing"}, {"id": "gt-2", "state": "merged"},
        {"id": "gt-3", "state": "failed"}]);
    let queue: Vec<MrRow> = sample(queue);
    let text = lists::merge_requests(&queue, PLAIN);
    assert!(text.contains("gt-4") && !text.contains("gt-2"), "{text}");
    assert!(text.ends_with("2 finished: hd mq list --all"), "{text}");
    let all = lists::all_merge_requests(&queue, PLAIN);
    assert!(all.contains("gt-2") && all.contains("gt-3"), "{all}");
}

/// Lines are as wide as the terminal at most; times end with the second.
#[test]
fn lines_are_fitted_to_the_terminal() {
    let salvages = json!([{"id": "x-1", "rig": "horde", "relic": "gt-1", "bytes": 7,
        "created": "2026-01-31T12:00:00.123456789Z", "reason": "r".repeat(90)}]);
    let salvages: Vec<Salvage> = sample(salvages);
    let text = lists::salvages(&salvages, NARROW);
    assert!(
        text.lines().all(|line| line.chars().count() <= 60),
        "{text}"
    );
    let whole = lists::salvages(&salvages, PLAIN);
    assert!(whole.contains("2026-01-31T12:00:00Z"), "{whole}");
    assert!(whole.contains(&"r".repeat(90)), "{whole}");
    let happened = json!({"seq": 1, "ts": "2026-01-31T12:00:00.5Z", "type": "mr.merging",
        "subject": "gt-2", "cause": "done", "data": {"head": "0123456789abcdef".repeat(3)}});
    let happened = sample(happened);
    let wide = Style {
        width: Some(100),
        ..PLAIN
    };
    let line = event::event(&happened, wide);
    assert!(line.ends_with("head=0123456789ab"), "{line}");
    let wide = Style {
        width: Some(74),
        ..PLAIN
    };
    let line = event::event(&happened, wide);
    assert!(line.chars().count() <= 74 && line.ends_with('…'), "{line}");
}

/// A raider without a session shows the reason if it is known.
#[test]
fn a_raider_that_is_suspended_or_quarantined_says_so() {
    let backoff: Raider = sample(json!({"state": "stalled", "retry_at": "2026-01-31T12:00:00Z"}));
    assert_eq!(Child::from(&backoff).state().0, "backoff");
    let row = |suspended: bool, until: Value| {
        let raider: Raider = sample(json!({
            "state": "stalled", "suspended": suspended, "quarantined_until": until,
        }));
        Child::from(&raider).state().0
    };
    let until = json!("2026-01-31T12:00:00Z");
    assert_eq!(row(true, until.clone()), "suspended");
    assert_eq!(row(false, until), "quarantined");
    assert_eq!(row(false, Value::Null), "stalled");
}

/// Every marked child has its reason below the table; a child that only waits is not marked.
#[test]
fn marked_child_has_its_reason_below_the_table() {
    let raider = |name: &str, state: &str, more: Value| {
        let mut raider =
            json!({"name": name, "state": state, "condition": null, "needs_person": true});
        let more = more.as_object().unwrap().clone();
        raider.as_object_mut().unwrap().extend(more);
        raider
    };
    let since = "2026-01-31T11:00:00Z";
    let shown = json!({
        "agents": [raider("api", "blocked", json!({})),
            raider("ops", "backoff", json!({"detail": "its start is put off: no room", "needs_person": false}))],
        "rigs": [{"name": "r", "raiders": [
            raider("Ash", "stalled", json!({"stalled_since": since})),
            raider("Rust", "stalled", json!({})),
            raider("Yew", "stalled", json!({"detail": "it was stopped"})),
            raider("Oak", "stalled", json!({"retry_at": since, "needs_person": false})),
            raider("Bay", "stalled", json!({"detail": "its start is put off: no room", "needs_person": false})),
            raider("Elm", "zombie", json!({"detail": "its hook is gone"})),
            raider("Fig", "working", json!({"needs_person": false})),
        ]}],
    });
    let screen = screen(&shown, PLAIN);
    let marked = |line: &&str| line.starts_with("!  ");
    assert_eq!(screen.lines().filter(marked).count(), 5, "{screen}");
    for line in [
        "! r/Yew: stalled: it was stopped: hd why r/Yew",
        "! r/Ash: stalled: no progress since 2026-01-31T11:00:00Z: hd peek r/Ash",
        "! r/Rust: stalled: it has no session: hd why r/Rust",
        "  r/Oak: backoff: it is restarted at 2026-01-31T11:00:00Z: hd why r/Oak",
        "  r/Bay: stalled: its start is put off: no room: hd why r/Bay",
        "  ops: backoff: its start is put off: no room: hd why ops",
        "! r/Elm: zombie: its hook is gone",
        "! api: blocked: an agent that it depends on is not running",
    ] {
        assert!(screen.lines().any(|said| said == line), "{line}\n{screen}");
    }
}

/// A time in the middle of a text is shortened, too.
#[test]
fn times_end_with_the_second_everywhere() {
    let mut city = city();
    let raider = &mut city["rigs"][0]["raiders"][0];
    raider["condition"] = json!("waiting");
    raider["detail"] = json!("the CI runs, until 2026-01-31T12:30:00.123456789Z");
    let text = screen(&city, PLAIN);
    assert!(
        text.contains("waiting: the CI runs, until 2026-01-31T12:30:00Z\n"),
        "{text}"
    );
}

/// The screen tells why an agent does not have its new configuration yet.
#[test]
fn a_restart_that_waits_is_said_with_what_it_waits_for() {
    let mut city = city();
    city["agents"][0]["deferred"] = json!(true);
    let text = screen(&city, PLAIN);
    let waits = "mayor: deferred: its new configuration takes effect when";
    assert!(
        text.contains(&format!("{waits} no terminal is attached")),
        "{text}"
    );
    city["agents"][0]["condition"] = json!("needs_input");
    let text = screen(&city, PLAIN);
    assert!(
        text.contains(&format!("{waits} its question is answered")),
        "{text}"
    );
}

/// Git counts that are old are shown with their age.
#[test]
fn counts_that_are_old_say_how_old_they_are() {
    let raider = |age_s: u64| {
        let git = Git {
            ahead: 3,
            dirty: 2,
            untracked: 0,
            age_s,
        };
        super::words::git(Some(&git))
    };
    assert_eq!(raider(59), "+3 ~2");
    assert_eq!(raider(125), "+3 ~2 (2m05s ago)");
}

/// Issue 17, 3: after a crash and after a handoff it says so, and a handoff without a note is seen as one.
#[test]
fn rally_says_how_the_last_session_ended() {
    let told = |last_end: Value, note: Value| {
        let rules = "Rules:\n- Stay.";
        let rally = json!({ "raider": "horde/raiders/Toast", "last_end": last_end, "note": note, "rules": rules,
            "note_at": "2026-01-01T10:00:00Z", "outcome": { "state": "passed", "void": true } });
        show::orders(&rally, PLAIN)
    };
    let first = told(Value::Null, Value::Null);
    assert!(!first.contains("last_end"), "{first}");
    assert!(first.contains("rules\n  Rules:\n  - Stay."), "{first}");
    assert!(first.contains("state  passed"), "{first}");
    for (end, note, said) in [
        (
            "handoff",
            json!("half"),
            "handoff: the last session handed off\n",
        ),
        ("handoff", Value::Null, "handed off, and left no note"),
        ("crash", json!("half"), "crash: the last session died"),
        ("of a newer version", Value::Null, "of a newer version"),
    ] {
        let text = told(json!(end), note);
        assert!(text.contains(said), "{end}: {text}");
        assert!(text.contains("2026-01-01T10:00:00Z"), "{text}");
    }
}

#[test]
fn new_slot_is_told_after_a_charge() {
    let told = |new_slot: bool| {
        let charged = json!({"relic": "gt-1", "raider": "horde/raiders/Tost",
            "branch": "raider/Tost/gt-1-1", "start": null, "new_slot": new_slot});
        show::charged(&sample(charged), PLAIN)
    };
    let new = "\nTost is a new slot: it is not among the `names` of rig horde";
    assert!(told(true).ends_with(new), "{}", told(true));
    assert!(!told(false).contains("new slot"), "{}", told(false));
}

#[test]
fn list_of_escalations_tells_what_to_do_about_a_blocked_relic() {
    let open = json!([
        {"id": "esc-1", "code": "agent_stuck", "next": "gt-1 is blocked; `hd relic reopen gt-1`"},
        {"id": "esc-2", "code": "said", "next": "`hd relic close esc-2` closes it"}]);
    let told = lists::escalations(&sample::<Vec<Escalation>>(open), PLAIN);
    assert!(
        told.contains("\nesc-1: gt-1 is blocked; `hd relic reopen gt-1`\n"),
        "{told}"
    );
    assert!(!told.contains("esc-2: "), "{told}");
}
