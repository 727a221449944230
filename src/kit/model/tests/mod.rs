//! The model as programs meet it: raw HTTP over a socket.

mod anthropic;
mod chat;
mod gemini;
mod refusals;
mod responses;
mod scenarios;
mod wire;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Model, Scenario, Step};

/// Timeout of every answer and event.
const LIMIT: Duration = Duration::from_secs(20);

/// An answer as it came over the socket.
struct Answered {
    status: u16,
    head: String,
    body: String,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| {
            let key = line.split(':').next().unwrap_or_default();
            key.eq_ignore_ascii_case(name)
        };
        let line = self.head.lines().skip(1).find(named)?;
        Some(line.split_once(':')?.1.trim())
    }

    /// Returns the data of all server-sent events, without the end mark of Chat Completions.
    fn events(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        let data = data.filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    /// Returns the names of all server-sent events.
    fn names(&self) -> Vec<&str> {
        let lines = self.body.lines();
        lines
            .filter_map(|line| line.strip_prefix("event: "))
            .collect()
    }
}

fn connect(model: &Model) -> TcpStream {
    let socket = TcpStream::connect(model.address()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// Sends a request and reads until the connection is closed.
fn exchange(model: &Model, request: &str) -> Answered {
    let mut socket = connect(model);
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answered = Answered {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    };
    if answered.header("transfer-encoding") == Some("chunked") {
        answered.body = unchunked(body);
    }
    answered
}

fn unchunked(mut left: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = left.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        left = &rest[size + 2..];
        if size == 0 {
            break;
        }
    }
    whole
}

fn post(model: &Model, path: &str, body: &Value) -> Answered {
    exchange(model, &posting(path, &body.to_string()))
}

fn posting(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Makes a model that plays one scenario, for conversations with the word "marker".
fn playing(steps: Vec<Step>) -> Model {
    let model = Model::start().unwrap();
    let marker = "marker".to_owned();
    model.play(Scenario { marker, steps });
    model
}

fn run(command: &str) -> Step {
    Step::Run(command.to_owned())
}

fn reply(text: &str) -> Step {
    Step::Say(text.to_owned())
}

/// Returns the schema of an object with these properties; those without a `?` are required.
fn schema(properties: &Value) -> Value {
    let given = properties.as_object().unwrap();
    let names: Vec<_> = given.keys().filter(|name| !name.ends_with('?')).collect();
    let properties = given.iter();
    let properties: serde_json::Map<_, _> = properties
        .map(|(name, schema)| (name.trim_end_matches('?').to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": properties, "required": names})
}
