//! Turns the steps of a script into acts of a program: calls of the tools that it declared, with the input that each
//! tool's schema asks for.

use serde_json::{Map, Value, json};

use super::request::{EditFormat, Request, Takes, Tool};
use super::schema;
use super::script::Step;

/// Tools that run a shell command, the most likely first.
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

/// The answer of the model, in any protocol.
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
    /// The group in which the tool was declared.
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

/// Returns the reply for an act; none when the program declared no tool for it.
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

/// Returns a script that calls one tool and returns its result.
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

/// Returns the script tool, if scripts can call a patch tool.
fn patcher(request: &Request) -> Option<&Tool> {
    request.tools.iter().find(|tool| match &tool.takes {
        Takes::Script(tools) => tools.contains("apply_patch"),
        Takes::Json(_) | Takes::Text | Takes::LocalShell => false,
    })
}

/// Sets a property for the kind of action, if the tool has one, to an allowed value.
fn choose(input: &mut Map<String, Value>, schema: &Value, key: &str, wanted: &[&str]) {
    let allowed = schema::property(schema, key).and_then(|property| property.get("enum"));
    let allowed = allowed.and_then(Value::as_array).into_iter().flatten();
    let mut allowed = allowed.filter(|value| value.as_str().is_some_and(|it| wanted.contains(&it)));
    if let Some(value) = allowed.next() {
        input.insert(key.to_owned(), value.clone());
    }
}

/// Returns a new file in the patch format of codex.
fn patch(path: &str, text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

/// Returns a new file in one of aider's formats.
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
    // A form as a schema (copilot), with one field.
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

/// Returns a choice: a string, or an object where the schema wants one.
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

/// Returns the first of these properties that a schema declares.
fn property<'a>(schema: &Value, names: &[&'a str]) -> Option<&'a str> {
    let mut names = names.iter().copied();
    names.find(|name| schema::property(schema, name).is_some())
}

/// Returns the declared tool whose name is first in a list. Compares names without case and without the group before a
/// double underscore.
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
