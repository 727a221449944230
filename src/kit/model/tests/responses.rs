//! OpenAI Responses.

use serde_json::{Value, json};

use super::super::{Given, Step};
use super::{playing, post, reply, run, schema};

const PATH: &str = "/v1/responses";

fn request(tools: &Value, later: &[Value], stream: bool) -> Value {
    let message = |role: &str, text: &str| {
        let content = json!([{"type": "input_text", "text": text}]);
        json!({"type": "message", "role": role, "content": content})
    };
    let mut input = vec![
        message("developer", "Permissions: all."),
        message(
            "user",
            "<environment_context><cwd>/w</cwd></environment_context>",
        ),
        message("user", "Do marker"),
    ];
    input.extend(later.iter().cloned());
    json!({
        "model": "gpt-x", "instructions": "You are an agent.", "input": input, "tools": tools,
        "stream": stream, "store": false,
    })
}

fn exec_command() -> Value {
    let text = json!({"type": "string"});
    let parameters = schema(&json!({"cmd": text, "workdir?": text}));
    json!({"type": "function", "name": "exec_command", "strict": false, "parameters": parameters})
}

#[test]
fn streamed_call_is_an_item_that_is_added_filled_and_done() {
    let model = playing(vec![run("ls")]);
    let tools = json!([{"type": "web_search"}, exec_command()]);
    let answer = post(&model, PATH, &request(&tools, &[], true));
    let names = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(answer.names(), names);
    let events = answer.events();
    let item = &events[5]["item"];
    assert_eq!(item["type"], "function_call");
    assert_eq!(item["name"], "exec_command");
    assert_eq!(item["arguments"], r#"{"cmd":"ls"}"#);
    assert_eq!(events[6]["response"]["output"][0], *item);
    assert!(events[6]["response"]["usage"]["total_tokens"].as_u64() > Some(0));
    let numbers = events.iter().map(|event| event["sequence_number"].as_u64());
    assert!(numbers.eq((0..7).map(Some)));
}

#[test]
fn streamed_text_is_an_item_with_one_part() {
    let model = playing(vec![run("ls"), reply("All is well")]);
    let result = json!({"type": "function_call_output", "call_id": "c", "output": "a.txt"});
    let answer = post(
        &model,
        PATH,
        &request(&json!([exec_command()]), &[result], true),
    );
    let events = answer.events();
    let deltas = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta");
    let text: String = deltas.filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "All is well");
    let done = &events[events.len() - 2]["item"];
    assert_eq!(done["content"][0]["text"], "All is well");
    assert_eq!(model.heard()[0].result.as_deref(), Some("a.txt"));
}

#[test]
fn every_kind_of_shell_gets_its_own_call() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let shell = json!({
        "type": "function", "name": "shell", "parameters": schema(&json!({"command": list})),
    });
    let model = playing(vec![run("ls -l")]);
    let item = |tool: &Value| {
        let request = request(&json!([tool]), &[], false);
        post(&model, PATH, &request).json()["output"][0].clone()
    };
    assert_eq!(
        item(&shell)["arguments"],
        r#"{"command":["bash","-c","ls -l"]}"#
    );
    let local = item(&json!({"type": "local_shell"}));
    assert_eq!(local["type"], "local_shell_call");
    assert_eq!(local["action"]["command"], json!(["bash", "-c", "ls -l"]));
    let grouped = item(&json!({
        "type": "namespace", "name": "local", "tools": [exec_command()],
    }));
    assert_eq!(grouped["namespace"], "local");
    let custom = item(&json!({"type": "custom", "name": "shell"}));
    assert_eq!(
        (&custom["type"], &custom["input"]),
        (&json!("custom_tool_call"), &json!("ls -l"))
    );
}

/// Codex 0.169 declares a tool for scripts, in the conversation.
#[test]
fn tool_that_takes_scripts_gets_a_script_that_calls_the_tool_inside() {
    let write = Step::Write {
        path: "/w/a.txt".into(),
        text: "one\n".into(),
    };
    let model = playing(vec![run("echo \"it's\""), write]);
    let words = "`await tools.exec_command(...)` runs a command.\n### `apply_patch`";
    let exec = json!({"type": "custom", "name": "exec", "description": words});
    let group = json!({"type": "namespace", "name": "functions", "tools": [exec]});
    let declared = json!({"type": "additional_tools", "role": "developer", "tools": [group]});
    let input = |later: &[Value]| {
        let request = request(
            &Value::Null,
            &[std::slice::from_ref(&declared), later].concat(),
            true,
        );
        let events = post(&model, PATH, &request).events();
        let item = events[events.len() - 2]["item"].clone();
        assert_eq!(
            (&item["name"], &item["namespace"]),
            (&json!("exec"), &json!("functions"))
        );
        item["input"].as_str().unwrap().to_owned()
    };
    let ran = input(&[]);
    assert!(
        ran.contains(r#"tools.exec_command({"cmd":"echo \"it's\""})"#),
        "{ran}"
    );
    let result = json!({"type": "custom_tool_call_output", "call_id": "c", "output": [
        {"type": "input_text", "text": "Script completed"},
    ]});
    let wrote = input(&[result]);
    let patch = r#"tools.apply_patch("*** Begin Patch\n*** Add File: /w/a.txt\n+one\n"#;
    assert!(wrote.contains(patch), "{wrote}");
}

#[test]
fn file_is_a_patch_where_the_program_takes_patches_and_a_command_else() {
    let write = Step::Write {
        path: "/w/it's/a.txt".into(),
        text: "one\ntwo\n".into(),
    };
    let model = playing(vec![write]);
    let patch = json!({"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}});
    let item = |tools: &Value| {
        let request = request(tools, &[], false);
        post(&model, PATH, &request).json()["output"][0].clone()
    };
    let patched = item(&json!([exec_command(), patch]));
    let expected = "*** Begin Patch\n*** Add File: /w/it's/a.txt\n+one\n+two\n*** End Patch\n";
    assert_eq!(patched["input"], expected);
    let ran = item(&json!([exec_command()]));
    let arguments: Value = serde_json::from_str(ran["arguments"].as_str().unwrap()).unwrap();
    let words = shell_words::split(arguments["cmd"].as_str().unwrap()).unwrap();
    assert_eq!(words[..3], ["mkdir", "-p", "/w/it's"]);
    assert_eq!(words[6], "one\ntwo\n");
}

#[test]
fn program_without_a_fitting_tool_is_told_so_and_so_is_the_case() {
    let ask = Step::Ask {
        question: "Which?".into(),
        options: vec!["One".into(), "Two".into()],
    };
    let model = playing(vec![ask]);
    post(&model, PATH, &request(&json!([exec_command()]), &[], true));
    assert_eq!(model.heard()[0].given, Given::NoTool);
}
