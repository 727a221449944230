//! Reads `city.toml` and its includes, and lays them over the built-in defaults.
//!
//! ```text
//!   default.toml ◄── city.toml ◄── first fragment ◄── ... ◄── last fragment
//! ```
//!
//! Later files win; `rigs`, `agents`, `groups` and `patches.agents` concatenate.

use std::fs;
use std::path::{Path, PathBuf};

use super::diagnostics::Diagnostic;
use super::document::{self, Entry, Node, Source, Table, Value};
use super::reader::Report;
use super::{include, patches, values};
use crate::regular;

/// The key of a harness that lists the variables passed to it.
const PASSED: &str = "env_pass";

/// All files together, before defaults are filled in per rig and agent.
#[derive(Debug)]
pub struct Merged {
    /// The built-in defaults, the city's file, its fragments.
    pub sources: Vec<Source>,
    /// The patterns of `include`.
    pub patterns: Vec<String>,
    /// The merged document.
    pub root: Node,
    /// `[defaults]` of the built-in file: the template of each rig, agent, gate and harness.
    pub templates: Table,
}

/// Reads everything. Errors go to the report; the document holds the rest.
pub fn read(defaults: &str, city: &Path, root: &Path, report: &Report) -> Merged {
    let mut reading = Reading {
        sources: vec![Source {
            path: PathBuf::from("default.toml (built in)"),
            text: defaults.to_owned(),
        }],
        documents: Vec::new(),
        patterns: Vec::new(),
        report,
    };
    let base = document::parse(defaults, document::DEFAULTS);
    let mut merged = base.unwrap_or_else(|errors| {
        errors.into_iter().for_each(|error| report.add(error));
        empty()
    });
    let templates = take(&mut merged, "defaults").map(|entry| entry.node.value);
    let no_include = take(&mut merged, "include");
    if let Some(mut city) = reading.file(city, None) {
        let include = take(&mut city, "include").or(no_include);
        reading.documents.push(city);
        match include {
            Some(include) => reading.fragments(&include.node, root),
            None => report.add(Diagnostic::error("missing `include`")),
        }
    }
    for document in reading.documents {
        lay(&mut merged, document);
    }
    Merged {
        sources: reading.sources,
        patterns: reading.patterns,
        root: merged,
        templates: match templates {
            Some(Value::Table(templates)) => templates,
            _ => Table::new(),
        },
    }
}

struct Reading<'a> {
    sources: Vec<Source>,
    documents: Vec<Node>,
    patterns: Vec<String>,
    report: &'a Report,
}

impl Reading<'_> {
    fn file(&mut self, path: &Path, asked_by: Option<&Node>) -> Option<Node> {
        let text = match regular::read_text(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                let complaint = Diagnostic::error(message);
                self.report.add(match asked_by {
                    Some(node) => complaint.at(&node.place),
                    None => complaint,
                });
                return None;
            }
        };
        let index = self.sources.len();
        self.sources.push(Source {
            path: path.to_owned(),
            text,
        });
        match document::parse(&self.sources[index].text, index) {
            Ok(mut document) => {
                one_name_for_agents(&mut document);
                Some(document)
            }
            Err(errors) => {
                errors.into_iter().for_each(|error| self.report.add(error));
                None
            }
        }
    }

    fn fragments(&mut self, patterns: &Node, root: &Path) {
        let Value::Array(items) = &patterns.value else {
            let message = format!("expected an array, found {}", patterns.kind());
            self.report
                .add(Diagnostic::error(message).at(&patterns.place));
            return;
        };
        let city = &self.sources[document::CITY].path;
        let mut seen = vec![fs::canonicalize(city).unwrap_or_else(|_| city.clone())];
        for item in items {
            let found = values::filled(item).and_then(|pattern| {
                let found = include::expand(root, &pattern);
                self.patterns.push(pattern);
                found.or_else(|why| values::complain(item, why))
            });
            let found = found.unwrap_or_else(|errors| {
                errors.into_iter().for_each(|error| self.report.add(error));
                Vec::new()
            });
            for path in found {
                if seen.contains(&path) {
                    continue;
                }
                seen.push(path.clone());
                self.fragment(&path, item);
            }
        }
    }

    fn fragment(&mut self, path: &Path, asked_by: &Node) {
        let Some(mut fragment) = self.file(path, Some(asked_by)) else {
            return;
        };
        if let Some(include) = take(&mut fragment, "include") {
            let error = Diagnostic::error("a fragment cannot include others").at(&include.key);
            self.report
                .add(error.hint("name every fragment in the `include` of city.toml"));
        }
        self.documents.push(fragment);
    }
}

fn empty() -> Node {
    Node {
        place: document::SourceSpan::new(document::DEFAULTS, 0..0),
        value: Value::Table(Table::new()),
    }
}

pub(super) fn take(document: &mut Node, key: &str) -> Option<Entry> {
    document.table_mut().and_then(|table| table.remove(key))
}

/// Renames `[[agent]]`, the seed's spelling, to `[[agents]]`.
fn one_name_for_agents(document: &mut Node) {
    let Some(alias) = take(document, "agent") else {
        return;
    };
    let Some(table) = document.table_mut() else {
        return;
    };
    match table.get_mut("agents") {
        Some(agents) => concatenate(&mut agents.node, alias.node),
        None => {
            table.insert("agents".to_owned(), alias);
        }
    }
}

fn lay(merged: &mut Node, mut document: Node) {
    for key in ["rigs", "agents", "groups"] {
        let Some(above) = take(&mut document, key) else {
            continue;
        };
        let Some(table) = merged.table_mut() else {
            continue;
        };
        match table.get_mut(key) {
            Some(below) => concatenate(&mut below.node, above.node),
            None => {
                table.insert(key.to_owned(), above);
            }
        }
    }
    let patches = take(&mut document, "patches");
    add_to_presets(merged, &mut document);
    document::overlay(merged, document);
    if let (Some(patches), Some(table)) = (patches, merged.table_mut()) {
        match table.get_mut("patches") {
            Some(below) => patches::join(&mut below.node, patches.node),
            None => {
                table.insert("patches".to_owned(), patches);
            }
        }
    }
}

/// Puts the names that a preset passes before those that the document lists for the same harness: a document adds to
/// the preset's names, and replaces only names that an earlier document has added.
fn add_to_presets(merged: &Node, document: &mut Node) {
    fn harnesses(root: &Node) -> Option<&Table> {
        root.table()?.get("harness")?.node.table()
    }
    let Some(presets) = harnesses(merged) else {
        return;
    };
    let own = document
        .table_mut()
        .and_then(|root| root.get_mut("harness"));
    let own = own.and_then(|entry| entry.node.table_mut());
    for (name, entry) in own.into_iter().flatten() {
        let preset = presets.get(name).and_then(|preset| preset.node.table());
        let preset = preset.and_then(|preset| preset.get(PASSED));
        let own = entry.node.table_mut().and_then(|own| own.get_mut(PASSED));
        let (Some(preset), Some(own)) = (preset, own) else {
            continue;
        };
        if let (Value::Array(names), Value::Array(more)) = (&preset.node.value, &mut own.node.value)
        {
            let names = names.iter().filter(|name| name.place.is_default());
            let missing: Vec<Node> = names
                .filter(|name| !more.iter().any(|own| own.value == name.value))
                .cloned()
                .collect();
            more.splice(0..0, missing);
        }
    }
}

/// Appends an array. A value that is no array stays, or replaces, so that reading it reports an error.
pub(super) fn concatenate(below: &mut Node, above: Node) {
    match (&mut below.value, above.value) {
        (Value::Array(items), Value::Array(more)) => items.extend(more),
        (Value::Array(_), value) => {
            *below = Node {
                place: above.place,
                value,
            }
        }
        // The lower value is invalid already and will be reported.
        (_, _) => {}
    }
}
