//! Claude Code (2.1.197): hooks in a settings file of the session, which are added to the user's and the project's own.

use serde_json::{Value, json};

use super::fill::Placeholder;
use super::hooks::{self, Home, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;
use crate::domain::unattended::KEY;

/// Events about the session's state.
const EVENTS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "PreCompact",
    "SessionEnd",
];

/// Errors of a turn that a login would fix.
const LOGIN: &[&str] = &[
    "authentication_failed",
    "oauth_org_not_allowed",
    "billing_error",
];

/// Returns the settings file: hooks, and the consent to the full mode that a person would give.
pub(super) fn files(setting: &Setting<'_>) -> Vec<HookFile> {
    let command = hooks::command(setting.hd, Hooks::Claude);
    let hook = json!([{ "hooks": [{ "type": "command", "command": command, "timeout": 10 }] }]);
    let hooks: serde_json::Map<String, Value> = EVENTS
        .iter()
        .map(|event| ((*event).to_owned(), hook.clone()))
        .collect();
    let mut settings = json!({ "hooks": hooks, "skipDangerousModePermissionPrompt": true });
    // A key in the environment is only used after a dialog; a key from a helper needs none. This helper would override
    // the user's own.
    if (setting.has)(KEY) && !setting.own_helper {
        settings["apiKeyHelper"] = json!(format!("printenv {KEY}"));
    }
    vec![HookFile {
        home: Home::Task,
        path: "claude-settings.json",
        text: format!("{settings:#}\n"),
        place: Some(Placeholder::Hooks),
    }]
}

/// Returns the meaning of an event.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/hook_event_name")? {
        "SessionStart" => hooks::started(event, "/session_id"),
        "UserPromptSubmit" => Some(Report::Begins),
        "PostToolUse" | "PostToolUseFailure" => Some(Report::Works),
        "PermissionRequest" => asks(event),
        // A turn that the model refused ends with "StopFailure".
        "Stop" => Some(hooks::turn_ended(event, "/last_assistant_message")),
        "StopFailure" => Some(failure(event)),
        "PreCompact" => Some(Report::Compacts),
        "SessionEnd" => Some(Report::Ended),
        _ => None,
    }
}

fn asks(event: &Value) -> Option<Report> {
    if let Some(questions) = event.pointer("/tool_input/questions") {
        return hooks::question(questions);
    }
    let tool = text(event, "/tool_name")?;
    let what = text(event, "/tool_input/command")
        .or(text(event, "/tool_input/file_path"))
        .or(text(event, "/tool_input/url"));
    Some(hooks::permission(&match what {
        Some(what) => format!("{tool}: {what}"),
        None => tool.to_owned(),
    }))
}

fn failure(event: &Value) -> Report {
    let error = text(event, "/error").unwrap_or_default();
    let said = text(event, "/last_assistant_message").unwrap_or(error);
    match error {
        "rate_limit" => Report::Limited {
            text: said.to_owned(),
            until: None,
        },
        error if LOGIN.contains(&error) => Report::Auth {
            text: said.to_owned(),
        },
        _ => Report::Waits,
    }
}
