//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Answer, Event, Refusal, TOKENS_IN, TOKENS_OUT, list, model, pieces, string, text};
use crate::kit::model::acts::{Call, Input, Reply};
use crate::kit::model::request::{Protocol, Request, Takes, Tool, Turn};

pub(super) fn read(body: &Value) -> Result<Request, String> {
    if body.get("messages").is_none() {
        return Err("messages: Field required".to_owned());
    }
    let mut turns = Vec::new();
    for message in list(body, "messages")? {
        turns.extend(turns_of(message)?);
    }
    let format = ["output_config", "output_format"]
        .iter()
        .find_map(|key| body.get(key));
    let format = format.map(|format| format.get("format").unwrap_or(format));
    Ok(Request {
        protocol: Protocol::Anthropic,
        model: model(body)?,
        system: text(body.get("system")),
        turns,
        tools: list(body, "tools")?.iter().map(tool).collect(),
        max_tokens: body.get("max_tokens").and_then(Value::as_u64),
        schema: format.and_then(|format| format.get("schema")).cloned(),
        stream: body.get("stream").and_then(Value::as_bool) == Some(true),
        stream_usage: true,
    })
}

fn turns_of(message: &Value) -> Result<Vec<Turn>, String> {
    let of = |text: String| match message.get("role").and_then(Value::as_str) {
        Some("assistant") => Turn::Model(text),
        _ => Turn::User(text),
    };
    let blocks = match message.get("content") {
        Some(Value::String(text)) => return Ok(vec![of(text.clone())]),
        Some(Value::Array(blocks)) => blocks,
        _ => return Err("messages: content must be a text or a list".to_owned()),
    };
    let turn = |block: &Value| match block.get("type").and_then(Value::as_str) {
        Some("text") => Some(of(string(block, "text"))),
        Some("tool_use") => Some(Turn::Call),
        Some("tool_result") => Some(Turn::Result(text(block.get("content")))),
        _ => None,
    };
    Ok(blocks.iter().filter_map(turn).collect())
}

/// Reads a tool of the program, or a tool that the provider defines and that has no schema here.
fn tool(tool: &Value) -> Tool {
    Tool {
        name: string(tool, "name"),
        namespace: None,
        takes: Takes::Json(tool.get("input_schema").cloned().unwrap_or(Value::Null)),
    }
}

pub(super) fn answer(request: &Request, reply: &Reply, id: u64) -> Answer {
    let block = match reply {
        Reply::Text(text) => json!({"type": "text", "text": text}),
        Reply::Call(call) => json!({
            "type": "tool_use", "id": format!("toolu_{id:08}"), "name": call.tool,
            "input": input(call),
        }),
    };
    let stop = match reply {
        Reply::Text(_) => "end_turn",
        Reply::Call(_) => "tool_use",
    };
    let usage = json!({
        "input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    });
    let mut message = json!({
        "id": format!("msg_{id:08}"), "type": "message", "role": "assistant",
        "model": request.model, "content": [block], "stop_reason": stop, "stop_sequence": null,
        "usage": usage,
    });
    if !request.stream {
        return Answer::json(200, message);
    }
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "ping"}),
    ];
    events.extend(block_events(reply, &block));
    events.push(json!({
        "type": "message_delta", "usage": usage,
        "delta": {"stop_reason": stop, "stop_sequence": null},
    }));
    events.push(json!({"type": "message_stop"}));
    Answer::events(events.iter().map(Event::named).collect())
}

fn input(call: &Call) -> Value {
    match &call.input {
        Input::Json(input) => input.clone(),
        Input::Text(text) => json!({ "input": text }),
        Input::Words(words) => json!({ "command": words }),
    }
}

/// A block as it is streamed: begun empty, filled piece by piece, ended.
fn block_events(reply: &Reply, block: &Value) -> Vec<Value> {
    let mut empty = block.clone();
    let deltas: Vec<Value> = match reply {
        Reply::Text(text) => {
            empty["text"] = json!("");
            let delta = |piece| json!({"type": "text_delta", "text": piece});
            pieces(text).map(delta).collect()
        }
        Reply::Call(call) => {
            empty["input"] = json!({});
            let input = input(call).to_string();
            vec![json!({"type": "input_json_delta", "partial_json": input})]
        }
    };
    let mut events = vec![json!({
        "type": "content_block_start", "index": 0, "content_block": empty,
    })];
    let event = |delta| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    events.extend(deltas.into_iter().map(event));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events
}

pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

pub(super) fn refuse(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Unauthorised => {
            let body = error("authentication_error", "invalid x-api-key");
            Answer::json(401, body).with(vec![("x-should-retry", "false".to_owned())])
        }
        Refusal::Limit {
            retry_after,
            resets_at,
        } => {
            let mut headers = vec![("retry-after", retry_after.as_secs().to_string())];
            if let Some(resets_at) = resets_at {
                let of_window = "anthropic-ratelimit-unified-representative-claim";
                let reset = resets_at.as_second().to_string();
                headers.extend([
                    ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
                    ("anthropic-ratelimit-unified-reset", reset.clone()),
                    (of_window, "five_hour".to_owned()),
                    (
                        "anthropic-ratelimit-unified-5h-status",
                        "rejected".to_owned(),
                    ),
                    ("anthropic-ratelimit-unified-5h-reset", reset),
                    (
                        "anthropic-ratelimit-unified-5h-utilization",
                        "1.0".to_owned(),
                    ),
                ]);
            }
            let message =
                "This request would exceed your account's rate limit. Please try again later.";
            Answer::json(429, error("rate_limit_error", message)).with(headers)
        }
    }
}
