//! The providers' protocols: parses the bodies of requests to [`Request`]s, and writes answers in each provider's form.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::acts::Reply;
use super::request::{Protocol, Request};

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Headers other than those that follow from the body.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A JSON document.
    Json(Value),
    /// Server-sent events.
    Events(Vec<Event>),
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name, where the protocol names events.
    pub name: Option<String>,
    /// Its data, on one line.
    pub data: String,
}

impl Answer {
    fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Json(body),
        }
    }

    fn events(events: Vec<Event>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: Body::Events(events),
        }
    }

    fn with(mut self, headers: Vec<(&'static str, String)>) -> Self {
        self.headers = headers;
        self
    }
}

impl Event {
    /// Makes an event whose data is JSON with a `type`, which is also its name.
    fn named(data: &Value) -> Self {
        Self {
            name: data["type"].as_str().map(ToOwned::to_owned),
            data: data.to_string(),
        }
    }

    /// Makes an event without a name.
    fn unnamed(data: &Value) -> Self {
        Self {
            name: None,
            data: data.to_string(),
        }
    }
}

/// The reason why a provider refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A limit is reached.
    Limit {
        /// Time until the program may try again.
        retry_after: Duration,
        /// The end of a subscription's limit.
        resets_at: Option<Timestamp>,
    },
    /// The credentials are wrong.
    Unauthorised,
}

/// The token counts that every answer reports.
const TOKENS_IN: u64 = 1200;
const TOKENS_OUT: u64 = 34;

/// Reads a request. Gemini has the model and the wish to stream in the path, the others in the body.
pub fn read(
    protocol: Protocol,
    body: &Value,
    model: Option<&str>,
    stream: bool,
) -> Result<Request, String> {
    match protocol {
        Protocol::Anthropic => anthropic::read(body),
        Protocol::Responses => responses::read(body),
        Protocol::Chat => chat::read(body),
        Protocol::Gemini => gemini::read(body, model.unwrap_or_default(), stream),
    }
}

/// Returns the answer of the model. `id` is unique to this answer.
pub fn answer(request: &Request, reply: &Reply, id: u64) -> Answer {
    match request.protocol {
        Protocol::Anthropic => anthropic::answer(request, reply, id),
        Protocol::Responses => responses::answer(request, reply, id),
        Protocol::Chat => chat::answer(request, reply, id),
        Protocol::Gemini => gemini::answer(request, reply, id),
    }
}

/// Returns the refusal of the provider. `now` is the time of the refusal.
pub fn refuse(protocol: Protocol, refusal: Refusal, now: Timestamp) -> Answer {
    let refusal = match refusal {
        Refusal::Limit {
            resets_at: Some(at),
            ..
        } => {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Refusal::Limit {
                // The wait is given in whole seconds, rounded up.
                retry_after: Duration::from_secs(left.as_secs() + 1),
                resets_at: Some(at),
            }
        }
        Refusal::Limit { .. } | Refusal::Unauthorised => refusal,
    };
    match protocol {
        Protocol::Anthropic => anthropic::refuse(refusal),
        Protocol::Responses => responses::refuse(refusal),
        Protocol::Chat => chat::refuse(refusal),
        Protocol::Gemini => gemini::refuse(refusal),
    }
}

/// Returns the provider's answer to a request that it cannot serve.
pub fn error(protocol: Protocol, status: u16, message: &str) -> Answer {
    let body = match protocol {
        Protocol::Anthropic => anthropic::error("invalid_request_error", message),
        Protocol::Responses | Protocol::Chat => {
            chat::error(message, "invalid_request_error", Value::Null)
        }
        Protocol::Gemini => gemini::error(status, "INVALID_ARGUMENT", message, &json!([])),
    };
    Answer::json(status, body)
}

/// Formats a wait as providers do: `1h0m5s`, `7m12s`, `30s`.
fn wait(wait: Duration) -> String {
    let seconds = wait.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Answers a request that only counts tokens.
pub fn count(protocol: Protocol) -> Answer {
    let body = match protocol {
        Protocol::Gemini => json!({ "totalTokens": TOKENS_IN }),
        Protocol::Anthropic | Protocol::Responses | Protocol::Chat => {
            json!({ "input_tokens": TOKENS_IN })
        }
    };
    Answer::json(200, body)
}

/// Returns the list of models, with the fields of Anthropic and OpenAI, and those of codex, which only uses the models
/// that it knows.
pub fn models() -> Answer {
    const ID: &str = "scripted";
    let model = json!({
        "id": ID, "object": "model", "type": "model", "display_name": "A scripted model",
        "created": 1_735_689_600, "created_at": "2025-01-01T00:00:00Z", "owned_by": "horde",
    });
    let list = json!({
        "object": "list", "data": [model], "models": [], "has_more": false,
        "first_id": ID, "last_id": ID,
    });
    Answer::json(200, list)
}

/// Returns the text of a string, or of a list of parts with texts.
fn text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text"));
            let texts: Vec<_> = texts.filter_map(Value::as_str).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// Returns a string of an object; empty when it is missing.
fn string(object: &Value, key: &str) -> String {
    let text = object.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Returns a list that may be missing, but must not be of another type.
fn list<'a>(body: &'a Value, key: &str) -> Result<&'a [Value], String> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("{key}: must be a list")),
    }
}

fn model(body: &Value) -> Result<String, String> {
    let model = body.get("model").and_then(Value::as_str);
    Ok(model.ok_or("model: a name is required")?.to_owned())
}

/// Splits a text into pieces to stream: words with the following space.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}
