//! GitHub Copilot CLI (1.0.102): hooks in a plugin directory of the session. Its events do not carry their name, so
//! each hook adds it.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;
use serde_json::{Value, json};

use super::fill::Placeholder;
use super::hooks::{self, Home, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;
use crate::domain::until;

/// Events about the session's state.
const EVENTS: &[&str] = &[
    "sessionStart",
    "userPromptSubmitted",
    "postToolUse",
    "postToolUseFailure",
    "notification",
    "agentStop",
    "errorOccurred",
    "preCompact",
    "sessionEnd",
];

/// The form in which providers give the end of a limit: `try again in 7m12s`, `try again in 2 hours.`
static AGAIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:try again|retry) (?P<until>(?:in|after) (?:\d+(?:\.\d+)? ?[a-z]+(?:,? and |,? )?)+)")
        .expect("the pattern is written here and tested")
});
/// The words of providers at a limit.
static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:rate|usage|weekly|session)[ _-]?limit|too many requests|quota")
        .expect("the pattern is written here and tested")
});

/// Returns the plugin: its description, and its hooks. `{hooks}` is its directory.
pub(super) fn files(setting: &Setting<'_>) -> Vec<HookFile> {
    // It runs hooks in the plugin's directory, and only a process in the sandbox may report.
    let command = format!(
        "cd {} && {}",
        shell_words::quote(setting.dir),
        hooks::command(setting.hd, Hooks::Copilot)
    );
    let hook = |event: &str| {
        let command = format!("{command} {event}");
        json!([{ "type": "command", "bash": command, "timeoutSec": 10 }])
    };
    let hooks: serde_json::Map<String, Value> = EVENTS
        .iter()
        .map(|event| ((*event).to_owned(), hook(event)))
        .collect();
    let plugin = json!({
        "name": "horde-hooks", "version": "1.0.0", "hooks": "hooks.json",
        "description": "Reports the state of the session to horde-supervisor",
    });
    let hooks = json!({ "version": 1, "hooks": hooks });
    let file = |path, value: Value, place| HookFile {
        home: Home::Task,
        path,
        text: format!("{value:#}\n"),
        place,
    };
    vec![
        file("copilot-plugin/hooks.json", hooks, None),
        file(
            "copilot-plugin/plugin.json",
            plugin,
            Some(Placeholder::HooksDir),
        ),
    ]
}

/// Returns the meaning of an event.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/hook_event_name")? {
        "sessionStart" => Some(Report::Started {
            conversation: text(event, "/sessionId")
                .filter(|id| hooks::is_conversation(id))?
                .to_owned(),
            transcript: None,
        }),
        "userPromptSubmitted" => Some(Report::Begins),
        "postToolUse" | "postToolUseFailure" => Some(Report::Works),
        "notification" => match text(event, "/notification_type")? {
            "permission_prompt" => Some(hooks::permission(text(event, "/message")?)),
            "elicitation_dialog" => Some(Report::Asks {
                question: text(event, "/message")?.to_owned(),
                choices: Vec::new(),
            }),
            _ => None,
        },
        "agentStop" => Some(Report::Waits),
        "errorOccurred" => limited(event),
        "preCompact" => Some(Report::Compacts),
        "sessionEnd" => Some(Report::Ended),
        _ => None,
    }
}

/// Reads a call of its model that was refused for a limit. copilot waits for the end of a limit silently; without an
/// end it retries soon, and shows when that failed.
fn limited(event: &Value) -> Option<Report> {
    if text(event, "/errorContext") != Some("model_call") {
        return None;
    }
    let said = text(event, "/error/message")?;
    // The body of the answer, or the message in it.
    let body = serde_json::from_str::<Value>(said).ok();
    let said = body.as_ref().map_or(said, |body| {
        let words = text(body, "/message").or(text(body, "/error/message"));
        words.unwrap_or(said)
    });
    if !LIMIT.is_match(said) {
        return None;
    }
    let at = event.pointer("/timestamp").and_then(Value::as_i64);
    let at = at.and_then(|at| Timestamp::from_millisecond(at).ok())?;
    let named = AGAIN.captures(said)?;
    Some(Report::Limited {
        text: said.to_owned(),
        until: Some(until::read(&named["until"], at, &TimeZone::UTC)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused call as copilot 1.0.102 reports it: the body of the answer is a text.
    fn refused(context: &str, said: &str) -> Option<Report> {
        let body = json!({"message": said, "type": "requests", "code": "rate_limit_exceeded"});
        report(&json!({
            "hook_event_name": "errorOccurred", "timestamp": 1_800_000_000_000_i64,
            "errorContext": context, "recoverable": true,
            "error": {"name": "Error", "message": body.to_string()},
        }))
    }

    #[test]
    fn refused_call_that_names_the_end_of_a_limit_is_a_limit() {
        for (said, seconds) in [
            (
                "Rate limit reached for m on requests per day (RPD): Limit 200, Used 200, \
                 Requested 1. Please try again in 7m12s. Visit https://example.com to learn more.",
                432,
            ),
            (
                "Sorry, you have hit a rate limit. Please try again in 2 hours and 5 minutes.",
                7500,
            ),
        ] {
            let until = Timestamp::from_second(1_800_000_000 + seconds).ok();
            let text = said.to_owned();
            let expected = Some(Report::Limited { text, until });
            assert_eq!(refused("model_call", said), expected, "{said}");
            assert_eq!(refused("tool_execution", said), None, "{said}");
        }
        for said in [
            "Rate limit reached.",
            "The server is overloaded. Please try again in 30s.",
        ] {
            assert_eq!(refused("model_call", said), None, "{said}");
        }
    }
}
