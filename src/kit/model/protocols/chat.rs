//! OpenAI Chat Completions, and the errors that it shares with Responses.

use serde_json::{Value, json};

use super::{
    Answer, Event, Refusal, TOKENS_IN, TOKENS_OUT, list, model, pieces, string, text, wait,
};
use crate::kit::model::acts::{Call, Input, Reply};
use crate::kit::model::request::{Protocol, Request, Takes, Tool, Turn};

pub(super) fn read(body: &Value) -> Result<Request, String> {
    if body.get("messages").is_none() {
        return Err("Missing required parameter: 'messages'.".to_owned());
    }
    let messages = list(body, "messages")?;
    let is_system = |message: &&Value| {
        let role = message.get("role").and_then(Value::as_str);
        matches!(role, Some("system" | "developer"))
    };
    let system = messages.iter().filter(is_system);
    let system: Vec<_> = system.map(|message| text(message.get("content"))).collect();
    let max = ["max_completion_tokens", "max_tokens"];
    let schema = body.pointer("/response_format/json_schema/schema");
    let usage = body.pointer("/stream_options/include_usage");
    Ok(Request {
        protocol: Protocol::Chat,
        model: model(body)?,
        system: system.join("\n"),
        turns: messages.iter().flat_map(turns_of).collect(),
        tools: list(body, "tools")?.iter().filter_map(tool).collect(),
        max_tokens: max.iter().find_map(|key| body.get(key)?.as_u64()),
        schema: schema.cloned(),
        stream: body.get("stream").and_then(Value::as_bool) == Some(true),
        stream_usage: usage.and_then(Value::as_bool) == Some(true),
    })
}

fn turns_of(message: &Value) -> Vec<Turn> {
    let text = text(message.get("content"));
    match message.get("role").and_then(Value::as_str) {
        Some("user") => vec![Turn::User(text)],
        Some("tool" | "function") => vec![Turn::Result(text)],
        Some("assistant") => {
            let calls = message.get("tool_calls").and_then(Value::as_array);
            let calls = calls.into_iter().flatten().map(|_| Turn::Call);
            let text = (!text.is_empty()).then_some(Turn::Model(text));
            text.into_iter().chain(calls).collect()
        }
        _ => Vec::new(),
    }
}

fn tool(tool: &Value) -> Option<Tool> {
    let function = tool.get("function")?;
    Some(Tool {
        name: string(function, "name"),
        namespace: None,
        takes: Takes::Json(function.get("parameters").cloned().unwrap_or(Value::Null)),
    })
}

pub(super) fn answer(request: &Request, reply: &Reply, id: u64) -> Answer {
    let id = format!("chatcmpl-{id:08}");
    let usage = json!({
        "prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT,
        "total_tokens": TOKENS_IN + TOKENS_OUT,
    });
    let (message, finish) = match reply {
        Reply::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Reply::Call(call) => {
            let call = tool_call(call, &id);
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            (message, "tool_calls")
        }
    };
    let document = |object: &str, choices: Value| {
        json!({
            "id": id, "object": object, "created": 1_735_689_600, "model": request.model,
            "choices": choices,
        })
    };
    if !request.stream {
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        let mut document = document("chat.completion", json!([choice]));
        document["usage"] = usage;
        return Answer::json(200, document);
    }
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        document("chat.completion.chunk", json!([choice]))
    };
    let mut chunks = vec![chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    match reply {
        Reply::Text(text) => {
            let piece = |piece| chunk(json!({ "content": piece }), Value::Null);
            chunks.extend(pieces(text).map(piece));
        }
        Reply::Call(call) => {
            let mut call = tool_call(call, &id);
            call["index"] = json!(0);
            chunks.push(chunk(json!({ "tool_calls": [call] }), Value::Null));
        }
    }
    chunks.push(chunk(json!({}), json!(finish)));
    if request.stream_usage {
        let mut last = document("chat.completion.chunk", json!([]));
        last["usage"] = usage;
        chunks.push(last);
    }
    let mut events: Vec<_> = chunks.iter().map(Event::unnamed).collect();
    events.push(Event {
        name: None,
        data: "[DONE]".to_owned(),
    });
    Answer::events(events)
}

fn tool_call(call: &Call, id: &str) -> Value {
    let arguments = match &call.input {
        Input::Json(input) => input.to_string(),
        Input::Text(text) => json!({ "input": text }).to_string(),
        Input::Words(words) => json!({ "command": words }).to_string(),
    };
    json!({
        "id": format!("call_{id}"), "type": "function",
        "function": {"name": call.tool, "arguments": arguments},
    })
}

pub(super) fn error(message: &str, kind: &str, code: Value) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Returns the refusal of the API for keys, which has limits per minute and per day.
pub(super) fn refuse(refusal: Refusal) -> Answer {
    let (retry_after, resets_at) = match refusal {
        Refusal::Unauthorised => {
            let message = "Incorrect API key provided.";
            let code = json!("invalid_api_key");
            return Answer::json(401, error(message, "invalid_request_error", code));
        }
        Refusal::Limit {
            retry_after,
            resets_at,
        } => (retry_after, resets_at),
    };
    let (of, limit) = match resets_at {
        Some(_) => ("requests per day (RPD)", 200),
        None => ("requests per min (RPM)", 3),
    };
    let again = wait(retry_after);
    let message = format!(
        "Rate limit reached for kit-model in organization org-kit on {of}: Limit {limit}, \
         Used {limit}, Requested 1. Please try again in {again}."
    );
    let headers = vec![
        ("retry-after", retry_after.as_secs().to_string()),
        ("x-ratelimit-reset-requests", again),
    ];
    let body = error(&message, "requests", json!("rate_limit_exceeded"));
    Answer::json(429, body).with(headers)
}
