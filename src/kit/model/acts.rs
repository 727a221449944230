//! Steps of a script as a program can carry them out: as a call of one of the tools that it
//! declared, with the input that the tool's schema asks for.

use serde_json::{Map, Value, json};

use super::request::{EditFormat, Request, Takes, Tool};
use super::schema;
use super::script::Step;

/// Tools that run a shell command, the likeliest first.
const SHELLS: &[&str] = &[
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "run_command",
    "run_terminal_cmd",
    "execute_command",
    "execute",
    "exec",
];
/// Tools that write a whole file.
const WRITERS: &[&str] = &[
    "write",
    "write_file",
    "create",
    "create_file",
    "write_to_file",
    "text_editor",
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "apply_patch",
];
/// Tools that ask the user.
const ASKERS: &[&str] = &[
    "askuserquestion",
    "request_user_input",
    "ask_user",
    "ask_user_question",
    "question",
    "ask_question",
    "ask",
];

/// What the model answers, whichever protocol carries it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A text, which ends the turn.
    Text(String),
    /// A call of a tool.
    Call(Call),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The name of the tool.
    pub tool: String,
    /// The group that the tool was declared in.
    pub namespace: Option<String>,
    /// Its input.
    pub input: Input,
}

/// The input of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// An object.
    Json(Value),
    /// Text.
    Text(String),
    /// The words of a command, for the built-in `local_shell`.
    Words(Vec<String>),
}

/// The reply that carries an act out; none when the program declared no tool for it.
pub fn reply(step: &Step, request: &Request) -> Option<Reply> {
    match step {
        Step::Say(text) => Some(Reply::Text(text.clone())),
        Step::Run(command) => Some(Reply::Call(run(command, request)?)),
        Step::Write { path, text } => write(path, text, request),
        Step::Ask { question, options } => Some(Reply::Call(ask(question, options, request)?)),
        Step::Limit { .. } | Step::Unauthorised | Step::Wait => None,
    }
}

fn run(command: &str, request: &Request) -> Option<Call> {
    let tool = find(request, SHELLS)?;
    let input = match &tool.takes {
        Takes::LocalShell => Input::Words(shell(command)),
        Takes::Text => Input::Text(command.to_owned()),
        Takes::Script(tools) if tools.contains("exec_command") => {
            let argument = json!({ "cmd": command });
            Input::Text(script("exec_command", &argument))
        }
        Takes::Script(_) => return None,
        Takes::Json(schema) => {
            let mut input = schema::required(schema);
            if let Some(description) = input.get_mut("description") {
                *description = json!("Run a command");
            }
            let key = property(schema, &["command", "cmd", "script"])?;
            let is_list = schema::property(schema, key)
                .is_some_and(|property| schema::type_of(property) == "array");
            let command = if is_list {
                json!(shell(command))
            } else {
                json!(command)
            };
            input.insert(key.to_owned(), command);
            Input::Json(Value::Object(input))
        }
    };
    Some(call(tool, input))
}

/// A script that calls one tool and returns what that returns.
fn script(tool: &str, argument: &Value) -> String {
    format!("const result = await tools.{tool}({argument});\ntext(result);\n")
}

fn shell(command: &str) -> Vec<String> {
    ["bash", "-c", command].map(ToOwned::to_owned).to_vec()
}

fn write(path: &str, text: &str, request: &Request) -> Option<Reply> {
    if let Some(format) = request.edit_format() {
        return Some(Reply::Text(edit(format, path, text)));
    }
    let Some(tool) = find(request, WRITERS).or_else(|| patcher(request)) else {
        let directory = path
            .rsplit_once('/')
            .map_or(".", |(directory, _)| directory);
        let words = [directory, text, path].map(|word| shell_words::quote(word).into_owned());
        let [directory, text, path] = words;
        let command = format!("mkdir -p {directory} && printf %s {text} > {path}");
        return Some(Reply::Call(run(&command, request)?));
    };
    let input = match &tool.takes {
        Takes::LocalShell => return None,
        Takes::Text => Input::Text(patch(path, text)),
        Takes::Script(_) => Input::Text(script("apply_patch", &json!(patch(path, text)))),
        Takes::Json(schema) => {
            let mut input = schema::required(schema);
            let at = property(schema, &["file_path", "filePath", "path", "filename"])?;
            let content = property(schema, &["content", "file_text", "contents", "text"])?;
            input.insert(at.to_owned(), json!(path));
            input.insert(content.to_owned(), json!(text));
            choose(&mut input, schema, "command", &["create", "write"]);
            Input::Json(Value::Object(input))
        }
    };
    Some(Reply::Call(call(tool, input)))
}

/// The tool for scripts, where scripts can call a tool for patches.
fn patcher(request: &Request) -> Option<&Tool> {
    request.tools.iter().find(|tool| match &tool.takes {
        Takes::Script(tools) => tools.contains("apply_patch"),
        Takes::Json(_) | Takes::Text | Takes::LocalShell => false,
    })
}

/// Sets a property that tells what to do, where the tool has one, to the value that it allows.
fn choose(input: &mut Map<String, Value>, schema: &Value, key: &str, wanted: &[&str]) {
    let allowed = schema::property(schema, key).and_then(|property| property.get("enum"));
    let allowed = allowed.and_then(Value::as_array).into_iter().flatten();
    let mut allowed = allowed.filter(|value| value.as_str().is_some_and(|it| wanted.contains(&it)));
    if let Some(value) = allowed.next() {
        input.insert(key.to_owned(), value.clone());
    }
}

/// The patch format of codex, for a new file.
fn patch(path: &str, text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

/// A new file in the formats of aider.
fn edit(format: EditFormat, path: &str, text: &str) -> String {
    let text = text.trim_end();
    match format {
        EditFormat::SearchReplace => {
            format!("{path}\n```\n<<<<<<< SEARCH\n=======\n{text}\n>>>>>>> REPLACE\n```")
        }
        EditFormat::Whole => format!("{path}\n```\n{text}\n```"),
    }
}

fn ask(question: &str, options: &[String], request: &Request) -> Option<Call> {
    let tool = find(request, ASKERS)?;
    let Takes::Json(schema) = &tool.takes else {
        return None;
    };
    let input = match schema::property(schema, "questions") {
        None => one_question(schema, question, options),
        Some(questions) => {
            let item = questions.get("items").cloned().unwrap_or(json!({}));
            let mut input = schema::required(schema);
            let asked = Value::Object(one_question(&item, question, options));
            input.insert("questions".to_owned(), json!([asked]));
            input
        }
    };
    Some(call(tool, Input::Json(Value::Object(input))))
}

fn one_question(schema: &Value, question: &str, options: &[String]) -> Map<String, Value> {
    let mut asked = schema::required(schema);
    let text = property(schema, &["question", "prompt", "message"]).unwrap_or("question");
    asked.insert(text.to_owned(), json!(question));
    if let Some(header) = asked.get_mut("header") {
        *header = json!("Choice");
    }
    if let Some(id) = asked.get_mut("id") {
        *id = json!("choice");
    }
    // A form in terms of a schema (copilot), with one field.
    if let Some(key) = property(schema, &["requestedSchema"]) {
        let field = json!({"type": "string", "enum": options});
        asked.insert(
            key.to_owned(),
            json!({"type": "object", "properties": {"choice": field}, "required": ["choice"]}),
        );
    }
    choose(&mut asked, schema, "type", &["choice", "select"]);
    if let Some(key) = property(schema, &["options", "choices"]) {
        let item = schema::property(schema, key).and_then(|list| list.get("items"));
        let option = |label: &String| option(item, label);
        asked.insert(key.to_owned(), options.iter().map(option).collect());
    }
    asked
}

/// One choice: a string, or an object where the schema wants one.
fn option(schema: Option<&Value>, label: &str) -> Value {
    let Some(schema) = schema.filter(|schema| schema::type_of(schema) == "object") else {
        return json!(label);
    };
    let mut option = schema::required(schema);
    let key = property(schema, &["label", "text", "title", "name"]).unwrap_or("label");
    option.insert(key.to_owned(), json!(label));
    for detail in ["description", "value"] {
        if let Some(text) = option.get_mut(detail) {
            *text = json!(label);
        }
    }
    Value::Object(option)
}

/// The first of these properties that a schema declares.
fn property<'a>(schema: &Value, names: &[&'a str]) -> Option<&'a str> {
    let mut names = names.iter().copied();
    names.find(|name| schema::property(schema, name).is_some())
}

/// The declared tool whose name stands earliest in a list. Names are compared without their case
/// and without the group before a double underscore.
fn find<'a>(request: &'a Request, names: &[&str]) -> Option<&'a Tool> {
    let named = |tool: &&Tool, name: &str| {
        let short = tool.name.rsplit("__").next().unwrap_or_default();
        short.eq_ignore_ascii_case(name)
    };
    let mut names = names.iter();
    names.find_map(|name| request.tools.iter().find(|tool| named(tool, name)))
}

fn call(tool: &Tool, input: Input) -> Call {
    Call {
        tool: tool.name.clone(),
        namespace: tool.namespace.clone(),
        input,
    }
}
