//! Anthropic Messages.

use serde_json::{Value, json};

use super::super::{Given, Protocol, Step};
use super::{playing, post, reply, run, schema};

fn tools() -> Value {
    let text = json!({"type": "string"});
    let option = schema(&json!({"label": text, "description": text}));
    let question = schema(&json!({
        "question": text, "header": text, "multiSelect": {"type": "boolean", "default": false},
        "options": {"type": "array", "items": option, "minItems": 2},
    }));
    json!([
        {"name": "Task", "input_schema": schema(&json!({"prompt": text}))},
        {"name": "Bash", "input_schema": schema(&json!({"command": text, "description?": text}))},
        {"name": "Write", "input_schema": schema(&json!({"file_path": text, "content": text}))},
        {"name": "AskUserQuestion", "input_schema": schema(&json!({
            "questions": {"type": "array", "items": question, "minItems": 1},
        }))},
    ])
}

/// A request of claude's shape: the prompt behind a reminder, the results of its tools after it.
fn request(results: &[&str], stream: bool) -> Value {
    let reminder =
        json!({"type": "text", "text": "<system-reminder>Keep to it.</system-reminder>"});
    let prompt = json!({"type": "text", "text": "Do marker now"});
    let mut messages = vec![json!({"role": "user", "content": [reminder, prompt]})];
    for (number, result) in results.iter().enumerate() {
        let id = format!("toolu_{number}");
        let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": [
            {"type": "text", "text": result},
        ]});
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
    json!({
        "model": "claude-x", "max_tokens": 32_000, "stream": stream, "tools": tools(),
        "system": [{"type": "text", "text": "You are an agent."}], "messages": messages,
    })
}

#[test]
fn streamed_call_comes_as_the_events_of_a_message() {
    let model = playing(vec![run("git status")]);
    let answer = post(&model, "/v1/messages?beta=true", &request(&[], true));
    assert_eq!(answer.status, 200);
    let names = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(answer.names(), names);
    let events = answer.events();
    let block = &events[2]["content_block"];
    assert_eq!(
        (&block["type"], &block["name"]),
        (&json!("tool_use"), &json!("Bash"))
    );
    let input = events[3]["delta"]["partial_json"].as_str().unwrap();
    let input: Value = serde_json::from_str(input).unwrap();
    assert_eq!(input, json!({"command": "git status"}));
    assert_eq!(events[5]["delta"]["stop_reason"], "tool_use");
    let heard = &model.heard()[0];
    assert_eq!(
        (heard.protocol, heard.model.as_str()),
        (Protocol::Anthropic, "claude-x")
    );
    assert_eq!(heard.user.last().map(String::as_str), Some("Do marker now"));
    assert_eq!(heard.given, Given::Call("Bash".into()));
}

#[test]
fn streamed_text_comes_in_pieces_after_the_results_before_it() {
    let model = playing(vec![run("one"), run("two"), reply("It is all done.")]);
    let answer = post(&model, "/v1/messages", &request(&["1", "2"], true));
    let events = answer.events();
    let pieces = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(pieces.collect::<Vec<_>>(), ["It ", "is ", "all ", "done."]);
    let heard = &model.heard()[0];
    assert_eq!(heard.result.as_deref(), Some("2"));
    assert_eq!(heard.step, Some(2));
}

#[test]
fn answer_that_is_not_streamed_is_one_message() {
    let write = Step::Write {
        path: "/w/a.txt".into(),
        text: "words\n".into(),
    };
    let model = playing(vec![write]);
    let message = post(&model, "/v1/messages", &request(&[], false)).json();
    assert_eq!(message["stop_reason"], "tool_use");
    let expected = json!({"file_path": "/w/a.txt", "content": "words\n"});
    assert_eq!(message["content"][0]["name"], "Write");
    assert_eq!(message["content"][0]["input"], expected);
}

#[test]
fn question_is_asked_by_the_tool_for_it() {
    let ask = Step::Ask {
        question: "Which colour?".into(),
        options: vec!["Red".into(), "Blue".into()],
    };
    let model = playing(vec![ask]);
    let message = post(&model, "/v1/messages", &request(&[], false)).json();
    assert_eq!(message["content"][0]["name"], "AskUserQuestion");
    let expected = json!({"questions": [{
        "question": "Which colour?", "header": "Choice", "multiSelect": false,
        "options": [
            {"label": "Red", "description": "Red"},
            {"label": "Blue", "description": "Blue"},
        ],
    }]});
    assert_eq!(message["content"][0]["input"], expected);
}

#[test]
fn tokens_are_counted_and_models_are_listed() {
    let model = playing(vec![]);
    let counted = post(&model, "/v1/messages/count_tokens", &request(&[], false));
    assert!(counted.json()["input_tokens"].as_u64() > Some(0));
    let get = "GET /v1/models HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n";
    let models = super::exchange(&model, get).json();
    assert_eq!(models["data"][0]["type"], "model");
    assert_eq!(model.heard().len(), 0);
}
