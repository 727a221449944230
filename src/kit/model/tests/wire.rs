//! HTTP: refused requests, and programs that do not disturb each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::thread;

use serde_json::json;

use super::super::Model;
use super::{connect, exchange, playing, post, posting, reply, run};

#[test]
fn malformed_requests_are_refused_in_the_words_of_the_provider() {
    let model = playing(vec![]);
    for (path, body, told) in [
        ("/v1/messages", "{", "the body is no JSON"),
        ("/v1/messages", "[]", "messages: Field required"),
        (
            "/v1/messages",
            r#"{"messages": 1}"#,
            "messages: must be a list",
        ),
        (
            "/v1/messages",
            r#"{"messages": [{"role": "user"}]}"#,
            "content must be",
        ),
        (
            "/v1/messages",
            r#"{"messages": []}"#,
            "model: a name is required",
        ),
        ("/v1/responses", "{}", "'input'"),
        (
            "/v1/responses",
            r#"{"input": [], "tools": {}}"#,
            "tools: must be a list",
        ),
        ("/v1/chat/completions", r#"{"model": "m"}"#, "'messages'"),
        (
            "/v1beta/models/x:generateContent",
            "{}",
            "contents is not specified",
        ),
        (
            "/v1beta/models/x:generateContent",
            r#"{"contents": [{"parts": ""}]}"#,
            "parts",
        ),
    ] {
        let answer = exchange(&model, &posting(path, body));
        assert_eq!(answer.status, 400, "{path} {body}");
        let message = answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(message.contains(told), "{path} {body}: {message}");
    }
    assert_eq!(model.strays().len(), 10);
    assert!(model.heard().is_empty());
}

#[test]
fn unknown_paths_methods_and_encodings_are_refused_and_told() {
    let model = playing(vec![]);
    let head = "HTTP/1.1\r\nHost: m\r\nConnection: close\r\n";
    let requests = [
        (format!("GET /api/hello?x=1 {head}\r\n"), 404),
        (
            format!("POST /v1beta/models/x:embedContent {head}\r\n"),
            404,
        ),
        (format!("GET /v1/messages {head}\r\n"), 405),
        (
            format!("GET /v1/responses {head}Upgrade: websocket\r\n\r\n"),
            426,
        ),
        (
            format!("POST /v1/responses {head}Content-Encoding: zstd\r\nContent-Length: 0\r\n\r\n"),
            415,
        ),
    ];
    for (request, status) in &requests {
        assert_eq!(exchange(&model, request).status, *status, "{request}");
    }
    let strays = model.strays();
    let first = (strays[0].method.as_str(), strays[0].path.as_str());
    assert_eq!(first, ("GET", "/api/hello"));
    let statuses = strays.iter().map(|stray| stray.status);
    assert!(statuses.eq(requests.iter().map(|(_, status)| *status)));
}

#[test]
fn malformed_http_ends_its_connection_only() {
    let model = playing(vec![reply("Hello")]);
    let mut socket = connect(&model);
    socket.write_all(b"\x16\x03\x01 no words\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 400"));
    let mut half = connect(&model);
    half.write_all(b"POST /v1/messages HTTP/1.1\r\nHost: m\r\nContent-Length: 99\r\n\r\n{")
        .unwrap();
    drop(half);
    assert_eq!(ask(&model), "Hello");
}

/// A conversation by Chat Completions, which gets a text.
fn ask(model: &Model) -> String {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let request = json!({
        "model": "m", "messages": [{"role": "user", "content": "Do marker"}],
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": parameters}}],
    });
    let whole = post(model, "/v1/chat/completions", &request).json();
    let text = whole["choices"][0]["message"]["content"].as_str();
    text.unwrap().to_owned()
}

#[test]
fn several_programs_are_answered_at_once() {
    let model = playing(vec![reply("Hello")]);
    // Silent connections must not block the others.
    let silent: Vec<_> = (0..4).map(|_| connect(&model)).collect();
    thread::scope(|scope| {
        let asking: Vec<_> = (0..16).map(|_| scope.spawn(|| ask(&model))).collect();
        for asked in asking {
            assert_eq!(asked.join().unwrap(), "Hello");
        }
    });
    assert_eq!(model.heard().len(), 16);
    drop(silent);
}

#[test]
fn connection_serves_one_request_after_another() {
    let model = playing(vec![run("ls")]);
    let mut socket = connect(&model);
    let mut answers = BufReader::new(socket.try_clone().unwrap());
    for _ in 0..3 {
        let request = "GET /v1/models HTTP/1.1\r\nHost: m\r\n\r\n";
        socket.write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        answers.read_exact(&mut body).unwrap();
        assert!(body.starts_with(b"{"));
    }
}
