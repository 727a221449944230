//! The error of a verb: the exit code, what happened, and what to do about it.

use std::fmt::Display;
use std::io;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::json;

use crate::control::protocol::{ControlError, Exit};
use crate::domain::shown;

/// The end of a verb that failed.
#[derive(Debug)]
pub(super) struct CliError {
    pub exit: Exit,
    /// The message; empty when standard output is closed and nothing is to be reported.
    pub message: String,
    pub hint: Option<String>,
    /// The supervisor's own answer, for `--json`.
    answer: Option<ControlError>,
}

impl CliError {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            answer: None,
        }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The end of a verb whose standard output was closed by its reader, such as `head`.
    pub fn closed_pipe() -> Self {
        Self::new(Exit::Ok, "")
    }

    /// Returns an error of the parser: its first paragraph is the message, and the others are the hint.
    pub fn of_parser(wrong: &clap::Error) -> Self {
        if wrong.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::usage("a verb is missing").hint("`--help` lists the verbs");
        }
        let text = wrong.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
        let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
        let error = Self::usage(message.trim());
        match rest.trim() {
            "" => error,
            rest => error.hint(rest),
        }
    }

    /// Returns the error of the parser without its suggestion for a verb of a single letter, which is like every other.
    pub fn suggesting(mut wrong: clap::Error) -> clap::Error {
        let verb = wrong.get(ContextKind::InvalidSubcommand);
        if matches!(verb, Some(ContextValue::String(verb)) if verb.chars().count() == 1) {
            let _dropped = wrong.remove(ContextKind::SuggestedSubcommand);
        }
        wrong
    }

    /// Prints the error on standard error.
    pub fn report(&self, as_json: bool) {
        if self.message.is_empty() {
            return;
        }
        if as_json {
            let mut error = match &self.answer {
                Some(answer) => json!(answer),
                None => json!({"kind": kind(self.exit), "hint": null}),
            };
            // `hd` may have added to the answer.
            error["message"] = json!(self.message);
            if let Some(hint) = &self.hint {
                error["hint"] = json!(hint);
            }
            let line = json!({"error": error, "exit": self.exit.code()}).to_string();
            eprintln!("{}", shown::json(&line));
            return;
        }
        // The message may hold names of files and output of git and gates.
        eprintln!("error: {}", shown::output(&self.message));
        if let Some(hint) = &self.hint {
            eprintln!("hint: {}", shown::output(hint));
        }
    }
}

/// Returns the kind of an error that `hd` found itself. A word of the protocol where it has one.
fn kind(exit: Exit) -> &'static str {
    match exit {
        Exit::Ok | Exit::Failed => "failed",
        Exit::Usage => "bad_request",
        Exit::Unreachable => "unavailable",
        Exit::NotFound => "not_found",
        Exit::Refused => "refused",
        Exit::TimedOut => "timeout",
        Exit::NeedsHuman => "needs_human",
        Exit::MergeFailed => "merge_failed",
        Exit::Parked => "parked",
        Exit::Version => "version",
    }
}

impl From<ControlError> for CliError {
    fn from(error: ControlError) -> Self {
        Self {
            exit: error.kind.exit(),
            message: error.message.clone(),
            hint: error.hint.clone(),
            answer: Some(error),
        }
    }
}

/// Adds the failed action to an error of the system.
pub(super) trait Doing<T> {
    fn doing(self, what: impl Display) -> Result<T, CliError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl Display) -> Result<T, CliError> {
        self.map_err(|error| CliError::failed(format!("{what}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn verb_of_a_single_letter_is_like_no_other() {
        let told = |verb: &str| {
            let wrong = Cli::try_parse_from(["hd", verb]).unwrap_err();
            CliError::suggesting(wrong).to_string()
        };
        assert!(!told("s").contains("similar"), "{}", told("s"));
        assert!(told("statsu").contains("'status'"), "{}", told("statsu"));
    }

    #[test]
    fn wrong_number_is_told_in_words() {
        let refused = |words: &str| {
            let words = words.split(' ');
            Cli::try_parse_from(words).unwrap_err().to_string()
        };
        for (words, expected) in [
            ("hd events --since x", "expected a whole number, 0 or more"),
            ("hd drums ack x", "expected a whole number, 0 or more"),
            ("hd drums read x", "expected a whole number, 0 or more"),
            (
                "hd logs Toast --bytes 1.5",
                "expected a whole number, 0 or more",
            ),
            (
                "hd relic list --limit 0",
                "expected a whole number, 1 or more",
            ),
            (
                "hd relic create a --priority high",
                "expected a whole number, such as",
            ),
            (
                "hd demo --raiders 99",
                "expected a whole number from 1 to 12",
            ),
            (
                "hd harness test x --limit 5",
                "expected numbers, each with a unit",
            ),
            ("hd relic list --status foo", "expected one of `open`,"),
        ] {
            let told = refused(words);
            assert!(told.contains(&format!(": {expected}")), "{told}");
        }
    }
}
