//! The agent's end of Chat Completions.

use std::io::{Read, Write};
use std::net::TcpStream;

use jiff::Timestamp;
use serde_json::{Value, json};

/// What the model answered.
pub enum Reply {
    /// A text.
    Text(String),
    /// A call of a tool.
    Call(Value),
    /// An error of the provider, as the agent tells of it.
    Refused {
        /// `limit` or `login`.
        condition: &'static str,
        /// In words.
        why: String,
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
            why: limit(&body),
        },
        "401" => Reply::Refused {
            condition: "login",
            why: "Invalid API key · Please run /login".to_owned(),
        },
        status => panic!("{status}: {body}"),
    }
}

fn limit(body: &Value) -> String {
    let resets_at = body["error"]["resets_at"].as_i64();
    let Some(resets_at) = resets_at else {
        return "Too many requests".to_owned();
    };
    let resets_at = Timestamp::from_second(resets_at).unwrap();
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
