//! Gemini.

use serde_json::{Value, json};

use super::{Answer, Event, Refusal, TOKENS_IN, TOKENS_OUT, list, pieces, string, text};
use crate::kit::model::acts::{Input, Reply};
use crate::kit::model::request::{Protocol, Request, Takes, Tool, Turn};

pub(super) fn read(body: &Value, model: &str, stream: bool) -> Result<Request, String> {
    if body.get("contents").is_none() {
        return Err("contents is not specified".to_owned());
    }
    let mut turns = Vec::new();
    for content in list(body, "contents")? {
        let is_model = content.get("role").and_then(Value::as_str) == Some("model");
        let parts = list(content, "parts")?.iter();
        turns.extend(parts.filter_map(|part| turn(part, is_model)));
    }
    let mut tools = Vec::new();
    for group in list(body, "tools")? {
        tools.extend(list(group, "functionDeclarations")?.iter().map(tool));
    }
    let settings = body.get("generationConfig").unwrap_or(&Value::Null);
    let wants_json = string(settings, "responseMimeType") == "application/json";
    let schemas = ["responseJsonSchema", "responseSchema"];
    let schema = schemas.iter().find_map(|key| settings.get(key)).cloned();
    let any = wants_json.then(|| json!({"type": "object"}));
    let system = body.get("systemInstruction");
    Ok(Request {
        protocol: Protocol::Gemini,
        model: model.to_owned(),
        system: text(system.and_then(|system| system.get("parts"))),
        turns,
        tools,
        max_tokens: settings.get("maxOutputTokens").and_then(Value::as_u64),
        schema: schema.or(any),
        stream,
        stream_usage: true,
    })
}

fn turn(part: &Value, is_model: bool) -> Option<Turn> {
    if part.get("functionCall").is_some() {
        return Some(Turn::Call);
    }
    if let Some(result) = part.pointer("/functionResponse/response") {
        return Some(Turn::Result(result.to_string()));
    }
    let text = part.get("text")?.as_str()?.to_owned();
    Some(if is_model {
        Turn::Model(text)
    } else {
        Turn::User(text)
    })
}

fn tool(declared: &Value) -> Tool {
    let schemas = ["parametersJsonSchema", "parameters"];
    let schema = schemas.iter().find_map(|key| declared.get(key));
    Tool {
        name: string(declared, "name"),
        namespace: None,
        takes: Takes::Json(schema.cloned().unwrap_or(Value::Null)),
    }
}

pub(super) fn answer(request: &Request, reply: &Reply, id: u64) -> Answer {
    let parts: Vec<Value> = match reply {
        Reply::Text(text) if request.stream && request.schema.is_none() => {
            let part = |piece| json!({ "text": piece });
            pieces(text).map(part).collect()
        }
        Reply::Text(text) => vec![json!({ "text": text })],
        Reply::Call(call) => {
            let args = match &call.input {
                Input::Json(input) => input.clone(),
                Input::Text(text) => json!({ "input": text }),
                Input::Words(words) => json!({ "command": words }),
            };
            vec![json!({ "functionCall": {"name": call.tool, "args": args} })]
        }
    };
    let document = |parts: &[Value], is_last: bool| {
        let content = json!({"role": "model", "parts": parts});
        let mut candidate = json!({"index": 0, "content": content});
        if is_last {
            candidate["finishReason"] = json!("STOP");
        }
        json!({
            "candidates": [candidate], "modelVersion": request.model,
            "responseId": format!("resp-{id:08}"),
            "usageMetadata": {
                "promptTokenCount": TOKENS_IN, "candidatesTokenCount": TOKENS_OUT,
                "totalTokenCount": TOKENS_IN + TOKENS_OUT,
            },
        })
    };
    if !request.stream {
        return Answer::json(200, document(&parts, true));
    }
    let mut chunks: Vec<_> = parts.chunks(1).map(|part| document(part, false)).collect();
    chunks.push(document(&[], true));
    Answer::events(chunks.iter().map(Event::unnamed).collect())
}

pub(super) fn error(code: u16, status: &str, message: &str, details: &Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

pub(super) fn refuse(refusal: Refusal) -> Answer {
    let (retry_after, resets_at) = match refusal {
        Refusal::Unauthorised => {
            let info = json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID", "domain": "googleapis.com",
            });
            let message = "API key not valid. Please pass a valid API key.";
            return Answer::json(401, error(401, "UNAUTHENTICATED", message, &json!([info])));
        }
        Refusal::Limit {
            retry_after,
            resets_at,
        } => (retry_after.as_secs(), resets_at),
    };
    // A daily quota is not retried automatically, a quota per minute is.
    let quota = match resets_at {
        Some(_) => "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
        None => "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
    };
    let details = json!([
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": quota,
            }],
        },
        {
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{retry_after}s"),
        },
    ]);
    let message = format!(
        "You exceeded your current quota, please check your plan and billing details. \
         Please retry in {retry_after}s."
    );
    let headers = vec![("retry-after", retry_after.to_string())];
    Answer::json(429, error(429, "RESOURCE_EXHAUSTED", &message, &details)).with(headers)
}
