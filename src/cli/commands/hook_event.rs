//! `hd hook-event`: passes an event of the harness to the supervisor. A harness waits for its hooks and may take their
//! output for an instruction, so this prints nothing, never fails, and soon gives up.

use std::io::Read;

use serde_json::Value;

use crate::cli::context::Context;
use crate::control::protocol::Op;
use crate::control::protocol::args::HookEvent;

/// The largest event that is read: longer ones carry the output of a tool, and no state.
const MOST: u64 = 512 * 1024;

pub(super) fn run(hooks: String, name: Option<String>, context: &mut Context) {
    let mut text = String::new();
    if std::io::stdin()
        .take(MOST)
        .read_to_string(&mut text)
        .is_err()
    {
        return;
    }
    let Ok(event) = serde_json::from_str::<Value>(&text) else {
        return;
    };
    // The screen shows the state as well: a lost event costs only time.
    let _lost = context.ask_raw(&Op::HookEvent(HookEvent {
        hooks,
        event: slim(event, name),
    }));
}

/// Returns the event without the output of tools, which may be long and tells no state.
fn slim(mut event: Value, name: Option<String>) -> Value {
    if let Some(fields) = event.as_object_mut() {
        if let Some(name) = name {
            fields.insert("hook_event_name".to_owned(), Value::String(name));
        }
        for name in ["tool_response", "prompt", "prompt_response"] {
            fields.remove(name);
        }
    }
    event
}
