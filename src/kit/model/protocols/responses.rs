//! OpenAI Responses.

use serde_json::{Value, json};

use super::{
    Answer, Event, Refusal, TOKENS_IN, TOKENS_OUT, chat, list, model, pieces, string, text,
};
use crate::kit::model::acts::{Call, Input, Reply};
use crate::kit::model::request::{Protocol, Request, Takes, Tool, Turn};

pub(super) fn read(body: &Value) -> Result<Request, String> {
    let mut tools = tools_in(body)?;
    let turns = match body.get("input") {
        None => return Err("Missing required parameter: 'input'.".to_owned()),
        Some(Value::String(text)) => vec![Turn::User(text.clone())],
        Some(_) => {
            let input = list(body, "input")?;
            // Codex declares its tools in the conversation.
            let additional = |item: &&Value| string(item, "type") == "additional_tools";
            for item in input.iter().filter(additional) {
                tools.extend(tools_in(item)?);
            }
            input.iter().filter_map(turn).collect()
        }
    };
    Ok(Request {
        protocol: Protocol::Responses,
        model: model(body)?,
        system: string(body, "instructions"),
        turns,
        tools,
        max_tokens: body.get("max_output_tokens").and_then(Value::as_u64),
        schema: body.pointer("/text/format/schema").cloned(),
        stream: body.get("stream").and_then(Value::as_bool) == Some(true),
        stream_usage: true,
    })
}

fn turn(item: &Value) -> Option<Turn> {
    let kind = item.get("type").and_then(Value::as_str);
    match kind.unwrap_or("message") {
        "message" => {
            let text = text(item.get("content"));
            match item.get("role").and_then(Value::as_str) {
                Some("user") => Some(Turn::User(text)),
                Some("assistant") => Some(Turn::Model(text)),
                _ => None,
            }
        }
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let output = item.get("output");
            let plain = text(output);
            let structured = || output.map(Value::to_string).unwrap_or_default();
            Some(Turn::Result(if plain.is_empty() {
                structured()
            } else {
                plain
            }))
        }
        "function_call" | "custom_tool_call" | "local_shell_call" => Some(Turn::Call),
        _ => None,
    }
}

fn tools_in(body: &Value) -> Result<Vec<Tool>, String> {
    let mut tools = Vec::new();
    for declared in list(body, "tools")? {
        tools.extend(tools_of(declared)?);
    }
    Ok(tools)
}

/// Reads a tool, or the tools of a group.
fn tools_of(declared: &Value) -> Result<Vec<Tool>, String> {
    let name = string(declared, "name");
    let takes = match declared.get("type").and_then(Value::as_str) {
        Some("function") => Takes::Json(declared.get("parameters").cloned().unwrap_or(Value::Null)),
        Some("custom") => {
            let description = string(declared, "description");
            if description.contains("await tools.") {
                Takes::Script(description)
            } else {
                Takes::Text
            }
        }
        Some("local_shell") => {
            return Ok(vec![Tool {
                name: "local_shell".to_owned(),
                namespace: None,
                takes: Takes::LocalShell,
            }]);
        }
        Some("namespace") => {
            let mut tools = tools_in(declared)?;
            for tool in &mut tools {
                tool.namespace = Some(name.clone());
            }
            return Ok(tools);
        }
        // Tools that the provider itself runs, such as a web search.
        _ => return Ok(Vec::new()),
    };
    Ok(vec![Tool {
        name,
        namespace: None,
        takes,
    }])
}

pub(super) fn answer(request: &Request, reply: &Reply, id: u64) -> Answer {
    let item = item(reply, id);
    let response = |status: &str, output: Value, usage: Value| {
        json!({
            "id": format!("resp_{id:08}"), "object": "response", "created_at": 1_735_689_600,
            "model": request.model, "status": status, "output": output, "usage": usage,
        })
    };
    let usage = json!({
        "input_tokens": TOKENS_IN, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": TOKENS_OUT, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": TOKENS_IN + TOKENS_OUT,
    });
    let completed = response("completed", json!([item]), usage);
    if !request.stream {
        return Answer::json(200, completed);
    }
    let begun = response("in_progress", json!([]), Value::Null);
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    events.extend(item_events(reply, &item));
    events.push(json!({"type": "response.completed", "response": completed}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    Answer::events(events.iter().map(Event::named).collect())
}

/// Returns the only item of an answer.
fn item(reply: &Reply, id: u64) -> Value {
    let call_id = format!("call_{id:08}");
    match reply {
        Reply::Text(text) => json!({
            "id": format!("msg_{id:08}"), "type": "message", "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Reply::Call(call) => match &call.input {
            Input::Json(input) => {
                let mut item = json!({
                    "id": format!("fc_{id:08}"), "type": "function_call", "call_id": call_id,
                    "name": call.tool, "arguments": input.to_string(), "status": "completed",
                });
                put_namespace(&mut item, call);
                item
            }
            Input::Text(text) => {
                let mut item = json!({
                    "id": format!("ctc_{id:08}"), "type": "custom_tool_call",
                    "call_id": call_id, "name": call.tool, "input": text,
                    "status": "completed",
                });
                put_namespace(&mut item, call);
                item
            }
            Input::Words(words) => json!({
                "id": format!("lsh_{id:08}"), "type": "local_shell_call", "call_id": call_id,
                "status": "completed", "action": {"type": "exec", "command": words, "env": {}},
            }),
        },
    }
}

fn put_namespace(item: &mut Value, call: &Call) {
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
}

/// An item as it is streamed: begun empty, filled piece by piece, ended whole.
fn item_events(reply: &Reply, item: &Value) -> Vec<Value> {
    let id = &item["id"];
    let mut empty = item.clone();
    empty["status"] = json!("in_progress");
    let at = |kind: &str, key: &str, value: Value| {
        let mut event = json!({"type": kind, "item_id": id, "output_index": 0});
        event[key] = value;
        event
    };
    let inner = match (reply, item["type"].as_str()) {
        (Reply::Text(text), _) => {
            empty["content"] = json!([]);
            let part = |kind: &str, key: &str, value: Value| {
                let mut event = at(kind, key, value);
                event["content_index"] = json!(0);
                event
            };
            let blank = json!({"type": "output_text", "text": "", "annotations": []});
            let mut inner = vec![part("response.content_part.added", "part", blank)];
            let delta = |piece| part("response.output_text.delta", "delta", json!(piece));
            inner.extend(pieces(text).map(delta));
            inner.push(part("response.output_text.done", "text", json!(text)));
            let whole = item["content"][0].clone();
            inner.push(part("response.content_part.done", "part", whole));
            inner
        }
        (Reply::Call(_), Some("function_call")) => {
            empty["arguments"] = json!("");
            let (delta, done) = (
                "function_call_arguments.delta",
                "function_call_arguments.done",
            );
            let whole = &item["arguments"];
            vec![
                at(&format!("response.{delta}"), "delta", whole.clone()),
                at(&format!("response.{done}"), "arguments", whole.clone()),
            ]
        }
        (Reply::Call(_), _) => Vec::new(),
    };
    let mut events =
        vec![json!({"type": "response.output_item.added", "output_index": 0, "item": empty})];
    events.extend(inner);
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    events
}

/// Returns the refusal of a used-up subscription, where its end is known; otherwise that of the API.
pub(super) fn refuse(refusal: Refusal) -> Answer {
    let Refusal::Limit {
        retry_after,
        resets_at: Some(resets_at),
    } = refusal
    else {
        return chat::refuse(refusal);
    };
    let (left, reset) = (retry_after.as_secs(), resets_at.as_second());
    let mut body = chat::error(
        "The usage limit has been reached",
        "usage_limit_reached",
        Value::Null,
    );
    body["error"]["plan_type"] = json!("plus");
    body["error"]["resets_at"] = json!(reset);
    body["error"]["resets_in_seconds"] = json!(left);
    let headers = vec![
        ("retry-after", left.to_string()),
        ("x-codex-primary-used-percent", "100".to_owned()),
        ("x-codex-primary-window-minutes", "300".to_owned()),
        ("x-codex-primary-reset-at", reset.to_string()),
    ];
    Answer::json(429, body).with(headers)
}
