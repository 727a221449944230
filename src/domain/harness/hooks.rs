//! How harnesses are made to report: for each kind of hooks that a program may have, the files and
//! texts that configure them for one session, and what its events mean.

use serde_json::{Value, json};

use super::fill::{Fill, Place};
use super::{claude, codex, copilot, gemini, opencode, pi};
use crate::domain::condition::Report;

/// Kinds of hooks, by the program that has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// It reports nothing: its screen is all that is known.
    None,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// GitHub Copilot CLI.
    Copilot,
    /// pi.
    Pi,
}

/// Where a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Beside the prompt: outside of the sandbox.
    Task,
    /// In the sandbox, excluded from git; left out where the project has a file of that name.
    Sandbox,
}

/// A file that configures a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFile {
    /// Where it is kept.
    pub home: Home,
    /// Its path there.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
    /// The placeholder that is replaced by its path.
    pub place: Option<Place>,
}

/// What a session's hooks are made from.
pub struct Setting<'a> {
    /// The absolute path of `hd`.
    pub hd: &'a str,
    /// The directory that the session works in.
    pub dir: &'a str,
    /// Whether this variable is in the session's environment.
    pub has: &'a dyn Fn(&str) -> bool,
    /// Whether the user's own settings have a command that tells a key.
    pub own_helper: bool,
}

impl Hooks {
    /// Each with its word in the configuration.
    pub const WORDS: &[(&str, Self)] = &[
        ("", Self::None),
        ("claude", Self::Claude),
        ("codex", Self::Codex),
        ("gemini", Self::Gemini),
        ("opencode", Self::Opencode),
        ("copilot", Self::Copilot),
        ("pi", Self::Pi),
    ];

    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let word = Self::WORDS.iter().find(|(_, kind)| *kind == self);
        word.map_or("", |(word, _)| word)
    }

    /// Returns the kind of this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        let kind = Self::WORDS.iter().find(|(known, _)| *known == word);
        kind.map(|(_, kind)| *kind)
    }

    /// Returns the files of a session, and sets the placeholders that are no paths.
    #[must_use]
    pub fn set_up(self, setting: &Setting<'_>, fill: &mut Fill) -> Vec<HookFile> {
        match self {
            Self::None => Vec::new(),
            Self::Claude => claude::files(setting),
            Self::Codex => codex::set_up(setting, fill),
            Self::Gemini => gemini::files(setting),
            Self::Opencode => opencode::files(setting),
            Self::Copilot => copilot::files(setting),
            Self::Pi => pi::files(setting),
        }
    }

    /// Returns what an event of the program means; none for one that says nothing of its state.
    #[must_use]
    pub fn report(self, event: &Value) -> Option<Report> {
        match self {
            Self::None => None,
            Self::Claude => claude::report(event),
            Self::Codex => codex::report(event),
            Self::Gemini => gemini::report(event),
            Self::Opencode => opencode::report(event),
            Self::Copilot => copilot::report(event),
            Self::Pi => pi::report(event),
        }
    }
}

/// The command that a hook runs: quoted for a shell.
pub(super) fn command(hd: &str, kind: Hooks) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let hd = match hd.chars().all(plain) {
        true => hd.to_owned(),
        false => format!("'{}'", hd.replace('\'', r"'\''")),
    };
    format!("{hd} hook-event {}", kind.as_str())
}

/// JavaScript that defines `tell`, for programs whose extensions run in them: hands events on to `hd` in
/// their order, and keeps nothing waiting.
pub(super) fn telling(hd: &str, kind: Hooks) -> String {
    let (hd, kind) = (json!(hd), json!(kind.as_str()));
    format!(
        r#"import {{ spawn }} from "node:child_process"
let last = Promise.resolve()
const tell = (event) => {{
  last = last.then(() => new Promise((done) => {{
    const child = spawn({hd}, ["hook-event", {kind}], {{ stdio: ["pipe", "ignore", "ignore"] }})
    child.on("error", done)
    child.on("close", done)
    child.stdin.on("error", () => {{}})
    child.stdin.end(JSON.stringify(event))
  }}))
}}"#
    )
}

/// The text at a path of an event.
pub(super) fn text<'a>(event: &'a Value, path: &str) -> Option<&'a str> {
    event
        .pointer(path)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
}

/// The first of several questions, as most programs put them: `question` and `options[].label`.
pub(super) fn question(questions: &Value) -> Option<Report> {
    let first = questions.as_array()?.first()?;
    let label = |option: &Value| {
        let label = text(option, "/label").or(option.as_str());
        label.map(str::to_owned)
    };
    let options = first.get("options").and_then(Value::as_array);
    Some(Report::Asks {
        question: text(first, "/question")?.to_owned(),
        choices: options.into_iter().flatten().filter_map(label).collect(),
    })
}

/// A question whether something may be done; its choices are on the screen.
pub(super) fn permission(what: &str) -> Report {
    Report::Asks {
        question: format!("Allow {what}?"),
        choices: Vec::new(),
    }
}

/// Whether this may be the id of a conversation. It becomes an argument of the next session, and a session
/// may report anything.
#[must_use]
pub fn is_conversation(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=128).contains(&id.len())
        && id.as_bytes()[0].is_ascii_alphanumeric()
        && id.bytes().all(fits)
}

/// A turn that ended: with the answer at this path, or without one.
pub(super) fn turn_ended(event: &Value, answer: &str) -> Report {
    match text(event, answer) {
        Some(_) => Report::Answers,
        None => Report::Waits,
    }
}

/// A conversation that began or goes on.
pub(super) fn started(event: &Value, id: &str) -> Option<Report> {
    Some(Report::Started {
        conversation: text(event, id).filter(|id| is_conversation(id))?.to_owned(),
        transcript: text(event, "/transcript_path").map(str::to_owned),
    })
}
