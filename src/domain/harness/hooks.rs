//! Hooks, by which harnesses report: for each kind of hooks, the files and texts that configure them for one session,
//! and the meaning of their events.

use serde_json::{Value, json};

use super::fill::{Fill, Placeholder};
use super::{claude, codex, copilot, gemini, opencode, pi};
use crate::domain::condition::Report;

/// Kinds of hooks, by program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// No reports: only the screen is known.
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

/// The place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Beside the prompt, outside the sandbox.
    Task,
    /// In the sandbox, excluded from git; skipped where the project has a file of that name.
    Sandbox,
}

/// A file that configures a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFile {
    /// Its place.
    pub home: Home,
    /// Its path there.
    pub path: &'static str,
    /// Its content.
    pub text: String,
    /// The placeholder that is replaced by its path.
    pub place: Option<Placeholder>,
}

/// The input for a session's hooks.
pub struct Setting<'a> {
    /// The absolute path of `hd`.
    pub hd: &'a str,
    /// The directory that the session works in.
    pub dir: &'a str,
    /// Returns true when this variable is in the session's environment.
    pub has: &'a dyn Fn(&str) -> bool,
    /// Set when the user's own settings have a command that prints a key.
    pub own_helper: bool,
}

impl Hooks {
    /// Each kind with its word in the configuration.
    pub const WORDS: &[(&str, Self)] = &[
        ("", Self::None),
        ("claude", Self::Claude),
        ("codex", Self::Codex),
        ("gemini", Self::Gemini),
        ("opencode", Self::Opencode),
        ("copilot", Self::Copilot),
        ("pi", Self::Pi),
    ];

    /// Returns its word.
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

    /// Returns the meaning of an event of the program; none for an event that says nothing about its state.
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

/// Returns the command of a hook, quoted for a shell.
pub(super) fn command(hd: &str, kind: Hooks) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let hd = match hd.chars().all(plain) {
        true => hd.to_owned(),
        false => format!("'{}'", hd.replace('\'', r"'\''")),
    };
    format!("{hd} hook-event {}", kind.as_str())
}

/// Returns JavaScript that defines `tell`, for programs whose extensions run inside them: it passes events on to `hd`
/// in order, and never blocks.
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

/// Returns the text at a path of an event.
pub(super) fn text<'a>(event: &'a Value, path: &str) -> Option<&'a str> {
    event
        .pointer(path)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
}

/// Reads the first of several questions in the usual form: `question` and `options[].label`.
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

/// Returns a request for permission; its choices are on the screen.
pub(super) fn permission(what: &str) -> Report {
    Report::Asks {
        question: format!("Allow {what}?"),
        choices: Vec::new(),
    }
}

/// Returns true when this may be the id of a conversation. It becomes an argument of the next session, and a session
/// may report anything.
#[must_use]
pub fn is_conversation(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=128).contains(&id.len())
        && id.as_bytes()[0].is_ascii_alphanumeric()
        && id.bytes().all(fits)
}

/// Reads the end of a turn: with the answer at this path, or without one.
pub(super) fn turn_ended(event: &Value, answer: &str) -> Report {
    match text(event, answer) {
        Some(_) => Report::Answers,
        None => Report::Waits,
    }
}

/// Reads the start or continuation of a conversation.
pub(super) fn started(event: &Value, id: &str) -> Option<Report> {
    Some(Report::Started {
        conversation: text(event, id).filter(|id| is_conversation(id))?.to_owned(),
        transcript: text(event, "/transcript_path").map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The supervisor learns of a compaction in time only from the hook that comes before it.
    #[test]
    fn compaction_is_reported_by_the_hook_before_it() {
        let setting = Setting {
            hd: "/x/hd",
            dir: "/s",
            has: &|_| false,
            own_helper: false,
        };
        for (hooks, key, name) in [
            (Hooks::Claude, "hook_event_name", "PreCompact"),
            (Hooks::Codex, "hook_event_name", "PreCompact"),
            (Hooks::Copilot, "hook_event_name", "preCompact"),
            (Hooks::Pi, "type", "session_before_compact"),
        ] {
            let kind = hooks.as_str();
            assert_eq!(
                hooks.report(&json!({ key: name })),
                Some(Report::Compacts),
                "{kind}"
            );
            let mut fill = Fill::default();
            let files = hooks.set_up(&setting, &mut fill).into_iter();
            let mut configured: Vec<_> = files.map(|file| file.text).collect();
            configured.extend(fill.put_in_all(&["{hooks}".to_owned()]));
            let is_asked_for = configured.iter().any(|text| text.contains(name));
            assert!(is_asked_for, "{kind}: {configured:?}");
        }
    }
}
