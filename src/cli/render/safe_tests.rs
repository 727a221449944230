//! Every renderer gets text that would steer a terminal, wherever its result has text.

use serde_json::{Value, json};

use super::{cost, cv, event, harness, lists, outcome_lines, show, status, totem};
use crate::cli::context::Render;
use crate::cli::output::Style;
use crate::domain::shown;

const PLAIN: Style = Style {
    color: false,
    width: None,
};
const NARROW: Style = Style {
    color: false,
    width: Some(60),
};

/// Sets the clipboard, clears the screen, turns the text round, and hides some of it.
const NASTY: &str =
    "\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{1b}[31m\u{8}\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200b}\r";

const RENDERERS: &[Render] = &[
    cost::cost,
    cv::cv,
    cv::exported,
    cv::imported,
    event::event,
    event::why,
    harness::resumed,
    harness::list,
    harness::show,
    harness::changes,
    |result, _| harness::changed(result),
    lists::relics,
    lists::merge_requests,
    lists::all_merge_requests,
    lists::salvages,
    lists::stashes,
    lists::pruned,
    lists::escalations,
    lists::automations,
    lists::runs,
    lists::agents,
    lists::raiders,
    outcome_lines::child,
    outcome_lines::nuked,
    |told, _| outcome_lines::with_ignored(String::new(), told),
    outcome_lines::rehearsed,
    outcome_lines::repaired,
    outcome_lines::relic,
    outcome_lines::merge_request,
    outcome_lines::switched,
    outcome_lines::begun,
    outcome_lines::escalated,
    outcome_lines::acked,
    outcome_lines::taken,
    outcome_lines::answered,
    outcome_lines::done,
    outcome_lines::handed_off,
    outcome_lines::waits,
    outcome_lines::restored,
    outcome_lines::reloaded,
    show::facts,
    show::raider,
    show::findings,
    show::relic,
    show::charged,
    show::text,
    show::run,
    show::rally,
    show::stopped,
    status::status,
    totem::rituals,
    totem::ritual,
    totem::totem,
    totem::step_done,
];

/// Returns results as the verbs have them, each with text wherever it may have some.
fn results() -> Vec<Value> {
    let raider = json!({"name": "Toast", "id": "horde/raiders/Toast", "state": "working",
        "condition": {"kind": "needs_input", "question": "may I?", "detail": "x", "choices": ["a"]},
        "hook": "gt-1", "relic": "gt-1", "branch": "raider/Toast/gt-1-1", "restarts": 1,
        "session": {"id": "gt-horde-Toast", "since": "2026-01-31T11:57:46Z"},
        "git": {"ahead": 3, "dirty": 2, "untracked": 1, "special": ["stash"]}});
    let agent = json!({"name": "mayor", "state": "quarantined", "pid": 10, "error": "why",
        "quarantined_until": "2026-01-31T11:57:46Z", "condition": "rate_limited", "detail": "d"});
    let mr = json!({"id": "gt-4", "relic": "gt-3", "rig": "horde", "state": "failed", "note": "n",
        "needs_person": true, "branch": "b", "title": "t", "error": "e", "merge_request": "gt-4"});
    let relic = json!({"id": "gt-1", "title": "title", "status": "open", "kind": "task", "body": "b\nc",
        "rig": "horde", "reason": "r", "labels": ["l"], "assignee": "a", "needs": ["gt-2"],
        "history": [{"at": "2026-01-31T11:57:46Z", "text": "t"}], "priority": 1});
    let event = json!({"seq": 12, "ts": "2026-01-31T12:00:00Z", "type": "raider.nuked",
        "subject": "horde/raiders/Toast", "cause": "exited",
        "data": {"tail": "the end\nof it", "message": "m", "error": "e", "code": 3,
            "ignored": ["a", "b"], "nested": {"deep": "text"}}});
    let escalation = json!({"id": "gt-7", "severity": "high", "title": "t", "about": "a:b", "acked": false,
        "since": "2026-01-31T12:00:00Z", "said": ["one", "two"], "reports": 2, "body": "text"});
    let run = json!({"automation": "own", "name": "own", "gate": "cron", "result": "failed", "next": "n",
        "last": {"result": "ok", "at": "2026-01-31T12:00:00Z"}, "error": "e", "tail": "t",
        "enabled": false, "due": "2026-01-31T12:00:00Z", "cause": "c"});
    let salvage = json!({"id": "1", "raider": "horde/raiders/Toast", "relic": "gt-1", "path": "/x",
        "refs": ["refs/horde/salvage/x"], "files": ["a"], "why": "w", "complete": false,
        "lost": ["l"], "note": "n", "branch": "b", "commit": "c"});
    let preset = json!({"name": "claude", "command": ["claude", "-p"], "program": "claude", "version": "1",
        "state": "missing", "why": "w", "hint": "h", "notes": ["n"], "account": "a",
        "file": "/f", "by_hand": [{"what": "w", "how": "h"}], "login": "l",
        "changes": [{"file": "/f", "diff": ["+a"], "after": "x", "key": "k", "value": "v"}]});
    let action = json!({"agent": "m", "name": "m", "action": "restart", "why": "w", "changed": ["command"],
        "rig": "r", "raider": "x"});
    let status = json!({"city": "bright-lights", "pid": 41, "uptime_s": 27, "version": "0.1.0",
        "last_reload_error": "line 3", "agents": [agent], "problems": ["p"], "warnings": ["w"],
        "accounts": [{"account": "claude", "state": "parked", "until": "u", "why": "w"}],
        "pools": [{"name": "worker", "min": 0, "max": 4, "error": "it failed"}],
        "groups": [{"name": "g", "state": "s"}], "cost": {"today": 1.5, "note": "n"},
        "rigs": [{"name": "horde", "raiders": [raider], "note": "n", "error": "e",
            "relics": {"open": 9}, "forge": {"paused": true, "queue": [mr], "why": "w"}}],
        "automations": [run], "escalations": 2});
    let step = json!({"id": "gt-1.1", "name": "plan", "title": "t", "body": "b\nc", "status": "open",
        "deps": ["gt-2"], "needs": ["n"], "ready": false, "fresh_session": true});
    let totem = json!({"relic": "gt-1", "title": "t", "ritual": "work", "present": "gt-1.1", "done": 0,
        "name": "work", "description": "d", "file": "/f", "vars": {"v": "x"}, "steps": [step], "text": "a\nb"});
    vec![
        json!([totem.clone()]),
        totem,
        status,
        json!([raider.clone()]),
        raider,
        json!([agent.clone()]),
        json!([mr.clone()]),
        mr,
        json!([relic.clone()]),
        relic,
        event.clone(),
        json!({"subject": "horde/raiders/Toast", "events": [event], "now": "n", "state": "s"}),
        json!([escalation.clone()]),
        escalation,
        json!([run.clone()]),
        run,
        json!([salvage.clone()]),
        salvage.clone(),
        json!({"pruned": [salvage], "kept": ["k"], "note": "n"}),
        json!([preset.clone()]),
        json!({"harnesses": [preset.clone()], "problem": "p", "errors": ["e"]}),
        preset,
        json!({"revision": "r", "actions": [action.clone()], "rigs": [action.clone()],
            "raiders": [action], "pending": ["p"], "error": "e"}),
    ]
}

/// Returns the results that have only a few words.
fn more_results() -> Vec<Value> {
    let chain = json!({"name": "claude", "city": "north", "is_slot": false, "entries": 2, "verified": true,
        "broken": {"seq": 2, "flaw": "changed"}, "record": {"all": {"successes": 1, "results": 2},
            "labels": {"ui": {"successes": 1, "results": 2}}, "file_types": {"rs": 1}}});
    let entry = json!({"seq": 1, "hash": "h", "kind": "merged", "data": {"at": "a", "relic": "gt-1", "mr": "gt-2",
        "labels": ["l"], "failure": "f"}});
    let cv = json!({"name": "north:claude", "entries": [entry], "ok": false, "chains": [chain], "more": true});
    let mut all = cv.clone();
    all["name"] = Value::Null;
    let texts = json!({"name": "n", "text": "a\nb", "screen": "s", "raider": "r", "relic": "gt-1",
        "session": "s", "branch": "b", "rig": "horde", "path": "/p", "worktree": "/w", "id": "i",
        "state": "kept", "message": "m", "note": "n", "reason": "r", "hint": "h", "question": "q",
        "answer": "a", "until": "u", "outbox": "/o", "stopped": true, "sessions": "ended",
        "ignored": ["x"], "losses": ["l"], "would": "nuke", "refused": "why", "error": "e",
        "salvage": "s", "salvaged": ["y"], "removed": ["z"], "made": ["q"], "names": ["n"],
        "next": {"question": "q", "choices": ["c"]}, "relics": [{"id": "gt-1", "title": "t"}, {"relic": "gt-1", "rig": "r"}],
        "git": {"unknown": "u"}, "accepted": true, "result": "r", "exit": "e", "data": {"tail": "t"}});
    let finding = json!({"problem": "p", "subject": "s", "what": "w", "hint": "h", "remedy": "r",
        "fixed": false, "tried": "t", "detail": "d", "says": "s", "advice": "a"});
    let rows = json!({"rows": [{"of": "Toast", "key": "k", "name": "n", "cost": 1.0, "model": "m"}],
        "by": "raider", "total": 1.0, "note": "n", "unpriced": ["m"], "since": "s", "budget": 3});
    vec![
        json!({"findings": [finding.clone()], "unseen": ["u"], "fixed": 1}),
        json!([finding]),
        rows,
        cv,
        all,
        json!("a text"),
        texts,
    ]
}

/// Returns the value once for each text in it, with that text spoiled, and once with all of them.
fn spoiled(value: &Value) -> Vec<Value> {
    fn texts(value: &mut Value, spoil: &mut dyn FnMut(&mut String)) {
        match value {
            Value::String(text) => spoil(text),
            Value::Array(items) => items.iter_mut().for_each(|item| texts(item, spoil)),
            Value::Object(whole) => whole.values_mut().for_each(|item| texts(item, spoil)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut count = 0;
    texts(&mut value.clone(), &mut |_| count += 1);
    let spoil_if = |wanted: &dyn Fn(usize) -> bool| {
        let (mut spoiled, mut at) = (value.clone(), 0);
        texts(&mut spoiled, &mut |text| {
            if wanted(at) {
                text.insert_str(text.len() / 2, NASTY);
            }
            at += 1;
        });
        spoiled
    };
    let mut all: Vec<_> = (0..count).map(|nth| spoil_if(&|at| at == nth)).collect();
    all.push(spoil_if(&|_| true));
    all
}

#[test]
fn no_renderer_lets_text_steer_the_terminal() {
    let mut shown_escaped = vec![false; RENDERERS.len()];
    let all = [results(), more_results()].concat();
    for result in all.iter().flat_map(spoiled) {
        for (at, render) in RENDERERS.iter().enumerate() {
            for style in [PLAIN, NARROW] {
                let text = render(&result, style);
                let hidden = text
                    .chars()
                    .find(|c| !matches!(c, '\n' | '\t') && shown::is_hidden(*c));
                assert_eq!(hidden, None, "renderer {at} of {result}: {text:?}");
                shown_escaped[at] |= text.contains("\\u{202e}");
            }
        }
        let json = shown::json(&result.to_string()).into_owned();
        assert!(!json.chars().any(shown::is_hidden), "{json:?}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), result);
    }
    let untried: Vec<_> = (0..RENDERERS.len())
        .filter(|at| !shown_escaped[*at])
        .collect();
    let count = untried.len();
    assert!(count <= WITHOUT_TEXT, "these showed no text: {untried:?}");
}

/// The most renderers that may show none of these texts.
const WITHOUT_TEXT: usize = 8;
