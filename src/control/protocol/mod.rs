//! The messages of the control socket (`contract.md`, 2.4): one JSON object per line.
//!
//! ```text
//! → {"v":1,"id":"7","op":"charge","args":{"relic":"gt-1","rig":"horde"}}
//! ← {"id":"7","ok":true,"result":{..}}
//! ← {"id":"8","ok":false,"error":{"kind":"not_found","message":"..","hint":".."}}
//! ← {"id":"9","item":{..}}                      a streaming op, any number of times, then `ok`
//! ```

pub mod answers;
pub mod args;
mod errors;
mod ops;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use crate::domain::intent::Intent;
pub use errors::{ControlError, ErrorKind, Exit};
pub use ops::{Need, Op, OpName, Pace, no_such_transition};

/// The version of the protocol that this program speaks.
pub const VERSION: u64 = 1;

/// The longest request line, without its line end.
pub const LINE_MAX: usize = 1024 * 1024;

/// The maximum number of records of one `relic.import`, and of tasks of one `run`: each is one transaction of the store.
pub const BATCH_MAX: usize = 200;

/// A request whose envelope was read. Its arguments are not parsed yet: a caller without the right to ask is refused
/// first.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Returned with the answer: a string, a number or null.
    pub id: Value,
    /// The operation.
    pub op: OpName,
    /// Its arguments.
    pub args: Map<String, Value>,
}

/// A request that cannot be served, and the id to answer it with.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    /// Null when the line was not readable.
    pub id: Value,
    /// The reason.
    pub error: ControlError,
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is no request of this protocol, or of another version of it.
    pub fn parse(line: &str) -> Result<Self, Rejected> {
        let unreadable = |message: String| Rejected {
            id: Value::Null,
            error: ControlError::bad_request(message),
        };
        let value: Value = serde_json::from_str(line)
            .map_err(|error| unreadable(format!("the line is not JSON: {error}")))?;
        let Value::Object(mut envelope) = value else {
            return Err(unreadable("the line is not a JSON object".into()));
        };
        let id = match envelope.remove("id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => id,
            Some(Value::Null) | None => Value::Null,
            Some(_) => {
                return Err(unreadable("id must be a string or a number".into()));
            }
        };
        match Self::open(envelope) {
            Ok((op, args)) => Ok(Self { id, op, args }),
            Err(error) => Err(Rejected { id, error }),
        }
    }

    fn open(
        mut envelope: Map<String, Value>,
    ) -> Result<(OpName, Map<String, Value>), ControlError> {
        match envelope.remove("v") {
            None => {
                return Err(ControlError::bad_request(
                    "v, the protocol version, is missing",
                ));
            }
            Some(v) if v.as_u64() == Some(VERSION) => {}
            Some(v) => return Err(ControlError::version(&v)),
        }
        let op = match envelope.remove("op") {
            Some(Value::String(op)) => op.parse()?,
            Some(_) => return Err(ControlError::bad_request("op must be a string")),
            None => return Err(ControlError::bad_request("op is missing")),
        };
        let args = match envelope.remove("args") {
            Some(Value::Object(args)) => args,
            Some(Value::Null) | None => Map::new(),
            Some(_) => return Err(ControlError::bad_request("args must be an object")),
        };
        match envelope.keys().next() {
            Some(key) => Err(errors::unknown("key", key, &["v", "id", "op", "args"])),
            None => Ok((op, args)),
        }
    }

    /// Returns the line for this request, without its line end.
    #[must_use]
    pub fn line(id: &str, op: &Op) -> String {
        json!({"v": VERSION, "id": id, "op": op.name().as_str(), "args": op.args()}).to_string()
    }
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawResponse", into = "RawResponse")]
pub struct Response {
    /// The id of the request.
    pub id: Value,
    /// The content of the line.
    pub body: Body,
}

/// The content of a line of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The end: done, with its result.
    Done(Value),
    /// The end: not done.
    Failed(ControlError),
    /// An item of a stream.
    Item(Value),
}

#[derive(Serialize, Deserialize)]
struct RawResponse {
    id: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ControlError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<Value>,
}

impl From<Response> for RawResponse {
    fn from(response: Response) -> Self {
        let mut raw = Self {
            id: response.id,
            ok: None,
            result: None,
            error: None,
            item: None,
        };
        match response.body {
            Body::Done(result) => (raw.ok, raw.result) = (Some(true), Some(result)),
            Body::Failed(error) => (raw.ok, raw.error) = (Some(false), Some(error)),
            Body::Item(item) => raw.item = Some(item),
        }
        raw
    }
}

impl TryFrom<RawResponse> for Response {
    type Error = &'static str;

    fn try_from(raw: RawResponse) -> Result<Self, &'static str> {
        let body = match (raw.ok, raw.error, raw.item) {
            (Some(true), None, None) => Body::Done(raw.result.unwrap_or(Value::Null)),
            (Some(false), Some(error), None) => Body::Failed(error),
            (None, None, Some(item)) => Body::Item(item),
            _ => return Err("the answer has no result, error or item"),
        };
        Ok(Self { id: raw.id, body })
    }
}

impl Response {
    /// Returns the line, without its line end.
    #[must_use]
    pub fn line(self) -> String {
        // Strings, numbers and maps with string keys always have a JSON text.
        serde_json::to_string(&self).expect("an answer is plain JSON")
    }
}

/// Returns the line of a result that is JSON already.
#[must_use]
pub fn done_line(id: &Value, result: &str) -> String {
    format!("{{\"id\":{id},\"ok\":true,\"result\":{result}}}")
}

/// Returns the line of an item that is JSON already.
#[must_use]
pub fn item_line(id: &Value, item: &str) -> String {
    format!("{{\"id\":{id},\"item\":{item}}}")
}

#[cfg(test)]
mod tests;
