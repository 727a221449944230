//! Codex (0.169): hooks in a `-c` override of the session, and the hashes that mark them as reviewed for codex. Nothing
//! else becomes trusted by that.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::fill::{Fill, Placeholder};
use super::hooks::{self, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;

/// Events about the session's state, with their names in the hash.
const EVENTS: &[(&str, &str)] = &[
    ("SessionStart", "session_start"),
    ("UserPromptSubmit", "user_prompt_submit"),
    ("PreToolUse", "pre_tool_use"),
    ("PermissionRequest", "permission_request"),
    ("PostToolUse", "post_tool_use"),
    ("PreCompact", "pre_compact"),
    ("Interrupt", "interrupt"),
    ("Stop", "stop"),
    ("SessionEnd", "session_end"),
];

/// Returns the timeout of a hook in seconds. It is given explicitly, because the default differs between events; codex
/// shortens the timeouts at the end of a session and at an interrupt to 3 s, and hashes the shortened values.
fn timeout(event: &str) -> u32 {
    match event {
        "SessionEnd" | "Interrupt" => 3,
        _ => 10,
    }
}

/// Sets the texts of the hooks and of their trust.
pub(super) fn set_up(setting: &Setting<'_>, fill: &mut Fill) -> Vec<HookFile> {
    let command = hooks::command(setting.hd, Hooks::Codex);
    let quoted = json!(command);
    let hooks: Vec<String> = EVENTS
        .iter()
        .map(|(event, _)| {
            let timeout = timeout(event);
            format!("{event}=[{{hooks=[{{type=\"command\",command={quoted},timeout={timeout}}}]}}]")
        })
        .collect();
    let trust: Vec<String> = EVENTS
        .iter()
        .map(|(event, name)| {
            let hash = trusted(name, timeout(event), &command);
            format!("\"/<session-flags>/config.toml:{name}:0:0\"={{trusted_hash=\"{hash}\"}}")
        })
        .collect();
    fill.set(Placeholder::Hooks, format!("{{{}}}", hooks.join(",")));
    fill.set(Placeholder::HooksTrust, format!("{{{}}}", trust.join(",")));
    Vec::new()
}

/// Returns the hash that codex computes of a hook: of its canonical JSON, keys in order.
fn trusted(event: &str, timeout: u32, command: &str) -> String {
    // A map of serde_json is ordered by its keys.
    let canonical = json!({
        "event_name": event,
        "hooks": [{ "async": false, "command": command, "timeout": timeout, "type": "command" }],
    });
    let digest = Sha256::digest(canonical.to_string().as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Returns the meaning of an event.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/hook_event_name")? {
        "SessionStart" => hooks::started(event, "/session_id"),
        "UserPromptSubmit" => Some(Report::Begins),
        "PostToolUse" => Some(Report::Works),
        "PreToolUse" if text(event, "/tool_name") == Some("request_user_input") => {
            hooks::question(event.pointer("/tool_input/questions")?)
        }
        "PermissionRequest" => {
            let command = text(event, "/tool_input/command");
            let why = text(event, "/tool_input/description");
            Some(match (why, command) {
                (Some(why), _) => Report::Asks {
                    question: why.to_owned(),
                    choices: Vec::new(),
                },
                (None, Some(command)) => hooks::permission(command),
                (None, None) => hooks::permission(text(event, "/tool_name")?),
            })
        }
        "Stop" => Some(hooks::turn_ended(event, "/last_assistant_message")),
        "Interrupt" => Some(Report::Waits),
        "PreCompact" => Some(Report::Compacts),
        "SessionEnd" => Some(Report::Ended),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// codex 0.169 asks for a review of a hook whose hash has another timeout than codex uses: at most 3 s for these
    /// two.
    #[test]
    fn hooks_at_the_end_have_the_timeout_that_codex_gives_them() {
        let mut fill = Fill::default();
        let setting = Setting {
            dir: "/s",
            hd: "/x/hd",
            has: &|_| false,
            own_helper: false,
        };
        set_up(&setting, &mut fill);
        let hooks = fill.put_in_all(&["{hooks}".to_owned()]).concat();
        for (event, _) in EVENTS {
            let seconds = match *event {
                "SessionEnd" | "Interrupt" => 3,
                _ => 10,
            };
            let hook = "{type=\"command\",command=\"/x/hd hook-event codex\"";
            let expected = format!("{event}=[{{hooks=[{hook},timeout={seconds}}}]}}]");
            assert!(hooks.contains(&expected), "{event}: {hooks}");
        }
        let trust = fill.put_in_all(&["{hooks_trust}".to_owned()]).concat();
        let hash = trusted("session_end", 3, "/x/hd hook-event codex");
        assert!(trust.contains(&hash), "{trust}");
    }
}
