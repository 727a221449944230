//! Points each program at the scripted model: one file for each known program.

mod aider;
mod amp;
mod claude;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;
mod pi;

use std::collections::BTreeMap;
use std::path::Path;

use crate::domain::city::Harness;

/// The key that every program is given. The model accepts any key.
const KEY: &str = "kit-key";
/// The model name that programs are given where they need one.
const MODEL: &str = "kit-model";

/// The kit's facts about a program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its names: that of its preset, and that of its file where it is another.
    pub names: &'static [&'static str],
    /// Set when its model can run commands. A program without this writes files, and ends afterwards.
    pub runs_commands: bool,
    /// The way to point it at the model, or the reason why that is impossible.
    pub pointing: Pointing,
}

/// The way to point a program at the model.
#[derive(Debug, Clone, Copy)]
pub enum Pointing {
    /// These settings, which stand in for a person's login.
    By(fn(url: &str) -> Pointed),
    /// Impossible, for this reason.
    Impossible(&'static str),
}

/// Settings that point a program at the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pointed {
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Files in its home directory, each with its content; `{city}` is the directory of the city.
    pub files: Vec<(&'static str, String)>,
    /// Variables without which it has no login, and says so at its start.
    pub login: &'static [&'static str],
}

/// The programs of the presets.
const KNOWN: &[Program] = &[
    aider::PROGRAM,
    amp::PROGRAM,
    claude::PROGRAM,
    codex::PROGRAM,
    copilot::PROGRAM,
    cursor::PROGRAM,
    gemini::PROGRAM,
    goose::PROGRAM,
    opencode::PROGRAM,
    pi::PROGRAM,
];

/// A program that the kit does not know: it may use the usual variables.
const OTHER: Program = Program {
    names: &[],
    runs_commands: true,
    pointing: Pointing::By(usual),
};

/// Returns the program of a harness, by the program in its command, or else by the harness's name.
pub fn of(harness: &Harness) -> Program {
    let known = by_name(&program_of(harness)).or_else(|| by_name(harness.name.as_str()));
    known.copied().unwrap_or(OTHER)
}

/// Returns true when the kit knows the program in the command of a harness.
#[must_use]
pub fn runs_known(harness: &Harness) -> bool {
    by_name(&program_of(harness)).is_some()
}

/// Returns the program that a command runs: its first word, or the word after `env` and its variables.
#[must_use]
pub fn program(command: &[String]) -> Option<&str> {
    let mut words = command.iter().map(String::as_str);
    let first = words.next()?;
    if first.rsplit('/').next() != Some("env") {
        return Some(first);
    }
    words.find(|word| !word.contains('=') && !word.starts_with('-'))
}

/// Returns the file name of the program in the command of a harness.
fn program_of(harness: &Harness) -> String {
    let program = program(&harness.command).map(Path::new);
    let program = program.and_then(Path::file_name).unwrap_or_default();
    program.to_string_lossy().into_owned()
}

fn by_name(name: &str) -> Option<&'static Program> {
    KNOWN.iter().find(|known| known.names.contains(&name))
}

impl Program {
    /// Returns true when the kit knows it.
    pub fn is_known(&self) -> bool {
        !self.names.is_empty()
    }
}

impl Pointed {
    fn env<const N: usize>(variables: [(&str, String); N]) -> Self {
        let variables = variables.into_iter();
        Self {
            env: variables
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            files: Vec::new(),
            login: &[],
        }
    }

    fn login(mut self, variables: &'static [&'static str]) -> Self {
        self.login = variables;
        self
    }

    fn file(mut self, path: &'static str, content: String) -> Self {
        self.files.push((path, content));
        self
    }
}

/// The variables that many programs read.
fn usual(url: &str) -> Pointed {
    Pointed::env([
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("ANTHROPIC_API_KEY", KEY.to_owned()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENAI_API_BASE", format!("{url}/v1")),
        ("OPENAI_API_KEY", KEY.to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
        ("GEMINI_API_KEY", KEY.to_owned()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    /// Every preset but the one for any program is known by its name, and leads to the loopback
    /// address where it can be pointed at all.
    #[test]
    fn every_preset_is_known() {
        let temp = crate::testing::scratch();
        let file = temp.path().join(config::FILE);
        std::fs::write(&file, "[workspace]\nname = \"x\"\n").unwrap();
        let loaded = config::load(&file, &config::Env::default());
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        for (name, harness) in &loaded.city.harnesses {
            let program = of(harness);
            assert_eq!(program.is_known(), name.as_str() != "script", "{name}");
            if let Pointing::By(point) = program.pointing {
                let pointed = point("http://127.0.0.1:9");
                let text = format!("{pointed:?}");
                assert!(text.contains("http://127.0.0.1:9"), "{name}");
            }
        }
    }

    #[test]
    fn program_behind_env_is_the_program() {
        let program = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            program(&words).map(ToOwned::to_owned)
        };
        assert_eq!(program(&["pi", "A=b"]).as_deref(), Some("pi"));
        let words = ["/usr/bin/env", "-i", "A=b", "/opt/pi", "x"];
        assert_eq!(program(&words).as_deref(), Some("/opt/pi"));
        assert_eq!(program(&["env", "A=b"]), None);
        assert_eq!(program(&[]), None);
    }

    #[test]
    fn program_is_told_by_its_command_whatever_the_harness_is_called() {
        let temp = crate::testing::scratch();
        let file = temp.path().join(config::FILE);
        let text = "[workspace]\nname = \"x\"\n\
                    [harness.mine]\ncommand = [\"/opt/bin/claude\", \"--x\"]\n\
                    [harness.theirs]\ncommand = [\"cursor-agent\"]\n\
                    [harness.aider]\ncommand = [\"sh\", \"-c\", \"aider\"]\n\
                    [harness.other]\ncommand = [\"sh\", \"-c\", \"work\"]\n";
        std::fs::write(&file, text).unwrap();
        let loaded = config::load(&file, &config::Env::default());
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let name = |harness: &str| {
            let mut all = loaded.city.harnesses.values();
            let harness = all.find(|one| one.name.as_str() == harness).unwrap();
            of(harness).names.first().copied()
        };
        assert_eq!(name("mine"), Some("claude"));
        assert_eq!(name("theirs"), Some("cursor"));
        assert_eq!(name("aider"), Some("aider"));
        assert_eq!(name("other"), None);
    }
}
