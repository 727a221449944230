//! opencode (1.18.33): a plugin that passes events on to `hd` in order. It is part of the session's own configuration,
//! beside the user's and the project's plugins.

use jiff::Timestamp;
use serde_json::Value;

use super::fill::Placeholder;
use super::hooks::{self, Home, HookFile, Hooks, Setting, text};
use crate::domain::condition::Report;

/// The full mode grants a permission automatically within this many milliseconds.
const GRANTED: u32 = 1000;

/// Milliseconds until the prompt of a resumed session is handed over, and between attempts.
const AGAIN: u32 = 1000;
/// The number of retries: opencode may still be starting.
const TRIES: u32 = 20;

/// The part of the plugin that records the usage of messages.
const USAGE: &str = r#"// opencode keeps its messages in a database. What they used is written beside this file, for `hd cost`.
const usage = new URL("opencode-usage.jsonl", import.meta.url)
const write = (text) => {
  try {
    appendFileSync(usage, text)
    return true
  } catch {
    return false
  }
}
const transcript = write("") ? { transcript_path: fileURLToPath(usage) } : {}
const told = new Set()
const spend = (message) => {
  // It is updated with each of its parts, and once more when it is there.
  if (message?.role !== "assistant" || !message.tokens || !message.time?.completed) return
  if (told.has(message.id)) return
  told.add(message.id)
  if (!message.error && message.tokens.output > 0) tell({ type: "horde.answered" })
  const { id, modelID: model, tokens, cost } = message
  const timestamp = new Date(message.time.completed).toISOString()
  write(`${JSON.stringify({ timestamp, id, model, tokens, cost })}\n`)
}
"#;

/// The plugin.
pub(super) fn files(setting: &Setting<'_>) -> Vec<HookFile> {
    let telling = hooks::telling(setting.hd, Hooks::Opencode);
    let text = format!(
        r#"// Written by horde-supervisor for this session: reports the state of opencode to it.
{telling}
import {{ appendFileSync, readFileSync }} from "node:fs"
import {{ fileURLToPath }} from "node:url"
const wanted = new Set(["session.status", "session.idle", "session.error",
  "permission.replied", "question.asked", "question.replied", "question.rejected"])
{USAGE}// A session that is resumed ignores its prompt: it is handed over here.
const after = (option) => {{
  // A plugin runs in a worker, which is not told the arguments of its process.
  const args = readFileSync("/proc/self/cmdline", "utf8").split("\0")
  const at = args.indexOf(option)
  return at < 0 ? undefined : args[at + 1]
}}
const goOn = async (client, tries) => {{
  const id = after("--session")
  const text = after("--prompt")
  if (!id || !text) return
  if (tries === {TRIES}) tell({{ type: "session.created", properties: {{ info: {{ id }} }}, ...transcript }})
  const sent = await client.session
    .promptAsync({{ path: {{ id }}, body: {{ parts: [{{ type: "text", text }}] }} }})
    .catch((error) => ({{ error }}))
  if (sent?.error && tries > 0) setTimeout(() => goOn(client, tries - 1), {AGAIN})
}}
const waiting = new Map()
export const Horde = async ({{ client }}) => {{
  if (!globalThis.hordeGoesOn) {{
    globalThis.hordeGoesOn = true
    setTimeout(() => goOn(client, {TRIES}), {AGAIN})
  }}
  return hooks
}}
const hooks = {{
  event: async ({{ event }}) => {{
    const properties = event.properties ?? {{}}
    if (event.type === "permission.asked") {{
      waiting.set(properties.id, setTimeout(() => tell(event), {GRANTED}))
      return
    }}
    if (event.type === "permission.replied") {{
      clearTimeout(waiting.get(properties.requestID))
      waiting.delete(properties.requestID)
    }}
    if (event.type === "message.updated") spend(properties.info)
    if (event.type === "session.created") tell({{ ...event, ...transcript }})
    else if (wanted.has(event.type)) tell(event)
  }},
}}
"#
    );
    vec![HookFile {
        home: Home::Task,
        path: "opencode-horde.js",
        text,
        place: Some(Placeholder::Hooks),
    }]
}

/// Returns the meaning of an event.
pub(super) fn report(event: &Value) -> Option<Report> {
    match text(event, "/type")? {
        // The conversation of a helper has a parent.
        "session.created" if event.pointer("/properties/info/parentID").is_none() => {
            hooks::started(event, "/properties/info/id")
        }
        "session.status" => status(event.pointer("/properties/status")?),
        "session.idle" => Some(Report::Waits),
        "session.error" => error(event.pointer("/properties/error")?),
        "permission.asked" => {
            let what = text(event, "/properties/metadata/command");
            Some(hooks::permission(
                what.or(text(event, "/properties/permission"))?,
            ))
        }
        "question.asked" => hooks::question(event.pointer("/properties/questions")?),
        "permission.replied" | "question.replied" | "question.rejected" => Some(Report::Answered),
        "horde.answered" => Some(Report::Works),
        _ => None,
    }
}

fn status(status: &Value) -> Option<Report> {
    match text(status, "/type")? {
        "busy" => Some(Report::Begins),
        "retry" => {
            let next = status.get("next").and_then(Value::as_i64);
            Some(Report::Limited {
                text: text(status, "/message").unwrap_or("retrying").to_owned(),
                until: next.and_then(|at| Timestamp::from_millisecond(at).ok()),
            })
        }
        _ => None,
    }
}

fn error(error: &Value) -> Option<Report> {
    let said = text(error, "/data/message").or(text(error, "/name"))?;
    let code = error.pointer("/data/statusCode").and_then(Value::as_i64);
    match (text(error, "/name"), code) {
        (Some("ProviderAuthError"), _) | (_, Some(401 | 403)) => Some(Report::Auth {
            text: said.to_owned(),
        }),
        (_, Some(429)) => Some(Report::Limited {
            text: said.to_owned(),
            until: None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of a person says nothing about the account, and must not end its park.
    #[test]
    fn answered_question_is_no_proof_that_the_account_serves() {
        for kind in [
            "permission.replied",
            "question.replied",
            "question.rejected",
        ] {
            let event = serde_json::json!({ "type": kind });
            assert_eq!(report(&event), Some(Report::Answered), "{kind}");
        }
        let answered = serde_json::json!({ "type": "horde.answered" });
        assert_eq!(report(&answered), Some(Report::Works));
    }

    /// The kit's cases `kill` and `done` test the real program; this test keeps the parts that they depend on.
    #[test]
    fn plugin_hands_over_the_prompt_of_a_resumed_session_and_writes_token_counts() {
        let setting = Setting {
            dir: "/s",
            hd: "/x/hd",
            has: &|_| false,
            own_helper: false,
        };
        let files = files(&setting);
        let text = &files[0].text;
        for needed in [
            "/proc/self/cmdline",
            "after(\"--session\")",
            "after(\"--prompt\")",
            "promptAsync",
            "opencode-usage.jsonl",
            "transcript_path",
        ] {
            assert!(text.contains(needed), "{needed}: {text}");
        }
    }
}
