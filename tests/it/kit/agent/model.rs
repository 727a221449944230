//! The agent's end of Chat Completions.

use std::io::{Read, Write};
use std::net::TcpStream;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The answer of the model.
pub enum Reply {
    /// A text.
    Text(String),
    /// A call of a tool.
    Call(Value),
    /// An error of the provider, as the agent reports it.
    Refused {
        /// `limit` or `login`.
        condition: &'static str,
        /// In words.
        why: String,
        /// When a limit ends.
        until: Option<Timestamp>,
    },
}

/// Asks the model.
pub fn ask(messages: &[Value]) -> Reply {
    let url = std::env::var("OPENAI_BASE_URL").unwrap();
    let place = url.strip_prefix("http://").unwrap();
    let (address, path) = place.split_once('/').unwrap();
    let body = json!({"model": "m", "messages": messages, "tools": tools()}).to_string();
    let mut socket = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        socket,
        "POST /{path}/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    match head.split(' ').nth(1).unwrap() {
        "200" => {
            let message = &body["choices"][0]["message"];
            match message["content"].as_str() {
                Some(text) => Reply::Text(text.to_owned()),
                None => Reply::Call(message["tool_calls"][0].clone()),
            }
        }
        "429" => Reply::Refused {
            condition: "limit",
            // The shown clock has no seconds.
            why: limit(resets_at(&body).or(retry_at(head))),
            until: retry_at(head),
        },
        "401" => Reply::Refused {
            condition: "login",
            why: "Invalid API key · Please run /login".to_owned(),
            until: None,
        },
        status => panic!("{status}: {body}"),
    }
}

fn resets_at(body: &Value) -> Option<Timestamp> {
    let second = body["error"]["resets_at"].as_i64()?;
    Some(Timestamp::from_second(second).unwrap())
}

/// Returns the time from which the provider takes requests again, as its header tells every program.
fn retry_at(head: &str) -> Option<Timestamp> {
    let mut lines = head.lines();
    let seconds = lines.find_map(|line| line.strip_prefix("retry-after: "))?;
    let after = SignedDuration::from_secs(seconds.trim().parse().unwrap());
    Some(Timestamp::now().checked_add(after).unwrap())
}

fn limit(resets_at: Option<Timestamp>) -> String {
    let Some(resets_at) = resets_at else {
        return "Too many requests".to_owned();
    };
    let clock = resets_at.strftime("%-I:%M%P (UTC)");
    format!("You've hit your limit · resets {clock}")
}

fn tools() -> Value {
    let text = json!({"type": "string"});
    let list = json!({"type": "array", "items": text});
    let tool = |name: &str, first: (&str, &Value), second: Option<(&str, &Value)>| {
        let mut properties = json!({ first.0: first.1 });
        if let Some((key, schema)) = second {
            properties[key] = schema.clone();
        }
        let parameters = json!({"type": "object", "properties": properties});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    json!([
        tool("bash", ("command", &text), None),
        tool("write", ("path", &text), Some(("content", &text))),
        tool("ask_user", ("question", &text), Some(("options", &list))),
    ])
}
