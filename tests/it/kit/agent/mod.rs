//! An agent for the kit: asks a model by OpenAI Chat Completions, has a shell, writes files, and asks questions by a
//! menu. It is this test program, started again with [`ROLE`] in its environment.

mod model;
mod terminal;
mod times;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use horde_supervisor::kit::model::{Model, Scenario, Step};
use horde_supervisor::testing::poll::pass;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::model::{Reply, ask};
use self::terminal::{Entry, Terminal};

/// The variable that makes this program the agent. Its value names the agent's faults; an agent that conforms has none
/// of these words:
///
/// - `asks`: first asks whether it may trust the directory
/// - `mangles`: gives its model only the first line of its prompt
/// - `shares`: runs the commands of all agents with the identity of the first
pub const ROLE: &str = "KIT_AGENT";
/// The variable that names a directory with recordings of a real program: the agent shows these instead of its own
/// screens.
pub const SCREENS: &str = "KIT_SCREENS";
/// The variable for the agent's behaviour at a limit: it `waits` for the end of it, it `retries` every half second,
/// shows a `menu`, or waits for text. `reports` is `retries` with a hook of copilot that reports the limit.
pub const LIMIT: &str = "KIT_LIMIT";
/// The pause between two requests of a program that waits for the end of a limit.
const RETRY: Duration = Duration::from_millis(500);
/// The test that is the agent.
pub const TEST: &str = "kit::agent::agent_follows_its_scripted_model";

#[test]
fn agent_follows_its_scripted_model() {
    if let Ok(role) = std::env::var(ROLE) {
        let prompt = std::env::args().next_back().unwrap();
        Agent::new(&role, &prompt).work();
        return;
    }
    let temp = horde_supervisor::testing::scratch();
    let model = Model::start().unwrap();
    let file = temp.path().join("written");
    let steps = vec![
        Step::Write {
            path: file.to_string_lossy().into_owned(),
            text: "words".to_owned(),
        },
        Step::Run("printf more >>written".to_owned()),
        Step::Say("That was all.".to_owned()),
    ];
    model.play(Scenario {
        marker: "prompt".to_owned(),
        steps,
    });
    fs::write(temp.path().join("task"), "A prompt\n").unwrap();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture", "task"])
        .env(ROLE, "")
        .env("HOME", temp.path())
        .env("OPENAI_BASE_URL", format!("{}/v1", model.url()))
        .current_dir(temp.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("That was all."));
    assert_eq!(fs::read_to_string(&file).unwrap(), "wordsmore");
}

fn limit_form() -> String {
    std::env::var(LIMIT).unwrap_or_default()
}

struct Agent {
    role: String,
    terminal: Terminal,
    messages: Vec<Value>,
}

impl Agent {
    fn new(role: &str, file: &str) -> Self {
        let prompt = fs::read_to_string(file).unwrap();
        let told = match role {
            "mangles" => prompt.lines().find(|line| line.contains("kit-")),
            _ => Some(prompt.as_str()),
        };
        let system = json!({"role": "system", "content": "You are an agent."});
        let user = json!({"role": "user", "content": told});
        Self {
            role: role.to_owned(),
            terminal: Terminal::open(),
            messages: vec![system, user],
        }
    }

    /// Asks the model and follows its answers, until the input ends.
    fn work(&mut self) {
        if self.role == "asks" {
            let yes_no = ["Yes, I trust it".to_owned(), "No, exit".to_owned()];
            self.terminal
                .choose("Do you trust this directory?", &yes_no);
        }
        loop {
            let goes_on = match ask(&self.messages) {
                Reply::Text(text) => {
                    self.terminal.print(&text);
                    self.messages
                        .push(json!({"role": "assistant", "content": text}));
                    self.listen()
                }
                Reply::Call(call) => {
                    self.call(&call);
                    true
                }
                Reply::Refused {
                    condition,
                    why,
                    until,
                } => {
                    self.terminal.refused(condition, &why, until);
                    match (limit_form().as_str(), until) {
                        ("waits", Some(until)) => {
                            self.terminal.wait_until(until);
                            true
                        }
                        (form @ ("retries" | "reports"), Some(until)) => {
                            if form == "reports" {
                                report_limit(&why, until);
                            }
                            self.retry();
                            true
                        }
                        ("menu", Some(_)) => {
                            self.terminal.dismiss();
                            self.listen()
                        }
                        _ => self.listen(),
                    }
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Asks the model again until it answers, then clears the limit from the screen.
    fn retry(&self) {
        while matches!(ask(&self.messages), Reply::Refused { .. }) {
            pass(RETRY);
        }
        self.terminal.end_of_limit();
    }

    /// Waits for a text of the user; false at the end of the input.
    fn listen(&mut self) -> bool {
        match self.terminal.read() {
            Entry::Text(text) => {
                self.messages.push(json!({"role": "user", "content": text}));
                true
            }
            Entry::End => false,
        }
    }

    fn call(&mut self, call: &Value) {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        let result = match call["function"]["name"].as_str().unwrap() {
            "bash" => self.run(&text("command")),
            "write" => match fs::write(text("path"), text("content")) {
                Ok(()) => "written".to_owned(),
                Err(error) => error.to_string(),
            },
            _ => {
                let options = arguments["options"].as_array().unwrap().iter();
                let options: Vec<_> = options.filter_map(Value::as_str).collect();
                let options: Vec<_> = options.into_iter().map(ToOwned::to_owned).collect();
                self.terminal.choose(&text("question"), &options)
            }
        };
        self.messages
            .push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        self.messages
            .push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
    }

    fn run(&mut self, command: &str) -> String {
        self.terminal.print(&format!("$ {command}"));
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null());
        if self.role == "shares" {
            shell.envs(first_identity());
        }
        let output = shell.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        self.terminal.print(&said);
        said
    }
}

/// Reports a limit as copilot's hook `errorOccurred` does.
fn report_limit(why: &str, until: Timestamp) {
    let now = Timestamp::now();
    let left = until.duration_since(now).as_secs().max(1);
    let said = format!("Rate limit reached: {why}. Please try again in {left}s.");
    let event = json!({
        "hook_event_name": "errorOccurred", "timestamp": now.as_millisecond(), "errorContext": "model_call",
        "error": {"name": "Error", "message": json!({"message": said}).to_string()},
    });
    let hook = Command::new("hd")
        .args(["hook-event", "copilot"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut hook = hook.unwrap();
    let input = hook.stdin.take().unwrap();
    serde_json::to_writer(input, &event).unwrap();
    assert!(hook.wait().unwrap().success());
}

/// Returns the identity of the agent that came first in this home directory, as a shared background process would keep
/// it.
fn first_identity() -> Vec<(String, String)> {
    let file = PathBuf::from(std::env::var("HOME").unwrap()).join("identity.json");
    let own = std::env::vars().filter(|(name, _)| name.starts_with("HD_"));
    let own: Vec<_> = own.collect();
    let fresh = file.with_extension(std::process::id().to_string());
    fs::write(&fresh, serde_json::to_string(&own).unwrap()).unwrap();
    // An existing file stays.
    let _is_there = fs::hard_link(&fresh, &file);
    serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap()
}
