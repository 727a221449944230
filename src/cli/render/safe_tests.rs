//! Every renderer gets text that would steer a terminal, wherever its result has text.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{cost, cv, drums, event, harness, lists, outcome_lines, patch, show, status, totem};
use crate::cli::output::Style;
use crate::control::protocol::answers::{
    Cv, Event, Hooked, LogText, Metrics, MrDetails, Rally, Screen, ShownSalvage,
};
use crate::domain::event::EventType;
use crate::domain::event_data::RunEnded;
use crate::domain::shown;
use crate::testing::samples::full;

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

/// Renders an answer; returns none for one that the type refuses.
type Reader = Box<dyn Fn(&Value, Style) -> Option<String>>;

/// A renderer with the answers that it gets.
struct Case {
    name: &'static str,
    answers: Vec<Value>,
    render: Reader,
}

/// Makes the case of a renderer of one answer.
fn one<T: JsonSchema + DeserializeOwned + 'static>(
    name: &'static str,
    render: fn(&T, Style) -> String,
) -> Case {
    let answers = full::<T>();
    Case {
        name,
        answers,
        render: Box::new(move |answer, style| Some(render(&T::deserialize(answer).ok()?, style))),
    }
}

/// Makes the case of a renderer of a list.
fn list<T: JsonSchema + DeserializeOwned + 'static>(
    name: &'static str,
    render: fn(&[T], Style) -> String,
) -> Case {
    Case {
        name,
        answers: full::<Vec<T>>(),
        render: Box::new(move |answer, style| {
            Some(render(&Vec::<T>::deserialize(answer).ok()?, style))
        }),
    }
}

/// Makes the case of a renderer of a result that `hd` makes itself.
fn own(name: &'static str, render: fn(&Value, Style) -> String) -> Case {
    Case {
        name,
        answers: own_results(),
        render: Box::new(move |result, style| Some(render(result, style))),
    }
}

/// Makes cases, each with the name of its renderer.
macro_rules! cases {
    ($make:ident: $($render:expr),+ $(,)?) => { vec![$($make(stringify!($render), $render)),+] };
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let mut cases = cases![one:
        cost::cost, cv::cv, drums::acked, drums::drum, drums::inbox, drums::sent, event::event, event::why, patch::patch,
        harness::resumed, lists::pruned, outcome_lines::acked, outcome_lines::answered, outcome_lines::begun,
        outcome_lines::cancelled, outcome_lines::charging, outcome_lines::child, outcome_lines::decided,
        outcome_lines::done, outcome_lines::noted, outcome_lines::escalated, outcome_lines::handed_off,
        outcome_lines::merge_request, outcome_lines::nuke, outcome_lines::pull_request, outcome_lines::rehearsed,
        outcome_lines::relic, outcome_lines::reloaded, outcome_lines::repaired, outcome_lines::restored,
        outcome_lines::reviewed, outcome_lines::switched, outcome_lines::taken, outcome_lines::waits,
        outcome_lines::waits_for, show::charged, show::deps, show::facts::<MrDetails>, show::facts::<ShownSalvage>,
        show::orders::<Hooked>, show::orders::<Rally>, show::raider, show::relic, show::started,
        show::stopped, show::text::<LogText>, show::text::<Metrics>, show::text::<Screen>, status::status,
        totem::ritual, totem::step_done, totem::totem,
    ];
    cases.extend(cases![list:
        lists::agents, show::findings, lists::all_merge_requests, lists::automations, lists::escalations, lists::merge_requests,
        lists::raiders, lists::ready, lists::relics, lists::runs, lists::salvages, lists::stashes, totem::rituals,
    ]);
    cases.extend(cases![own:
        cv::exported, cv::imported, harness::changes, harness::list, harness::show, outcome_lines::exported,
        outcome_lines::imported, outcome_lines::left_in_outbox,
    ]);
    cases.push(one("cv::cv of all", |told: &Cv, style| {
        let name = None;
        cv::cv(&Cv { name, ..told.clone() }, style)
    }));
    cases.push(own("harness::changed", |result, _| harness::changed(result)));
    cases.push(Case {
        answers: vec![ended_run()],
        ..one("show::run", show::run)
    });
    cases
}

/// Returns the event of the end of a run: other events have no output.
fn ended_run() -> Value {
    let mut event = full::<Event>().remove(0);
    event["type"] = json!(EventType::AutomationCompleted);
    event["data"] = json!(RunEnded {
        run: 1,
        tail: "text".to_owned(),
    });
    event
}

/// Renderers of answers without any text that a program or a person chooses.
const WITHOUT_TEXT: &[&str] = &[
    "drums::acked",
    "lists::agents",
    "lists::stashes",
    "outcome_lines::acked",
    "outcome_lines::begun",
    "outcome_lines::charging",
    "outcome_lines::reviewed",
    "outcome_lines::switched",
    "outcome_lines::waits_for",
    "show::stopped",
];

/// Returns results of `hd` itself, each with text wherever it may have some.
fn own_results() -> Vec<Value> {
    let preset = json!({"name": "claude", "command": ["claude", "-p"], "program": "claude", "version": "1",
        "state": "missing", "why": "w", "hint": "h", "notes": ["n"], "account": "a",
        "file": "/f", "by_hand": [{"what": "w", "how": "h"}], "login": "l",
        "changes": [{"file": "/f", "diff": ["+a"], "after": "x", "key": "k", "value": "v"}]});
    vec![
        json!([preset.clone()]),
        json!({"harnesses": [preset.clone()], "problem": "p", "errors": ["e"]}),
        preset,
        json!({"file": "/f", "outbox": "/o", "city": "north", "entries": 1, "relics": 1, "priorities": "p",
            "unresolved": [{"record": "r", "missing": ["m"]}]}),
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
    let mut silent = Vec::new();
    for Case {
        name,
        answers,
        render,
    } in cases()
    {
        let mut has_escaped = false;
        for answer in &answers {
            let whole = render(answer, PLAIN);
            assert!(whole.is_some(), "{name} cannot read {answer:#}");
            for spoiled in spoiled(answer) {
                for style in [PLAIN, NARROW] {
                    let text = render(&spoiled, style).unwrap_or_default();
                    let hidden = text
                        .chars()
                        .find(|c| !matches!(c, '\n' | '\t') && shown::is_hidden(*c));
                    assert_eq!(hidden, None, "{name} of {spoiled}: {text:?}");
                    has_escaped |= text.contains("\\u{202e}");
                }
                let json = shown::json(&spoiled.to_string()).into_owned();
                assert!(!json.chars().any(shown::is_hidden), "{json:?}");
                assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), spoiled);
            }
        }
        if !has_escaped {
            silent.push(name);
        }
    }
    silent.sort_unstable();
    assert_eq!(silent, WITHOUT_TEXT, "these showed no text");
}
