//! The questions that a program would ask at its start in a fresh sandbox, as its harness is configured, and the place
//! of each answer. The presets answer most of them by arguments and environment.

use std::path::PathBuf;

use serde_json::json;

use super::Start;
use super::programs::{CLAUDE, CLAUDE_STATE, COPILOT, GEMINI, ProgramFacts};
use crate::domain::jsonc::{Edit, Put};

/// A question that a program asks at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The subject of the question.
    pub what: String,
    /// The way to answer it.
    pub answer: Answer,
}

/// The place of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The user's settings of that program. The question is only asked until the answer is there.
    Setting {
        /// The file.
        file: PathBuf,
        /// The change.
        edit: Edit,
    },
    /// The configuration of the harness.
    Config(String),
}

/// Returns all questions that the program would ask and that its arguments and environment do not answer.
#[must_use]
pub fn asks(known: &ProgramFacts, start: &Start<'_>) -> Vec<Ask> {
    match known.program {
        "claude" => claude(start),
        "codex" => codex(start),
        "gemini" => gemini(start),
        "copilot" => copilot(start),
        // The others ask for a login only.
        _ => Vec::new(),
    }
}

fn setting(what: impl Into<String>, file: PathBuf, path: &[&str], put: Put) -> Ask {
    let path = path.iter().map(|key| (*key).to_owned()).collect();
    Ask {
        what: what.into(),
        answer: Answer::Setting {
            file,
            edit: Edit { path, put },
        },
    }
}

fn config(what: &str, how: &str) -> Ask {
    Ask {
        what: what.to_owned(),
        answer: Answer::Config(how.to_owned()),
    }
}

/// Tested with 2.1.197: IS_DEMO answers onboarding and the consent to the full mode, CLAUDE_CODE_SANDBOXED the trust of
/// the directory; trust of a directory covers those below it.
fn claude(start: &Start<'_>) -> Vec<Ask> {
    let mut asks = Vec::new();
    let state = || CLAUDE_STATE.file(start, ".claude.json");
    let yes = || Put::Set(json!(true));
    let demo = start.has("IS_DEMO");
    if !demo {
        let key = ["hasCompletedOnboarding"];
        asks.push(setting("onboarding", state(), &key, yes()));
    }
    if !start.has("CLAUDE_CODE_SANDBOXED") {
        for dir in start.dirs {
            let text = dir.to_string_lossy();
            let what = format!("trust of {text}");
            let key = ["projects", &text, "hasTrustDialogAccepted"];
            asks.push(setting(what, state(), &key, yes()));
        }
    }
    let words = &start.harness.command;
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if is_full_claude(words) && !demo && !has("{hooks}") {
        let file = CLAUDE.file(start, "settings.json");
        let key = ["skipDangerousModePermissionPrompt"];
        asks.push(setting("consent to the full mode", file, &key, yes()));
    }
    if start.has("ANTHROPIC_API_KEY") && !has("{hooks}") {
        let how = "put `--settings {hooks}` into its `command`: without it the key waits for a confirmation";
        asks.push(config("use of ANTHROPIC_API_KEY", how));
    }
    asks
}

/// Returns true when claude is started in the mode that it refuses to root.
fn is_full_claude(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| word == "--dangerously-skip-permissions" || word.ends_with("bypassPermissions"))
}

/// Tested with 0.169: trust is asked for each directory, and trust of a parent directory does not count.
fn codex(start: &Start<'_>) -> Vec<Ask> {
    let trusts = |words: &[String]| words.iter().any(|word| word.starts_with("projects="));
    let harness = start.harness;
    let reduced = harness.reduced.is_empty() || trusts(&harness.reduced);
    if trusts(&harness.command) && reduced {
        return Vec::new();
    }
    let how = r#"put `"-c", 'projects={"{sandbox}"={trust_level="trusted"}}'` into its `command` and `reduced`"#;
    vec![config("trust of each sandbox", how)]
}

/// Tested with 0.61: a key in the environment is used when the workspace's settings say so, and the supervisor provides
/// them only where the project has none.
fn gemini(start: &Start<'_>) -> Vec<Ask> {
    let mut asks = Vec::new();
    let trusts = start.has("GEMINI_CLI_TRUST_WORKSPACE");
    if !trusts
        && !start
            .harness
            .command
            .iter()
            .any(|word| word == "--skip-trust")
    {
        let how = "put `GEMINI_CLI_TRUST_WORKSPACE = \"true\"` into its `env`";
        asks.push(config("trust of each sandbox", how));
    }
    if start.has("GEMINI_API_KEY") && (start.project_has)(".gemini/settings.json") {
        let file = GEMINI.file(start, "settings.json");
        let key = ["security", "auth", "selectedType"];
        let put = Put::Default(json!("gemini-api-key"));
        asks.push(setting("how to log in", file, &key, put));
    }
    asks
}

/// Tested with 1.0.102: COPILOT_ALLOW_ALL trusts every directory; a trusted folder covers those below it.
fn copilot(start: &Start<'_>) -> Vec<Ask> {
    let allows = |words: &[String]| {
        let mut words = words.iter();
        words.any(|word| word.starts_with("COPILOT_ALLOW_ALL="))
    };
    let harness = start.harness;
    let reduced = harness.reduced.is_empty() || allows(&harness.reduced);
    if start.has("COPILOT_ALLOW_ALL") || (allows(&harness.command) && reduced) {
        return Vec::new();
    }
    let when = match allows(&harness.command) {
        true => ", asked after a crash",
        false => "",
    };
    let ask = |dir: &PathBuf| {
        let dir = dir.to_string_lossy();
        let file = COPILOT.file(start, "config.json");
        let put = Put::Add(json!(dir));
        setting(
            format!("trust of {dir}{when}"),
            file,
            &["trustedFolders"],
            put,
        )
    };
    start.dirs.iter().map(ask).collect()
}

/// Returns true when the program would refuse to start as root.
pub(super) fn refuses_root(known: &ProgramFacts, start: &Start<'_>) -> bool {
    known.program == "claude"
        && start.root
        && is_full_claude(&start.harness.command)
        && start.value("IS_SANDBOX") != Some("1")
}
