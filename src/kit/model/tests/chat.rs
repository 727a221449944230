//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::super::{Given, Step};
use super::{playing, post, reply, run, schema};

const PATH: &str = "/v1/chat/completions";

fn tools() -> Value {
    let text = json!({"type": "string"});
    let option = schema(&json!({"label": text, "description": text}));
    let question = schema(&json!({
        "question": text, "header": text, "options": {"type": "array", "items": option},
    }));
    let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    json!([
        tool(
            "bash",
            schema(&json!({"command": text, "description": text, "timeout?": text}))
        ),
        tool("write", schema(&json!({"filePath": text, "content": text}))),
        tool(
            "question",
            schema(&json!({"questions": {"type": "array", "items": question}}))
        ),
    ])
}

fn request(later: &[Value], stream: bool) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You are an agent."}),
        json!({"role": "user", "content": [{"type": "text", "text": "Do marker"}]}),
    ];
    messages.extend(later.iter().cloned());
    json!({
        "model": "gpt-x", "stream": stream, "stream_options": {"include_usage": stream},
        "messages": messages, "tools": tools(),
    })
}

fn result(text: &str) -> [Value; 2] {
    let function = json!({"name": "bash", "arguments": "{}"});
    let call = json!({"id": "call_1", "type": "function", "function": function});
    [
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "call_1", "content": text}),
    ]
}

#[test]
fn streamed_call_ends_with_its_reason_the_usage_and_the_last_words() {
    let model = playing(vec![run("make"), run("make test")]);
    let answer = post(&model, PATH, &request(&result("made"), true));
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
    let chunks = answer.events();
    let call = &chunks[1]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(call["index"], 0);
    assert_eq!(call["function"]["name"], "bash");
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    let expected = json!({"command": "make test", "description": "Run a command"});
    assert_eq!(arguments, expected);
    assert_eq!(chunks[2]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chunks[3]["choices"], json!([]));
    assert!(chunks[3]["usage"]["total_tokens"].as_u64() > Some(0));
    assert_eq!(model.heard()[0].result.as_deref(), Some("made"));
}

#[test]
fn text_is_said_streamed_or_whole() {
    let model = playing(vec![reply("Good day to you")]);
    let chunks = post(&model, PATH, &request(&[], true)).events();
    let pieces = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(pieces.collect::<String>(), "Good day to you");
    let whole = post(&model, PATH, &request(&[], false)).json();
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["content"], "Good day to you");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
}

#[test]
fn text_that_was_said_is_a_step_that_was_done() {
    let model = playing(vec![reply("Good day"), run("ls")]);
    let said = [
        json!({"role": "assistant", "content": "Good day"}),
        json!({"role": "user", "content": "Go on"}),
    ];
    let whole = post(&model, PATH, &request(&said, false)).json();
    let call = &whole["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "bash");
}

#[test]
fn file_and_question_use_the_names_of_the_program() {
    let write = Step::Write {
        path: "/w/a".into(),
        text: "b".into(),
    };
    let ask = Step::Ask {
        question: "Which?".into(),
        options: vec!["One".into()],
    };
    let model = playing(vec![write, ask]);
    let arguments = |later: &[Value]| {
        let whole = post(&model, PATH, &request(later, false)).json();
        let call = whole["choices"][0]["message"]["tool_calls"][0].clone();
        let arguments = call["function"]["arguments"].as_str().unwrap();
        serde_json::from_str::<Value>(arguments).unwrap()
    };
    assert_eq!(arguments(&[]), json!({"filePath": "/w/a", "content": "b"}));
    let asked = &arguments(&result("written"))["questions"][0];
    assert_eq!(
        asked["options"][0],
        json!({"label": "One", "description": "One"})
    );
}

/// copilot's tool takes a form in place of a list of options.
#[test]
fn question_fills_a_form_where_the_tool_takes_one() {
    let ask = Step::Ask {
        question: "Which?".into(),
        options: vec!["One".into(), "Two".into()],
    };
    let model = playing(vec![ask]);
    let form = schema(&json!({"properties": {"type": "object"}}));
    let parameters = schema(&json!({"message": {"type": "string"}, "requestedSchema?": form}));
    let function = json!({"name": "ask_user", "parameters": parameters});
    let mut request = request(&[], false);
    request["tools"] = json!([{"type": "function", "function": function}]);
    let whole = post(&model, PATH, &request).json();
    let call = &whole["choices"][0]["message"]["tool_calls"][0];
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments["message"], "Which?");
    let field = &arguments["requestedSchema"]["properties"]["choice"];
    assert_eq!(field["enum"], json!(["One", "Two"]));
}

#[test]
fn program_without_tools_gets_its_edits_as_text_and_then_the_next_step() {
    let write = |name: &str| Step::Write {
        path: name.into(),
        text: "words\n".into(),
    };
    let model = playing(vec![write("a.txt"), write("b.txt"), run("ls")]);
    let ask = |later: &[&str], system: &str| {
        let mut messages = vec![
            json!({"role": "system", "content": system}),
            json!({"role": "user", "content": "Do marker"}),
        ];
        let said = later.iter();
        messages.extend(said.map(|text| json!({"role": "assistant", "content": text})));
        let request = json!({"model": "gpt-x", "messages": messages});
        let whole = post(&model, PATH, &request).json();
        let content = &whole["choices"][0]["message"]["content"];
        content.as_str().unwrap().to_owned()
    };
    let blocks = "Use *SEARCH/REPLACE* blocks";
    let first = ask(&[], blocks);
    assert_eq!(
        first,
        "a.txt\n```\n<<<<<<< SEARCH\n=======\nwords\n>>>>>>> REPLACE\n```"
    );
    assert!(ask(&[&first], blocks).starts_with("b.txt\n"));
    let whole = "Return a *file listing*";
    assert_eq!(ask(&[], whole), "a.txt\n```\nwords\n```");
    let second = "b.txt\n```\nwords\n```";
    ask(&["a.txt\n```\nwords\n```", second], whole);
    assert_eq!(model.heard()[3].given, Given::NoTool);
}
