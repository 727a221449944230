//! How a harness is launched: its command line with the prompt in it, or what is typed first.

use std::path::Path;

use super::city::{Harness, PromptMode};

/// Stands for the prompt, or for the path of its file, in a command.
pub const PLACEHOLDER: &str = "{prompt}";

/// End of input on a terminal.
const END_OF_INPUT: char = '\u{4}';

/// A command line, and what to type into the terminal once it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// For the prompt modes `stdin` and `paste`.
    pub first_input: Option<String>,
}

/// The launch of a harness with this prompt, which also lies in `prompt_file`.
///
/// `reduced` is asked for after a crash when `respawn_permissions = "reduced"`: the harness's
/// `reduced` arguments then stand in for all arguments of its command; where it has none, the
/// command stays as it is.
#[must_use]
pub fn launch(harness: &Harness, prompt: &str, prompt_file: &Path, reduced: bool) -> Launch {
    let mut argv = harness.command.clone();
    if reduced && !harness.reduced.is_empty() {
        argv.truncate(1);
        argv.extend(harness.reduced.iter().cloned());
    }
    let first_input = match harness.prompt {
        PromptMode::Arg => {
            put_in(&mut argv, prompt);
            None
        }
        PromptMode::File => {
            put_in(&mut argv, &prompt_file.to_string_lossy());
            None
        }
        // Input ends only at the start of a line.
        PromptMode::Stdin => Some(format!("{}\n{END_OF_INPUT}", prompt.trim_end())),
        PromptMode::Paste => Some(prompt.to_owned()),
    };
    Launch { argv, first_input }
}

/// Replaces the placeholder wherever it stands; else the text becomes the last argument.
fn put_in(argv: &mut Vec<String>, text: &str) {
    let mut found = false;
    for arg in argv.iter_mut().skip(1) {
        if arg.contains(PLACEHOLDER) {
            *arg = arg.replace(PLACEHOLDER, text);
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

    use super::*;
    use crate::domain::ids::HarnessName;

    fn harness(command: &[&str], prompt: PromptMode, reduced: &[&str]) -> Harness {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Harness {
            name: HarnessName::new("x").unwrap(),
            command: owned(command),
            prompt,
            reduced: owned(reduced),
            review: String::new(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            needs_input: Vec::new(),
        }
    }

    fn start(harness: &Harness, reduced: bool) -> Launch {
        launch(
            harness,
            "do {prompt} it",
            Path::new("/t/prompt.md"),
            reduced,
        )
    }

    #[test]
    fn an_argument_prompt_replaces_its_placeholder_or_comes_last() {
        let last = harness(&["x", "--yolo"], PromptMode::Arg, &[]);
        assert_eq!(start(&last, false).argv, ["x", "--yolo", "do {prompt} it"]);
        let inner = harness(&["x", "--p={prompt}", "-v"], PromptMode::Arg, &[]);
        assert_eq!(start(&inner, false).argv, ["x", "--p=do {prompt} it", "-v"]);
        assert_eq!(start(&inner, false).first_input, None);
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
        assert_eq!(typed.first_input.as_deref(), Some("do {prompt} it"));
        let stdin = start(&harness(&["x"], PromptMode::Stdin, &[]), false);
        assert_eq!(stdin.first_input.as_deref(), Some("do {prompt} it\n\u{4}"));
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
