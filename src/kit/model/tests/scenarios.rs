//! The step that a conversation gets.

use std::thread;

use serde_json::{Value, json};

use super::super::{Given, Model, Scenario, Step};
use super::{LIMIT, playing, post, reply, run};

fn request(marker: &str, results: usize, stream: bool) -> Value {
    let mut messages = vec![json!({"role": "user", "content": format!("Do {marker}")})];
    for _ in 0..results {
        messages.push(json!({"role": "tool", "tool_call_id": "c", "content": "done"}));
    }
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    json!({
        "model": "m", "messages": messages, "stream": stream,
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": parameters}}],
    })
}

fn answer(model: &Model, marker: &str, results: usize) -> Value {
    let whole = post(
        model,
        "/v1/chat/completions",
        &request(marker, results, false),
    )
    .json();
    whole["choices"][0]["message"].clone()
}

fn ran(message: &Value) -> &str {
    let arguments = &message["tool_calls"][0]["function"]["arguments"];
    arguments.as_str().unwrap()
}

#[test]
fn conversation_that_begins_afresh_begins_the_scenario_again() {
    let model = playing(vec![run("one"), run("two"), reply("end")]);
    assert!(ran(&answer(&model, "marker", 0)).contains("one"));
    assert!(ran(&answer(&model, "marker", 1)).contains("two"));
    assert!(ran(&answer(&model, "marker", 0)).contains("one"));
    assert_eq!(answer(&model, "marker", 2)["content"], "end");
    assert_eq!(
        answer(&model, "marker", 3)["content"],
        "Everything in the script is done."
    );
}

#[test]
fn every_marker_has_a_scenario_of_its_own_and_the_latest_one_counts() {
    let model = Model::start().unwrap();
    for name in ["first", "second"] {
        let steps = vec![run(&format!("echo {name}"))];
        let marker = name.to_owned();
        model.play(Scenario { marker, steps });
    }
    assert!(ran(&answer(&model, "first", 0)).contains("echo first"));
    assert!(ran(&answer(&model, "second", 0)).contains("echo second"));
    let mut both = request("first", 1, false);
    let later = json!({"role": "user", "content": "Now second"});
    both["messages"].as_array_mut().unwrap().push(later);
    let whole = post(&model, "/v1/chat/completions", &both).json();
    assert!(ran(&whole["choices"][0]["message"]).contains("echo second"));
    let neither = answer(&model, "neither", 0);
    assert_eq!(
        neither["content"],
        "There is no script for this conversation."
    );
    assert_eq!(model.heard()[3].marker, None);
}

#[test]
fn requests_beside_the_conversation_use_no_step() {
    let model = playing(vec![run("one")]);
    let mut title = request("marker", 0, false);
    title["tools"] = json!([]);
    let mut quota = request("marker", 0, false);
    quota["max_tokens"] = json!(1);
    for aside in [title, quota] {
        let whole = post(&model, "/v1/chat/completions", &aside).json();
        assert_eq!(whole["choices"][0]["message"]["content"], "Ready.");
    }
    assert!(
        model
            .heard()
            .iter()
            .all(|heard| heard.given == Given::Aside)
    );
    assert!(ran(&answer(&model, "marker", 0)).contains("one"));
}

#[test]
fn waiting_conversation_goes_on_when_it_is_released_and_not_before() {
    let model = playing(vec![
        run("one"),
        Step::Wait,
        run("two"),
        Step::Wait,
        run("three"),
    ]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| answer(&model, "marker", 1));
        let stands = model.wait_for(LIMIT, |heard| {
            let last = heard.last()?;
            (last.given == Given::Waiting).then_some(last.step)
        });
        assert_eq!(stands, Some(Some(1)));
        assert!(!waiting.is_finished());
        // Other conversations are answered meanwhile.
        assert!(ran(&answer(&model, "marker", 0)).contains("one"));
        model.release("marker");
        assert!(ran(&waiting.join().unwrap()).contains("two"));
    });
    let heard = model.heard();
    assert_eq!(heard[0].given, Given::Call("bash".into()));
    model.release("marker");
    assert!(ran(&answer(&model, "marker", 2)).contains("three"));
}

#[test]
fn model_ends_while_a_conversation_waits() {
    let model = playing(vec![Step::Wait]);
    let address = model.address();
    let body = request("marker", 0, true).to_string();
    let waiting = thread::spawn(move || {
        use std::io::{Read, Write};
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let posting = super::posting("/v1/chat/completions", &body);
        socket.write_all(posting.as_bytes()).unwrap();
        let mut rest = Vec::new();
        // The end may come as a reset.
        let _ended = socket.read_to_end(&mut rest);
        rest
    });
    let heard = model.wait_for(LIMIT, |heard| (!heard.is_empty()).then_some(()));
    assert_eq!(heard, Some(()));
    drop(model);
    assert!(waiting.join().unwrap().is_empty());
}

#[test]
fn waiting_for_an_unsent_request_has_an_end() {
    let model = playing(vec![]);
    let never = model.wait_for(std::time::Duration::from_millis(1), |_| None::<()>);
    assert_eq!(never, None);
}
