//! Gemini CLI (0.61): hooks in the workspace's settings, which are only written where the project has none of its own,
//! and a policy file that lists what it may run without asking.

use serde_json::{Value, json};

use super::fill::Placeholder;
use super::hooks::{self, Home, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;

/// Events about the session's state.
const EVENTS: &[&str] = &[
    "SessionStart",
    "BeforeAgent",
    "BeforeTool",
    "Notification",
    "AfterTool",
    "AfterAgent",
    "SessionEnd",
];

/// Commands that finish work.
const ALLOWED: &[&str] = &[
    "git add",
    "git commit",
    "git log",
    "git status",
    "git diff",
    "git show",
];

/// Returns the workspace's settings, and the policy.
pub(super) fn files(setting: &Setting<'_>) -> Vec<HookFile> {
    let command = hooks::command(setting.hd, Hooks::Gemini);
    let hook = json!([{ "hooks": [
        { "type": "command", "name": "hd", "command": command, "timeout": 10_000 }
    ] }]);
    let hooks: serde_json::Map<String, Value> = EVENTS
        .iter()
        .map(|event| ((*event).to_owned(), hook.clone()))
        .collect();
    let mut settings = json!({
        "hooks": hooks,
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    // Without a selected login method, a key in the environment leads to a dialog.
    if (setting.has)("GEMINI_API_KEY") {
        settings["security"] = json!({ "auth": { "selectedType": "gemini-api-key" } });
    }
    let allowed = ALLOWED.iter().copied().chain([setting.hd]);
    let allowed: Vec<String> = allowed.map(|prefix| json!(prefix).to_string()).collect();
    let rules = format!(
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [{}]\n\
         decision = \"allow\"\npriority = 500\n",
        allowed.join(", ")
    );
    vec![
        HookFile {
            home: Home::Sandbox,
            path: ".gemini/settings.json",
            text: format!("{settings:#}\n"),
            place: None,
        },
        HookFile {
            home: Home::Task,
            path: "gemini-policy.toml",
            text: rules,
            place: Some(Placeholder::Rules),
        },
    ]
}

/// Returns the meaning of an event. A cancelled dialog sends no event: its end is seen on the screen.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/hook_event_name")? {
        "SessionStart" => hooks::started(event, "/session_id"),
        "BeforeAgent" => Some(Report::Begins),
        "AfterTool" => Some(Report::Works),
        "BeforeTool" if text(event, "/tool_name") == Some("ask_user") => {
            hooks::question(event.pointer("/tool_input/questions")?)
        }
        "Notification" if text(event, "/details/type") != Some("ask_user") => {
            let what = text(event, "/details/command").or(text(event, "/details/title"));
            Some(hooks::permission(what.or(text(event, "/message"))?))
        }
        "AfterAgent" => Some(hooks::turn_ended(event, "/prompt_response")),
        "SessionEnd" => Some(Report::Ended),
        _ => None,
    }
}
