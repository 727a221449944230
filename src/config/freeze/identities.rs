//! `[identities]`: names of agent identities.

use std::collections::BTreeMap;

use super::harness::Harnesses;
use crate::config::diagnostics::Diagnostic;
use crate::config::document::{Node, SourceSpan};
use crate::config::reader::Reader;
use crate::config::shape::Shape;
use crate::config::values::{Parsed, complain, filled};
use crate::domain::identity::{Identities, Pattern};
use crate::domain::ids::{HarnessName, IdentityName};

/// Reads the names, each with the harness, or the harness and the model, that it stands for.
pub fn all(reader: &mut Reader<'_>, harnesses: &Harnesses) -> Option<Identities> {
    let mut named: BTreeMap<IdentityName, Pattern> = BTreeMap::new();
    let mut places: Vec<(Pattern, SourceSpan)> = Vec::new();
    let mut valid = true;
    for (name, key, node) in reader.named("identities", Shape::Filled) {
        let name = IdentityName::new(name)
            .map_err(|error| vec![Diagnostic::error(error.to_string()).at(key)]);
        let read = name.and_then(|name| Ok((name, pattern(node)?)));
        match read {
            Ok((name, pattern)) => {
                harnesses.find(&pattern.harness, &node.place, reader.report);
                if let Some(other) = harnesses.owner(&name, &pattern.harness) {
                    let message = format!("\"{name}\" is the name of {other}");
                    let error = Diagnostic::error(message).at(key);
                    (reader.report).add(error.hint("give it another name"));
                    valid = false;
                }
                if let Some((_, first)) = places.iter().find(|(other, _)| *other == pattern) {
                    let error = Diagnostic::error("two identities stand for the same")
                        .at(&node.place)
                        .related(first, "the other one");
                    reader.report.add(error);
                    valid = false;
                }
                places.push((pattern.clone(), node.place.clone()));
                named.insert(name, pattern);
            }
            Err(errors) => {
                errors
                    .into_iter()
                    .for_each(|error| reader.report.add(error));
                valid = false;
            }
        }
    }
    valid.then_some(Identities(named))
}

/// Reads `harness` or `harness/model`; a model may end in `*`.
fn pattern(node: &Node) -> Parsed<Pattern> {
    let text = filled(node)?;
    let (harness, model) = match text.split_once('/') {
        Some((harness, model)) => (harness, Some(model)),
        None => (text.as_str(), None),
    };
    let harness = HarnessName::new(harness).or_else(|error| complain(node, error.to_string()))?;
    if let Some(model) = model {
        let stem = model.strip_suffix('*').unwrap_or(model);
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == '*';
        if model.is_empty() || model.len() > 128 || stem.contains(bad) {
            let message = format!("{model:?} is not the name of a model");
            return complain(node, message);
        }
    }
    Ok(Pattern {
        harness,
        model: model.map(str::to_owned),
    })
}
