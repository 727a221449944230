//! Harnesses: the launch of a coding agent ([`launch`]), the values in its command line ([`fill`]), and its reports of
//! state ([`hooks`], a file per program).

mod claude;
mod codex;
mod copilot;
pub mod fill;
mod gemini;
pub mod hooks;
mod lines;
mod opencode;
mod pi;

use std::path::Path;

use self::fill::{Fill, PROMPT, RESUME};
use super::city::{Harness, PromptMode};

pub use self::lines::{LONGEST_LINE, in_short_lines};

/// End of input on a terminal.
pub const END_OF_INPUT: char = '\u{4}';

/// A command line, and the text to type into the terminal once it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The prompt, for the prompt modes `paste` and `stdin`: typed once the program waits for text; for `stdin` with
    /// the end of input after it.
    pub first_prompt: Option<String>,
}

/// The input of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Values of the placeholders.
    pub fill: &'a Fill,
    /// The prompt.
    pub prompt: &'a str,
    /// The file that holds the prompt.
    pub prompt_file: &'a Path,
    /// Set after a crash, when `respawn_permissions = "reduced"`: the harness's `reduced` arguments replace all
    /// arguments of its command; without any, the command stays as it is.
    pub reduced: bool,
    /// Set when the conversation of the previous session continues: the `resume` arguments come first.
    pub resumes: bool,
}

/// Returns the launch of a harness.
#[must_use]
pub fn launch(harness: &Harness, start: &Start<'_>) -> Launch {
    let mut argv: Vec<String> = harness.command.iter().take(1).cloned().collect();
    match start.reduced && !harness.reduced.is_empty() {
        true => argv.extend(harness.reduced.iter().cloned()),
        false => argv.extend(harness.command.iter().skip(1).cloned()),
    }
    put_in_resume(&mut argv, &harness.resume, start.resumes);
    let mut argv = start.fill.put_in_all(&argv);
    let first_prompt = match harness.prompt {
        PromptMode::Arg => {
            put_in(&mut argv, start.prompt);
            None
        }
        PromptMode::File => {
            put_in(&mut argv, &start.prompt_file.to_string_lossy());
            None
        }
        // Input ends only at the start of a line.
        PromptMode::Stdin => Some(format!("{}\n{END_OF_INPUT}", start.prompt.trim_end())),
        PromptMode::Paste => Some(start.prompt.to_owned()),
    };
    Launch { argv, first_prompt }
}

/// Puts the `resume` arguments in their place, or after the program.
fn put_in_resume(argv: &mut Vec<String>, resume: &[String], resumes: bool) {
    let at = argv.iter().position(|arg| arg == RESUME);
    let args = resume.iter().filter(|_| resumes).cloned();
    match at {
        Some(at) => drop(argv.splice(at..=at, args)),
        None if argv.is_empty() => {}
        None => drop(argv.splice(1..1, args)),
    }
}

/// Replaces the placeholder in all arguments; without any, the text becomes the last argument.
fn put_in(argv: &mut Vec<String>, text: &str) {
    let mut found = false;
    for arg in argv.iter_mut().skip(1) {
        if arg.contains(PROMPT) {
            *arg = arg.replace(PROMPT, text);
            found = true;
        }
    }
    if !found {
        argv.push(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::fill::Placeholder;
    use super::hooks::Hooks;
    use super::*;
    use crate::domain::condition::Patterns;
    use crate::domain::ids::HarnessName;

    fn harness(command: &[&str], prompt: PromptMode, reduced: &[&str]) -> Harness {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Harness {
            name: HarnessName::new("x").unwrap(),
            command: owned(command),
            prompt,
            process_names: Vec::new(),
            reduced: owned(reduced),
            resume: owned(&["--resume", "{session_id}"]),
            account: "x".into(),
            limit_answer: String::new(),
            hooks: Hooks::None,
            done_on_exit: false,
            reduced_asks: false,
            exclude: Vec::new(),
            review: String::new(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            patterns: Patterns::default(),
            prices: crate::domain::usage::price::Prices::default(),
            budget: None,
        }
    }

    fn start(harness: &Harness, reduced: bool) -> Launch {
        let mut fill = Fill::default();
        fill.set(Placeholder::SessionId, "id");
        launch(
            harness,
            &Start {
                fill: &fill,
                prompt: "do {prompt} it",
                prompt_file: Path::new("/t/prompt.md"),
                reduced,
                resumes: false,
            },
        )
    }

    #[test]
    fn resumed_conversation_comes_first_with_full_and_with_reduced_permissions() {
        let harness = harness(
            &["x", "--all", "{prompt}"],
            PromptMode::Arg,
            &["--some", "{prompt}"],
        );
        let mut fill = Fill::default();
        fill.set(Placeholder::SessionId, "id");
        let argv = |reduced| {
            let start = Start {
                fill: &fill,
                prompt: "p",
                prompt_file: Path::new("/t"),
                reduced,
                resumes: true,
            };
            launch(&harness, &start).argv
        };
        assert_eq!(argv(false), ["x", "--resume", "id", "--all", "p"]);
        assert_eq!(argv(true), ["x", "--resume", "id", "--some", "p"]);
        let placed = Harness {
            command: ["env", "A=1", "x", "{resume}", "{prompt}"]
                .map(str::to_owned)
                .into(),
            ..harness.clone()
        };
        let argv = |resumes| {
            let start = Start {
                fill: &fill,
                prompt: "p",
                prompt_file: Path::new("/t"),
                reduced: false,
                resumes,
            };
            launch(&placed, &start).argv
        };
        assert_eq!(argv(true), ["env", "A=1", "x", "--resume", "id", "p"]);
        assert_eq!(argv(false), ["env", "A=1", "x", "p"]);
    }

    #[test]
    fn an_argument_prompt_replaces_its_placeholder_or_comes_last() {
        let last = harness(&["x", "--yolo"], PromptMode::Arg, &[]);
        assert_eq!(start(&last, false).argv, ["x", "--yolo", "do {prompt} it"]);
        let inner = harness(&["x", "--p={prompt}", "-v"], PromptMode::Arg, &[]);
        assert_eq!(start(&inner, false).argv, ["x", "--p=do {prompt} it", "-v"]);
        assert_eq!(start(&inner, false).first_prompt, None);
    }

    #[test]
    fn a_file_prompt_gives_the_path() {
        let last = harness(&["x"], PromptMode::File, &[]);
        assert_eq!(start(&last, false).argv, ["x", "/t/prompt.md"]);
        let inner = harness(&["x", "-f", "{prompt}", "y"], PromptMode::File, &[]);
        assert_eq!(start(&inner, false).argv, ["x", "-f", "/t/prompt.md", "y"]);
    }

    #[test]
    fn typed_prompts_leave_the_command_alone_and_stdin_ends_its_input() {
        let paste = harness(&["x", "{prompt}"], PromptMode::Paste, &[]);
        let typed = start(&paste, false);
        assert_eq!(typed.argv, ["x", "{prompt}"]);
        assert_eq!(typed.first_prompt.as_deref(), Some("do {prompt} it"));
        let stdin = start(&harness(&["x"], PromptMode::Stdin, &[]), false);
        assert_eq!(stdin.first_prompt.as_deref(), Some("do {prompt} it\n\u{4}"));
    }

    #[test]
    fn reduced_arguments_stand_in_for_all_arguments_after_a_crash_only() {
        let claude = harness(&["x", "--all"], PromptMode::Arg, &["--mode", "edits"]);
        let prompt = "do {prompt} it";
        assert_eq!(start(&claude, false).argv, ["x", "--all", prompt]);
        assert_eq!(start(&claude, true).argv, ["x", "--mode", "edits", prompt]);
        let none = harness(&["x", "--all"], PromptMode::Arg, &[]);
        assert_eq!(start(&none, true).argv, ["x", "--all", prompt]);
    }
}
