//! `[harness.<name>]`: presets and the user's own.

use std::collections::BTreeMap;

use crate::config::diagnostics::Diagnostic;
use crate::config::document::{Node, SourceSpan};
use crate::config::reader::{Reader, Report};
use crate::config::shape::Shape;
use crate::config::values::{choice, environment, filled, flag, list, pattern, text, variable};
use crate::domain::city::{Harness, PromptMode};
use crate::domain::condition::Patterns;
use crate::domain::harness::hooks::Hooks;
use crate::domain::identity::UNKNOWN;
use crate::domain::ids::{HarnessName, IdentityName};
use crate::domain::suggest::closest;
use crate::domain::usage::price::Prices;

use super::{Context, cost};

/// Every named harness, including those that could not be read: naming one of these is no second error.
#[derive(Debug, Default)]
pub struct Harnesses {
    frozen: BTreeMap<HarnessName, Option<Harness>>,
}

impl Harnesses {
    /// Returns the harnesses that could be read.
    pub fn into_frozen(self) -> BTreeMap<HarnessName, Harness> {
        let frozen = self.frozen.into_iter();
        frozen
            .filter_map(|(name, harness)| Some((name, harness?)))
            .collect()
    }

    /// Returns what has the name of an identity already, unless it is this harness itself: the work of another one would be
    /// in the same record.
    pub fn owner(&self, name: &IdentityName, of: &HarnessName) -> Option<String> {
        let first = name.as_str().split('/').next().unwrap_or_default();
        if name.as_str() == UNKNOWN {
            return Some("work of which the harness is not known".to_owned());
        }
        let mut others = self.frozen.keys().filter(|harness| *harness != of);
        let other = others.find(|harness| harness.as_str() == first)?;
        Some(format!("work of the harness {other}"))
    }

    /// Returns the harness that a rig or an agent names; complains when it is missing or cannot run.
    pub fn find(&self, name: &HarnessName, at: &SourceSpan, report: &Report) -> Option<&Harness> {
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
pub fn all(reader: &mut Reader<'_>, context: &Context<'_>) -> Harnesses {
    let mut harnesses = Harnesses::default();
    for (name, key, node) in reader.named("harness", Shape::Table("harness")) {
        match HarnessName::new(name) {
            Ok(name) => {
                let harness = one(&name, node, context, reader.report);
                harnesses.frozen.insert(name, harness);
            }
            Err(error) => reader
                .report
                .add(Diagnostic::error(error.to_string()).at(key)),
        }
    }
    harnesses
}

fn one(name: &HarnessName, node: &Node, context: &Context<'_>, report: &Report) -> Option<Harness> {
    let mut reader = Reader::open("harness", node, report)?;
    let command = reader.get("command", |node| context.program(node));
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
    let process_names = reader.get("process_names", list(filled));
    let reduced = reader.get("reduced", list(text));
    let reduced_asks = reader.get("reduced_asks", flag);
    let resume = reader.get("resume", list(text));
    let account = reader.get("account", text);
    let limit_answer = reader.get("limit_answer", text);
    let hooks = reader.get("hooks", choice(Hooks::WORDS, &[]));
    let done_on_exit = reader.get("done_on_exit", flag);
    let exclude = reader.get("exclude", list(filled));
    let review = reader.get("review", text);
    let env = reader.get("env", environment);
    let env_pass = reader.get("env_pass", list(variable));
    let patterns = patterns(&mut reader);
    let prices = prices(&mut reader);
    let budget = cost::budget(&mut reader);
    reader.finish();
    Some(Harness {
        name: name.clone(),
        command: command?,
        prompt: prompt?,
        process_names: process_names?,
        reduced: reduced?,
        reduced_asks: reduced_asks?,
        resume: resume?,
        account: Some(account?)
            .filter(|account| !account.is_empty())
            .unwrap_or_else(|| name.to_string()),
        limit_answer: limit_answer?,
        hooks: hooks?,
        done_on_exit: done_on_exit?,
        exclude: exclude?,
        review: review?,
        env: env?,
        env_pass: env_pass?,
        patterns: patterns?,
        prices,
        budget: budget?,
    })
}

/// Reads `prices`, by the name of the model. An invalid price is reported and left out.
fn prices(reader: &mut Reader<'_>) -> Prices {
    let report = reader.report;
    let priced = reader.named("prices", Shape::Table("prices")).into_iter();
    let priced =
        priced.filter_map(|(model, _, node)| Some((model.to_owned(), cost::price(node, report)?)));
    Prices(priced.collect())
}

/// Reads the patterns for its screens.
fn patterns(reader: &mut Reader<'_>) -> Option<Patterns> {
    let mut patterns = |key| reader.get(key, list(pattern));
    let asks = patterns("needs_input_patterns");
    let input = patterns("input_patterns");
    let working = patterns("working_patterns");
    let limit = patterns("rate_limit_patterns");
    let auth = patterns("auth_patterns");
    Some(Patterns {
        asks: asks?,
        input: input?,
        working: working?,
        limit: limit?,
        auth: auth?,
    })
}
