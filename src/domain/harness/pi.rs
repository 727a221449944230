//! pi (0.73.1): an extension of the session that passes events on to `hd`, and shows the limits that pi waits for
//! silently.

use serde_json::Value;

use super::fill::Placeholder;
use super::hooks::{self, Home, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;

/// Returns the extension. The clients of the providers themselves wait for the end of a limit, below everything that pi
/// reports to its extensions: only the provider's answer shows it.
pub(super) fn files(setting: &Setting<'_>) -> Vec<HookFile> {
    let telling = hooks::telling(setting.hd, Hooks::Pi);
    let text = format!(
        r#"// Written by horde-supervisor for this session: reports the state of pi to it.
{telling}
// When the client of the provider tries again, in milliseconds since 1970.
const endOf = (headers) => {{
  const ms = parseFloat(headers.get("retry-after-ms"))
  if (ms > 0) return Date.now() + ms
  const after = headers.get("retry-after")
  if (!after) return undefined
  const seconds = parseFloat(after)
  return Number.isNaN(seconds) ? Date.parse(after) : Date.now() + seconds * 1000
}}
let ui
let asks = false
let timer
const work = () => {{
  clearTimeout(timer)
  ui?.setWorkingMessage()
}}
const wait = async (response) => {{
  const end = endOf(response.headers)
  if (!(end > Date.now())) return
  const body = await response.json().catch(() => undefined)
  const said = body?.error?.message ?? "the provider refuses"
  clearTimeout(timer)
  // Shown as work again a moment before it goes on, so that it is not told to as well.
  timer = setTimeout(work, Math.max(0, end - Date.now() - 2000))
  timer.unref()
  ui?.setWorkingMessage(`At a limit until ${{new Date(end).toISOString()}}: ${{said}}`)
}}
const fetchPlain = globalThis.fetch
globalThis.fetch = async (...request) => {{
  if (asks) work()
  const response = await fetchPlain(...request)
  if (asks && response.status === 429) wait(response.clone()).catch(() => {{}})
  return response
}}
export default (pi) => {{
  pi.on("session_start", (_event, context) => {{
    ui = context.hasUI ? context.ui : undefined
    const sessions = context.sessionManager
    tell({{
      type: "session_start", session: sessions.getSessionId(), transcript_path: sessions.getSessionFile(),
    }})
  }})
  pi.on("before_provider_request", () => {{ asks = true }})
  pi.on("after_provider_response", () => {{ asks = false }})
  pi.on("agent_start", () => {{ tell({{ type: "agent_start" }}) }})
  pi.on("tool_execution_end", () => {{ tell({{ type: "tool_execution_end" }}) }})
  pi.on("agent_end", (event) => {{
    asks = false
    work()
    const last = event.messages?.at(-1)
    const failed = last?.role !== "assistant" || ["error", "aborted"].includes(last.stopReason)
    tell({{ type: "agent_end", answered: failed ? "" : "yes" }})
  }})
  pi.on("session_before_compact", () => {{ tell({{ type: "session_before_compact" }}) }})
  pi.on("session_shutdown", () => {{ tell({{ type: "session_shutdown" }}) }})
}}
"#
    );
    vec![HookFile {
        home: Home::Task,
        path: "pi-horde.js",
        text,
        place: Some(Placeholder::Hooks),
    }]
}

/// Returns the meaning of an event.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/type")? {
        "session_start" => hooks::started(event, "/session"),
        "agent_start" => Some(Report::Begins),
        "tool_execution_end" => Some(Report::Works),
        "agent_end" => Some(hooks::turn_ended(event, "/answered")),
        "session_before_compact" => Some(Report::Compacts),
        "session_shutdown" => Some(Report::Ended),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setting() -> Setting<'static> {
        Setting {
            dir: "/s",
            hd: "/x y/hd",
            has: &|_| false,
            own_helper: false,
        }
    }

    /// The kit's cases `limit`, `kill` and `done` test the real program; this test keeps the parts that they depend on.
    #[test]
    fn extension_sees_answers_below_the_client_and_draws_the_marks_of_the_preset() {
        let files = files(&setting());
        let [file] = files.as_slice() else {
            panic!("one file: {files:?}");
        };
        assert_eq!(
            (file.home, file.place),
            (Home::Task, Some(Placeholder::Hooks))
        );
        for needed in [
            "globalThis.fetch = async",
            "retry-after-ms",
            "\"/x y/hd\"",
            "[\"hook-event\", \"pi\"]",
            "setWorkingMessage(`At a limit until ${new Date(end).toISOString()}: ",
        ] {
            assert!(file.text.contains(needed), "{needed}: {}", file.text);
        }
    }

    #[test]
    fn events_of_the_extension_are_reports() {
        let started = json!({
            "type": "session_start", "session": "01a2", "transcript_path": "/h/.pi/a.jsonl",
        });
        let expected = Report::Started {
            conversation: "01a2".to_owned(),
            transcript: Some("/h/.pi/a.jsonl".to_owned()),
        };
        assert_eq!(report(&started), Some(expected));
        for (kind, expected) in [
            ("agent_start", Some(Report::Begins)),
            ("tool_execution_end", Some(Report::Works)),
            ("agent_end", Some(Report::Waits)),
            ("session_before_compact", Some(Report::Compacts)),
            ("session_shutdown", Some(Report::Ended)),
            ("model_select", None),
        ] {
            assert_eq!(report(&json!({ "type": kind })), expected, "{kind}");
        }
    }
}
