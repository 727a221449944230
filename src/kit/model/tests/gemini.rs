//! Gemini.

use serde_json::{Value, json};

use super::super::{Given, Protocol};
use super::{playing, post, reply, run};

fn request(later: &[Value]) -> Value {
    let text = json!({"type": "STRING"});
    let parameters = json!({
        "type": "OBJECT", "required": ["command"],
        "properties": {"command": text, "description": text},
    });
    let mut contents = vec![json!({"role": "user", "parts": [{"text": "Do marker"}]})];
    contents.extend(later.iter().cloned());
    json!({
        "contents": contents, "systemInstruction": {"parts": [{"text": "You are an agent."}]},
        "tools": [{"functionDeclarations": [
            {"name": "run_shell_command", "parameters": parameters},
        ]}],
        "generationConfig": {"temperature": 0},
    })
}

fn path(model: &str, verb: &str) -> String {
    format!("/v1beta/models/{model}:{verb}")
}

#[test]
fn streamed_call_is_a_part_and_the_last_event_has_the_reason() {
    let model = playing(vec![run("ls")]);
    let path = path("gemini-x", "streamGenerateContent?alt=sse");
    let answer = post(&model, &path, &request(&[]));
    let events = answer.events();
    assert!(answer.names().is_empty());
    let call = &events[0]["candidates"][0]["content"]["parts"][0]["functionCall"];
    let expected = json!({"name": "run_shell_command", "args": {"command": "ls"}});
    assert_eq!(*call, expected);
    assert_eq!(events[1]["candidates"][0]["finishReason"], "STOP");
    let heard = &model.heard()[0];
    assert_eq!(
        (heard.protocol, heard.model.as_str()),
        (Protocol::Gemini, "gemini-x")
    );
}

#[test]
fn results_of_functions_are_steps_that_were_done() {
    let model = playing(vec![run("ls"), reply("It is there")]);
    let later = [
        json!({"role": "model", "parts": [{"functionCall": {"name": "x", "args": {}}}]}),
        json!({"role": "user", "parts": [{"functionResponse": {
            "name": "x", "response": {"output": "a.txt"},
        }}]}),
    ];
    let path = path("gemini-x", "generateContent");
    let whole = post(&model, &path, &request(&later)).json();
    let parts = &whole["candidates"][0]["content"]["parts"];
    assert_eq!(*parts, json!([{"text": "It is there"}]));
    assert_eq!(
        model.heard()[0].result.as_deref(),
        Some(r#"{"output":"a.txt"}"#)
    );
}

#[test]
fn request_for_json_gets_a_fitting_answer_and_uses_no_step() {
    let model = playing(vec![run("ls")]);
    let mut wants_json = request(&[]);
    wants_json["generationConfig"] = json!({
        "responseMimeType": "application/json",
        "responseJsonSchema": {
            "type": "object", "required": ["next"],
            "properties": {"next": {"type": "string", "enum": ["user", "model"]}},
        },
    });
    let path = path("gemini-small", "generateContent");
    let whole = post(&model, &path, &wants_json).json();
    let text = &whole["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(*text, r#"{"next":"user"}"#);
    assert_eq!(model.heard()[0].given, Given::Aside);
}

#[test]
fn tokens_are_counted() {
    let model = playing(vec![]);
    let counted = post(&model, &path("gemini-x", "countTokens"), &request(&[]));
    assert!(counted.json()["totalTokens"].as_u64() > Some(0));
}
