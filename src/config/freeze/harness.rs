//! `[harness.<name>]`: presets and the user's own.

use std::collections::BTreeMap;

use crate::config::diagnostics::Diagnostic;
use crate::config::document::{Node, Place};
use crate::config::reader::{Reader, Report};
use crate::config::values::{choice, command, environment, list, pattern, text, variable};
use crate::domain::city::{Harness, PromptMode};
use crate::domain::ids::HarnessName;
use crate::domain::suggest::closest;

/// Every harness that was named, also those that could not be read: using one of these is no
/// second error.
#[derive(Debug, Default)]
pub struct Harnesses {
    frozen: BTreeMap<HarnessName, Option<Harness>>,
}

impl Harnesses {
    /// Those that could be read.
    pub fn into_frozen(self) -> BTreeMap<HarnessName, Harness> {
        let frozen = self.frozen.into_iter();
        frozen
            .filter_map(|(name, harness)| Some((name, harness?)))
            .collect()
    }

    /// The harness that a rig or an agent names; complains when there is none or when it cannot
    /// run.
    pub fn find(&self, name: &HarnessName, at: &Place, report: &Report) -> Option<&Harness> {
        let Some(known) = self.frozen.get(name) else {
            let names = || self.frozen.keys().map(HarnessName::as_str);
            let hint = match closest(name.as_str(), names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => {
                    let names: Vec<&str> = names().collect();
                    format!("there are {}; or add [harness.{name}]", names.join(", "))
                }
            };
            let error = Diagnostic::error(format!("there is no harness \"{name}\""));
            report.add(error.at(at).hint(hint));
            return None;
        };
        let known = known.as_ref()?;
        if known.command.is_empty() {
            let error = Diagnostic::error(format!("harness \"{name}\" has no command"));
            let hint = format!("add [harness.{name}] command = [\"program\", \"argument\"]");
            report.add(error.at(at).hint(hint));
        }
        Some(known)
    }
}

/// `[harness]`.
pub fn all(reader: &mut Reader<'_>) -> Harnesses {
    let mut harnesses = Harnesses::default();
    for (name, key, node) in reader.named("harness") {
        match HarnessName::new(name) {
            Ok(name) => {
                let harness = one(&name, node, reader.report);
                harnesses.frozen.insert(name, harness);
            }
            Err(error) => reader
                .report
                .add(Diagnostic::error(error.to_string()).at(key)),
        }
    }
    harnesses
}

fn one(name: &HarnessName, node: &Node, report: &Report) -> Option<Harness> {
    let mut reader = Reader::open("harness", node, report)?;
    let command = reader.get("command", command);
    let prompt = reader.get(
        "prompt",
        choice(
            &[
                ("arg", PromptMode::Arg),
                ("stdin", PromptMode::Stdin),
                ("file", PromptMode::File),
                ("paste", PromptMode::Paste),
            ],
            &[],
        ),
    );
    let reduced = reader.get("reduced", list(text));
    let review = reader.get("review", text);
    let env = reader.get("env", environment);
    let env_pass = reader.get("env_pass", list(variable));
    let needs_input = reader.get("needs_input_patterns", list(pattern));
    reader.finish();
    Some(Harness {
        name: name.clone(),
        command: command?,
        prompt: prompt?,
        reduced: reduced?,
        review: review?,
        env: env?,
        env_pass: env_pass?,
        needs_input: needs_input?,
    })
}
