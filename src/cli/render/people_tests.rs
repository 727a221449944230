//! Tests of the text output for budgets, questions, cost and quarantines.

use serde_json::{Value, json};

use super::tests::{PLAIN, city, screen};
use super::{cost, event, outcome_lines};
use crate::testing::samples::sample;

/// A spent budget stands above the table with its consequence; the choices of a question stand behind it.
#[test]
fn status_shows_spent_budgets_and_the_choices_of_a_question() {
    let mut city = city();
    city["budgets"] = json!([
        {"of": "rig horde", "detail": "rig horde has spent $20.40 of $20.00 today", "parks": true,
         "until": "2026-02-01T00:00:00Z"},
        {"of": "city", "detail": "the city has spent $31.00 of $30.00 today", "parks": false, "until": null}]);
    let toast = &mut city["rigs"][0]["raiders"][1];
    toast["condition"] = json!("needs_input");
    toast["detail"] = json!("Do you want to proceed?");
    toast["choices"] = json!(["Yes", "No, and\u{1b}[2J tell it why"]);
    let ash = &mut city["rigs"][0]["raiders"][0];
    ash["condition"] = json!("auth");
    ash["needs_person"] = json!(true);
    ash["detail"] = json!("Sign in with ChatGPT");
    ash["choices"] = json!(["Sign in with ChatGPT", "Sign in with Device Code"]);
    let screen = screen(&city, PLAIN);
    let lines: Vec<&str> = screen.lines().collect();
    let at = |line: &str| {
        let found = lines.iter().position(|said| *said == line);
        found.unwrap_or_else(|| panic!("{line}\n{screen}"))
    };
    let table = lines.iter().position(|line| line.contains("NAME")).unwrap();
    let parks =
        "! rig horde has spent $20.40 of $20.00 today; new work is charged 2026-02-01T00:00:00Z";
    assert!(at(parks) < table);
    assert!(at("! the city has spent $31.00 of $30.00 today") < table);
    at(
        "! horde/Toast: needs_input: Do you want to proceed?  [1 Yes | 2 No, and\\x1b[2J tell it why]  hd answer horde/Toast CHOICE",
    );
    at(
        "! horde/Ash: auth: Sign in with ChatGPT  [1 Sign in with ChatGPT | 2 Sign in with Device Code]  hd answer horde/Ash CHOICE",
    );
}

#[test]
fn status_names_escalations_above_the_table_and_counts_the_rest() {
    let mut city = city();
    let call =
        |n: usize| json!({ "id": format!("esc-{n}"), "about": "mayor", "problem": "no key" });
    city["calls"] = (1..=12).map(call).collect();
    let screen = screen(&city, PLAIN);
    let lines: Vec<&str> = screen.lines().collect();
    let table = lines.iter().position(|line| line.contains("NAME")).unwrap();
    let above = lines[..table].join("\n");
    assert!(
        above.contains("! mayor: no key: hd relic show esc-1\n"),
        "{screen}"
    );
    assert!(!screen.contains("esc-11"), "{screen}");
    assert!(
        above.contains("! 2 more escalations: hd escalations"),
        "{screen}"
    );
}

#[test]
fn status_counts_the_drums_that_wait_for_people() {
    let mut city = city();
    assert!(!screen(&city, PLAIN).contains("drum"));
    city["drums"] = json!(2);
    let screen = screen(&city, PLAIN);
    let head = screen.lines().next().unwrap();
    assert!(head.contains("2 drums (hd drums inbox)"), "{head}");
}

#[test]
fn cost_is_a_table_with_a_total_and_says_what_is_not_priced() {
    let usage = |key: &str, input: u64, usd: Value, unpriced: u64| {
        json!({"key": key, "input": input, "output": 20_500, "cache_read": 1_234_567, "cache_write": 0,
               "usd": usd, "unpriced": unpriced})
    };
    let mut total = usage("", 10_006, json!(1.5), 12_000);
    total.as_object_mut().unwrap().remove("key");
    let told = json!({"by": "raider", "since": "2026-01-31",
        "rows": [usage("horde/raiders/Toast", 9_999, json!(1.5), 0), usage("", 7, Value::Null, 12_000)],
        "total": total,
        "not_counted": ["the transcripts of pi cannot be read"]});
    insta::assert_snapshot!(cost::cost(&sample(told), PLAIN), @r"
    RAIDER               INPUT  OUTPUT  CACHE READ  CACHE WRITE  USD
    horde/raiders/Toast  9999   20.5k   1.2M        0            1.50
    -                    7      20.5k   1.2M        0            ?
    total                10.0k  20.5k   1.2M        0            1.50+
    +, ? : 12.0k tokens have no price; set `prices` of the harness
    the transcripts of pi cannot be read
    ");
    let none = json!({"by": "day", "since": "2026-01-31", "rows": []});
    let none = cost::cost(&sample(none), PLAIN);
    assert_eq!(none, "no token usage is recorded since 2026-01-31");
}

#[test]
fn quarantine_says_what_it_died_of() {
    let raider = json!({"name": "Ash", "state": "stalled", "condition": null, "needs_person": true,
        "quarantined_until": "2026-01-31T12:00:00Z", "died_of": "exit code 1: no\u{1b}[2J model"});
    let shown = json!({"rigs": [{"name": "r", "raiders": [raider]}]});
    let screen = screen(&shown, PLAIN);
    let line = "! r/Ash: quarantined until 2026-01-31T12:00:00Z; last death: exit code 1: \
    no\\x1b[2J model; hd raider unquarantine r/Ash";
    assert!(screen.lines().any(|said| said == line), "{screen}");
}

/// `status` shows a configuration error with file, line and caret, as the start does.
#[test]
fn status_shows_a_wrong_configuration_in_its_lines() {
    let mut city = city();
    city["last_reload_error"] = json!("error: no\n --> city.toml:3:1\n3 | mx = 4\n  | ^^");
    let screen = screen(&city, PLAIN);
    let told = "the last reload failed:\nerror: no\n --> city.toml:3:1\n3 | mx = 4\n  | ^^\n";
    assert!(screen.contains(told), "{screen}");
}

/// The line of an event gives way to the width of a terminal; the story of a name leaves nothing out.
#[test]
fn story_tells_texts_whole_that_its_lines_cut() {
    let why = format!("the outcome file cannot be read: {}", "long ".repeat(30));
    let why = why.trim_end();
    let event = |why: &str| {
        json!({"seq": 1, "ts": "2026-01-31T12:00:00Z", "type": "raider.nudged",
            "subject": "horde/raiders/Toast", "cause": "outcome_file", "data": {"why": why}})
    };
    let story = |why| {
        let told = json!({"subject": "horde/raiders/Toast", "events": [event(why)]});
        event::why(&sample(told), PLAIN)
    };
    assert!(!event::event(&sample(event(why)), PLAIN).contains(why));
    assert!(
        story(why).contains(&format!("\n        why: {why}")),
        "{}",
        story(why)
    );
    assert_eq!(story("short").matches("short").count(), 1);
    let nasty = story("a\u{1b}[2Jb");
    assert!(!nasty.contains('\u{1b}'), "{nasty:?}");
}

#[test]
fn call_that_ended_by_itself_is_told_in_words() {
    let acked = json!({"seq": 1, "ts": "2026-01-31T12:00:00Z", "type": "escalation.acked",
        "subject": "gt-5", "cause": "vanished", "data": {}});
    let line = event::event(&sample(acked), PLAIN);
    assert!(
        line.contains("(vanished: its subject no longer exists or is resolved)"),
        "{line}"
    );
}

/// An agent gives the reason of its wait: it had read as further fields of the event.
#[test]
fn text_of_several_words_is_quoted_in_the_line_of_an_event() {
    let waits = json!({"seq": 1, "ts": "2026-01-31T12:00:00Z", "type": "raider.deferred",
        "subject": "mayor", "cause": "deferred", "data": {"reason": "x\" by=operator", "tries": 1}});
    let line = event::event(&sample(waits), PLAIN);
    let told = r#"reason="x\" by=operator" tries=1"#;
    assert!(line.ends_with(told), "{line}");
}

#[test]
fn nuke_tells_what_its_salvage_could_not_read() {
    let id = "e".repeat(40);
    let nuked =
        json!({"raider": "horde/raiders/Toast", "salvage": "horde-Toast-1", "damaged": [id]});
    assert_eq!(
        outcome_lines::nuke(&sample(nuked), PLAIN),
        "horde/raiders/Toast is removed; what could be read of its work is saved: hd salvage \
         restore horde-Toast-1; objects of eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee were not \
         read and are not in the salvage"
    );
}

/// The sandbox of a finished raider may hold work about which only a person can decide.
#[test]
fn status_marks_a_raider_with_an_open_escalation_about_its_sandbox() {
    let mut city = city();
    let ash = &mut city["rigs"][0]["raiders"][0];
    ash["state"] = json!("done");
    ash["needs_person"] = json!(true);
    ash["escalation"] = json!({"id": "hs-7", "problem": "stash entries remain"});
    let screen = screen(&city, PLAIN);
    let row = screen.lines().find(|line| line.contains("+1 ")).unwrap();
    assert!(row.starts_with("!  horde/Ash "), "{screen}");
    let line = "! horde/Ash: stash entries remain: hd relic show hs-7";
    assert!(screen.lines().any(|shown| shown == line), "{screen}");
}

#[test]
fn import_tells_the_new_ids_of_its_records() {
    let told = |number: usize| {
        let of = |n: usize| json!({"record": format!("bd-{n}"), "relic": format!("gt-{n}"), "change": "created"});
        let mut relics: Vec<Value> = (0..number).map(of).collect();
        relics.push(json!({"record": "gt-99", "relic": "gt-99", "change": "created"}));
        relics.push(json!({"record": "bd-98", "relic": "gt-98", "change": "unchanged"}));
        let told = json!({
            "created": number, "updated": 0, "unchanged": 0, "priorities": "as they are",
            "relics": relics,
        });
        outcome_lines::imported(&told, PLAIN)
    };
    assert!(
        told(2).ends_with("\nbd-0 is now gt-0\nbd-1 is now gt-1"),
        "{}",
        told(2)
    );
    assert!(!told(0).contains("gt-99"), "it has its own id");
    let many = told(25);
    assert!(
        many.contains("\nbd-19 is now gt-19\n--json names 5 more"),
        "{many}"
    );
}

#[test]
fn counts_and_pauses_are_told_in_correct_words() {
    let imported = |made: u64| {
        let told =
            json!({"created": made, "updated": 0, "unchanged": 2, "priorities": "as they are"});
        outcome_lines::imported(&told, PLAIN)
    };
    assert!(imported(1).starts_with("1 relic made, 0 updated"));
    assert!(imported(2).starts_with("2 relics made, 0 updated"));
    let resumed = |rig: Value| {
        let told = sample(json!({"rig": rig, "paused": false, "changed": false}));
        outcome_lines::charging(&told, PLAIN)
    };
    let nowhere = "automatic charging is not paused in any rig";
    assert_eq!(resumed(Value::Null), nowhere);
    assert_eq!(
        resumed(json!("horde")),
        "automatic charging is not paused in rig horde"
    );
    let rejected = sample(
        json!({"decision": "rejected", "charge_paused": true, "relic": "gt-3", "rig": "horde"}),
    );
    let told = outcome_lines::decided(&rejected, PLAIN);
    assert!(
        told.ends_with("automatic charging is paused: hd charge gt-3 horde"),
        "{told}"
    );
}
