//! `[rigs.forge]` and its gates.

use crate::config::diagnostics::Diagnostic;
use crate::config::document::Node;
use crate::config::reader::Reader;
use crate::config::values::{
    Parsed, branch, choice, command, complain, filled, flag, integer, list, optional,
    some_duration, variable,
};
use crate::domain::city::{ForgePolicy, Gate};
use crate::domain::ids::check_name;
use crate::domain::merge::LandStyle;
use crate::domain::pull_request::PrCommand;
use crate::domain::review_paths::ReviewPaths;

/// `[rigs.forge]`.
pub fn policy(mut reader: Reader<'_>) -> Option<ForgePolicy> {
    let target = reader.get("target", optional(branch));
    let styles: Vec<_> = LandStyle::ALL.iter().map(|it| (it.as_str(), *it)).collect();
    let style = reader.get("style", choice(styles, &[]));
    let gates = gates(&mut reader);
    let push = reader.get("push", flag);
    let rework_attempts = reader.get("rework_attempts", integer(0));
    let gate_env_pass = reader.get("gate_env_pass", list(variable));
    let review_human = reader.get("review", choice(&[("none", false), ("human", true)], &[]));
    let human_review_paths = reader.get("human_review_paths", |node| {
        let patterns = list(review_path)(node)?;
        ReviewPaths::new(patterns).or_else(|error| complain(node, error))
    });
    let pr = reader.get("pr", |node| {
        let words = command(node)?;
        PrCommand::new(words).or_else(|error| complain(node, error))
    });
    reader.finish();
    Some(ForgePolicy {
        target: target?,
        style: style?,
        gates: gates?,
        push: push?,
        rework_attempts: rework_attempts?,
        gate_env_pass: gate_env_pass?,
        review_human: review_human?,
        human_review_paths: human_review_paths?,
        pr: pr?.into_some(),
    })
}

/// Reads a pattern of paths; the place of an error is that of the pattern.
fn review_path(node: &Node) -> Parsed<String> {
    let pattern = filled(node)?;
    match ReviewPaths::new(vec![pattern.clone()]) {
        Ok(_) => Ok(pattern),
        Err(error) => complain(node, error),
    }
}

fn gates(reader: &mut Reader<'_>) -> Option<Vec<Gate>> {
    let mut gates = Vec::new();
    let mut seen = Vec::new();
    for mut gate in reader.sections("gates", "rigs.forge.gates") {
        let name = gate.get("name", |node| {
            let name = filled(node)?;
            check_name("gate name", &name).or_else(|error| complain(node, error.to_string()))?;
            Ok(name)
        });
        let at = gate.place("name");
        if let Some(name) = &name {
            if let Some((_, first)) = seen.iter().find(|(other, _)| other == name) {
                let error = Diagnostic::error(format!("gate \"{name}\" is defined twice"));
                let error = error.at(&at).related(first, "the first one");
                gate.report.add(error);
            }
            seen.push((name.clone(), at));
        }
        let run = gate.get("run", filled);
        let timeout = gate.get("timeout", some_duration);
        let retries = gate.get("retries", integer(0));
        gate.finish();
        let frozen = || {
            Some(Gate {
                name: name?,
                run: run?,
                timeout: timeout?,
                retries: retries?,
            })
        };
        gates.push(frozen());
    }
    gates.into_iter().collect()
}
