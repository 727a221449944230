//! GitHub Copilot CLI (1.0.102): hooks in a plugin directory of the session. Its events do not name
//! themselves, so each hook passes the name on.

use serde_json::{Value, json};

use super::fill::Place;
use super::hooks::{self, Home, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;

/// Events that say something of the session's state.
const EVENTS: &[&str] = &[
    "sessionStart",
    "userPromptSubmitted",
    "postToolUse",
    "postToolUseFailure",
    "notification",
    "agentStop",
    "preCompact",
    "sessionEnd",
];

/// The plugin: what it is, and its hooks. `{hooks}` is its directory.
pub(super) fn files(setting: &Setting<'_>) -> Vec<HookFile> {
    // It runs hooks in the plugin's directory, and only what stands in the sandbox may report.
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
        "description": "Tells horde-supervisor what the session does",
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
        file("copilot-plugin/plugin.json", plugin, Some(Place::HooksDir)),
    ]
}

/// What an event means.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/hook_event_name")? {
        "sessionStart" => Some(Report::Started {
            conversation: text(event, "/sessionId")
                .filter(|id| hooks::is_conversation(id))?
                .to_owned(),
            transcript: None,
        }),
        "userPromptSubmitted" | "postToolUse" | "postToolUseFailure" => Some(Report::Works),
        "notification" => match text(event, "/notification_type")? {
            "permission_prompt" => Some(hooks::permission(text(event, "/message")?)),
            "elicitation_dialog" => Some(Report::Asks {
                question: text(event, "/message")?.to_owned(),
                choices: Vec::new(),
            }),
            _ => None,
        },
        "agentStop" => Some(Report::Waits),
        "preCompact" => Some(Report::Compacts),
        "sessionEnd" => Some(Report::Ended),
        _ => None,
    }
}
