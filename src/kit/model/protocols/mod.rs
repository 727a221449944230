//! The providers' protocols: bodies of requests as [`Request`]s, and answers as each of them writes
//! them.

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
    /// Headers besides those that follow from the body.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// One JSON document.
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
    /// An event whose data is JSON with a `type`, which is its name too.
    fn named(data: &Value) -> Self {
        Self {
            name: data["type"].as_str().map(ToOwned::to_owned),
            data: data.to_string(),
        }
    }

    /// An event without a name.
    fn unnamed(data: &Value) -> Self {
        Self {
            name: None,
            data: data.to_string(),
        }
    }
}

/// Why a provider refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A limit is reached.
    Limit {
        /// The program may try again after this.
        retry_after: Duration,
        /// The limit of a subscription is over at this time.
        resets_at: Option<Timestamp>,
    },
    /// The credentials are wrong.
    Unauthorised,
}

/// The tokens that every answer is said to have cost.
const TOKENS_IN: u64 = 1200;
const TOKENS_OUT: u64 = 34;

/// Reads a request. The model and the wish to stream stand in the path of Gemini, in the body of the
/// others.
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

/// What the model says. `id` is unique to this answer.
pub fn answer(request: &Request, reply: &Reply, id: u64) -> Answer {
    match request.protocol {
        Protocol::Anthropic => anthropic::answer(request, reply, id),
        Protocol::Responses => responses::answer(request, reply, id),
        Protocol::Chat => chat::answer(request, reply, id),
        Protocol::Gemini => gemini::answer(request, reply, id),
    }
}

/// What the provider says when it refuses. `now` is the time of the refusal.
pub fn refuse(protocol: Protocol, refusal: Refusal, now: Timestamp) -> Answer {
    let refusal = match refusal {
        Refusal::Limit {
            resets_at: Some(at),
            ..
        } => {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Refusal::Limit {
                // Whole seconds are told, and none of them too few.
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

/// What the provider says to a request that it cannot serve.
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

/// A wait as providers write it: `1h0m5s`, `7m12s`, `30s`.
fn wait(wait: Duration) -> String {
    let seconds = wait.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// The number of tokens of a request that is only counted.
pub fn count(protocol: Protocol) -> Answer {
    let body = match protocol {
        Protocol::Gemini => json!({ "totalTokens": TOKENS_IN }),
        Protocol::Anthropic | Protocol::Responses | Protocol::Chat => {
            json!({ "input_tokens": TOKENS_IN })
        }
    };
    Answer::json(200, body)
}

/// The list of models, with the fields of Anthropic and of OpenAI, and with those of codex, which
/// keeps to the models that it knows by itself.
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

/// The text of what is a string, or a list of parts with texts.
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

/// A string of an object, or nothing.
fn string(object: &Value, key: &str) -> String {
    let text = object.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// A list that may be missing, but is nothing else.
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

/// The pieces that a text is streamed in: words with the space behind them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}
