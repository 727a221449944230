//! What a program's screen shows and what its hooks report at the same moment: for each harness with hooks, a recording
//! and the event that the program sends then (in the shape of the recorded version) come to the same.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::Place;
use crate::adapters::sessions::holder::view_of;
use crate::domain::condition::{Condition, Report, judge};
use crate::domain::harness::hooks::Hooks;
use crate::domain::ids::HarnessName;

/// The options of the recorded questions.
fn options(labels: &[&str]) -> Value {
    labels
        .iter()
        .map(|label| json!({ "label": label }))
        .collect()
}

/// Each program with its recordings and the events of those moments.
fn moments() -> Vec<(&'static str, &'static str, Value)> {
    let claude = |name: &str, more: Value| {
        let mut event = json!({ "hook_event_name": name, "session_id": "c" });
        event
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        event
    };
    let asks = |question: &str, labels: &[&str]| json!([{ "question": question, "header": "h", "options": options(labels) }]);
    vec![
        (
            "claude-2.1.197",
            "question-single",
            claude(
                "PermissionRequest",
                json!({
                    "tool_name": "AskUserQuestion",
                    "tool_input": { "questions": asks("Which colour should the button have?", &["Red", "Blue"]) },
                }),
            ),
        ),
        (
            "claude-2.1.197",
            "permission-bash",
            claude(
                "PermissionRequest",
                json!({
                    "tool_name": "Bash", "tool_input": { "command": "cargo test" },
                }),
            ),
        ),
        (
            "claude-2.1.197",
            "limit-subscription",
            claude("StopFailure", json!({ "error": "rate_limit" })),
        ),
        (
            "claude-2.1.197",
            "login-oauth-401",
            claude("StopFailure", json!({ "error": "authentication_failed" })),
        ),
        (
            "claude-2.1.197",
            "limit-credit",
            claude("StopFailure", json!({ "error": "billing_error" })),
        ),
        (
            "claude-2.1.197",
            "working-tool",
            claude("PostToolUse", json!({})),
        ),
        ("claude-2.1.197", "waiting", claude("Stop", json!({}))),
        (
            "codex-0.169.0",
            "question",
            claude(
                "PreToolUse",
                json!({
                    "tool_name": "request_user_input",
                    "tool_input": {
                        "questions": asks("Which colour should the button be?", &["Red (Recommended)", "Green", "Blue"]),
                    },
                }),
            ),
        ),
        (
            "codex-0.169.0",
            "approval-command",
            claude(
                "PermissionRequest",
                json!({
                    "tool_name": "shell",
                    "tool_input": { "command": "touch", "description": "May I create a file outside of the workspace?" },
                }),
            ),
        ),
        (
            "codex-0.169.0",
            "working",
            claude("UserPromptSubmit", json!({})),
        ),
        ("codex-0.169.0", "waiting", claude("Stop", json!({}))),
        (
            "gemini-0.61.0",
            "question",
            claude(
                "BeforeTool",
                json!({
                    "tool_name": "ask_user",
                    "tool_input": { "questions": asks("Which colour should the button be?", &["Red", "Green", "Blue"]) },
                }),
            ),
        ),
        (
            "gemini-0.61.0",
            "approval-command",
            claude(
                "Notification",
                json!({
                    "details": { "type": "exec", "command": "cargo test" },
                }),
            ),
        ),
        (
            "gemini-0.61.0",
            "working-tool",
            claude("AfterTool", json!({})),
        ),
        ("gemini-0.61.0", "waiting", claude("AfterAgent", json!({}))),
        (
            "opencode-1.18.33",
            "question-tool",
            json!({
                "type": "question.asked",
                "properties": { "questions": asks("Which colour shall I take?", &["Red", "Blue"]) },
            }),
        ),
        (
            "opencode-1.18.33",
            "permission",
            json!({
                "type": "permission.asked",
                "properties": { "permission": "bash", "metadata": { "command": "cargo test" } },
            }),
        ),
        (
            "opencode-1.18.33",
            "limit-429",
            json!({
                "type": "session.status",
                // 58 minutes and 56 seconds after the recording is judged.
                "properties": { "status": { "type": "retry", "attempt": 1, "next": 1_795_431_536_000_i64 } },
            }),
        ),
        (
            "opencode-1.18.33",
            "error-oc401",
            json!({
                "type": "session.error",
                "properties": { "error": { "name": "APIError", "data": { "message": "no", "statusCode": 401 } } },
            }),
        ),
        (
            "opencode-1.18.33",
            "working-tool",
            json!({
                "type": "session.status", "properties": { "status": { "type": "busy" } },
            }),
        ),
        (
            "opencode-1.18.33",
            "waiting-text",
            json!({ "type": "session.idle", "properties": {} }),
        ),
        (
            "copilot-1.0.102",
            "question-single",
            claude(
                "notification",
                json!({
                    "notification_type": "elicitation_dialog", "message": "Which colour should the button have?",
                }),
            ),
        ),
        (
            "copilot-1.0.102",
            "permission-shell",
            claude(
                "notification",
                json!({
                    "notification_type": "permission_prompt", "message": "cargo test",
                }),
            ),
        ),
        (
            "copilot-1.0.102",
            "working-tool",
            claude("postToolUse", json!({})),
        ),
        ("copilot-1.0.102", "waiting", claude("agentStop", json!({}))),
        (
            "pi-0.73.1",
            "working-tool",
            json!({ "type": "tool_execution_end" }),
        ),
        ("pi-0.73.1", "kit-working", json!({ "type": "agent_start" })),
    ]
}

/// The condition that a report is taken for; none for one that says that the session goes on.
fn condition(report: &Report) -> Option<Condition> {
    match report.clone() {
        Report::Asks { question, choices } => Some(Condition::NeedsInput { question, choices }),
        Report::Limited { text, until } => Some(Condition::RateLimited { text, until }),
        Report::Auth { text } => Some(Condition::Auth { text }),
        Report::Started { .. }
        | Report::Begins
        | Report::Works
        | Report::Answers
        | Report::Waits
        | Report::Compacts
        | Report::Ended => None,
    }
}

/// Whether what is asked is the same question, with these choices among those of the screen. A permission is put
/// into other words by a hook.
fn is_same_question(shown: &Condition, told: &Condition) -> bool {
    let (
        Condition::NeedsInput { question, choices },
        Condition::NeedsInput {
            question: asked,
            choices: labels,
        },
    ) = (shown, told)
    else {
        return false;
    };
    let has = |label: &String| {
        choices
            .iter()
            .any(|choice| choice.starts_with(label.as_str()))
    };
    let same = question.contains(asked.as_str()) || asked.starts_with("Allow ");
    same && labels.iter().all(has)
}

#[test]
fn screens_and_hooks_of_a_moment_come_to_the_same() {
    let place = Place::new();
    let city = place.load("workspace.name = \"c\"").unwrap().city;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/harness");
    let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
    let (mut wrong, mut met) = (Vec::new(), std::collections::BTreeSet::new());
    for (program, case, event) in moments() {
        let (name, _version) = program.split_once('-').unwrap();
        let harness = &city.harnesses[&HarnessName::new(name).unwrap()];
        let bytes = fs::read(root.join(program).join(format!("{case}.raw"))).unwrap();
        let sighting = judge(
            &harness.looks,
            &view_of(&bytes, 50, 200),
            now,
            &TimeZone::UTC,
        );
        let report = harness.hooks.report(&event);
        let report = report.unwrap_or_else(|| panic!("{program} {case}: {event} says nothing"));
        let told = condition(&report);
        let agree = match (&sighting.condition, &told) {
            (Some(shown), Some(told)) if shown.word() == told.word() => match (shown, told) {
                (Condition::NeedsInput { .. }, _) => is_same_question(shown, told),
                (
                    Condition::RateLimited { until, .. },
                    Condition::RateLimited { until: end, .. },
                ) => end.is_none() || end == until,
                _ => true,
            },
            (None, None) => {
                let works = matches!(report, Report::Begins | Report::Works);
                sighting.goes_on && sighting.works == works
            }
            _ => false,
        };
        if !agree {
            wrong.push(format!("{program} {case}: {sighting:?} and {report:?}"));
        }
        met.insert(harness.hooks.as_str());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let kinds = Hooks::WORDS.iter().filter(|(_, kind)| *kind != Hooks::None);
    assert_eq!(met, kinds.map(|(word, _)| *word).collect());
}
