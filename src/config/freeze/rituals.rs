//! Rituals: `rituals/<name>.toml` beside `city.toml`, and the built-in ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Files;
use super::automations::cannot_read;
use crate::config::diagnostics::Diagnostic;
use crate::config::document::{self, Node, Source, SourceSpan, Table, Value};
use crate::config::reader::{Reader, Report};
use crate::config::shape::Shape;
use crate::config::templates;
use crate::config::values::{Parsed, complain, filled, flag, list, name, text};
use crate::domain::ids::{RitualName, StepName};
use crate::domain::ritual::{
    self, BODY_MAX, GIVEN, Ritual, RitualStep, STEPS_MAX, TITLE_MAX, VALUE_MAX,
};
use crate::domain::suggest::closest;
use crate::regular;

/// The folder of rituals, below the city's.
const FOLDER: &str = "rituals";

/// The built-in rituals.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "conflict-resolution",
        include_str!("../../../config/rituals/conflict-resolution.toml"),
    ),
    (
        "review",
        include_str!("../../../config/rituals/review.toml"),
    ),
    (
        "witness-patrol",
        include_str!("../../../config/rituals/witness-patrol.toml"),
    ),
    ("work", include_str!("../../../config/rituals/work.toml")),
];

/// Returns every ritual: those of the city, and the built-in ones that it does not override.
pub fn all(root: &Path, files: &mut Files<'_>, report: &Report) -> BTreeMap<RitualName, Ritual> {
    let mut rituals = BTreeMap::new();
    for (name, text) in BUILT_IN {
        // Their places are never shown: a test holds that they are valid.
        let node = document::parse(text, document::DEFAULTS);
        let node = node.map_err(|errors| add_all(report, errors)).ok();
        if let (Ok(name), Some(node)) = (RitualName::new(*name), node) {
            rituals.extend(one(&name, None, node, files.templates, report));
        }
    }
    files.patterns.push(format!("{FOLDER}/*.toml"));
    for (name, path) in found(&root.join(FOLDER), report) {
        let Some(node) = open(&path, files.sources, report) else {
            continue;
        };
        rituals.extend(one(&name, Some(path), node, files.templates, report));
    }
    rituals
}

fn add_all(report: &Report, errors: Vec<Diagnostic>) {
    errors.into_iter().for_each(|error| report.add(error));
}

/// Returns the files of rituals, by name. Files with another ending are something else.
fn found(folder: &Path, report: &Report) -> Vec<(RitualName, PathBuf)> {
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            report.add(cannot_read(folder, &error));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if is_hidden || path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        match RitualName::new(path.file_stem().unwrap_or_default().to_string_lossy()) {
            Ok(name) => found.push((name, path)),
            Err(error) => report.add(Diagnostic::error(format!("{}: {error}", path.display()))),
        }
    }
    found.sort();
    found
}

fn open(path: &Path, sources: &mut Vec<Source>, report: &Report) -> Option<Node> {
    let text = regular::read_text(path)
        .map_err(|error| report.add(cannot_read(path, &error)))
        .ok()?;
    let index = sources.len();
    let parsed = document::parse(&text, index);
    sources.push(Source {
        path: path.to_owned(),
        text,
    });
    parsed.map_err(|errors| add_all(report, errors)).ok()
}

fn one(
    name: &RitualName,
    file: Option<PathBuf>,
    mut node: Node,
    templates: &Table,
    report: &Report,
) -> Option<(RitualName, Ritual)> {
    templates::lay_over(templates.get("rituals"), &mut node);
    let steps = node
        .table_mut()
        .and_then(|table| table.get_mut("steps"))
        .map(|entry| &mut entry.node.value);
    if let Some(Value::Array(items)) = steps {
        for item in items {
            templates::lay_over(templates.get("steps"), item);
        }
    }
    let mut reader = Reader::open("ritual", &node, report)?;
    let description = reader.get("description", text);
    let vars = vars(&mut reader);
    let given = node.table().and_then(|table| table.get("steps"));
    if given.is_some_and(|steps| steps.node.value == Value::Array(Vec::new())) {
        reader.complain("steps", "a ritual has at least one step");
    }
    let steps = steps_of(&mut reader, &vars);
    reader.finish();
    let ritual = Ritual {
        name: name.clone(),
        description: description?,
        file,
        vars,
        steps: steps?,
    };
    Some((name.clone(), ritual))
}

/// Reads the variables with their defaults. One with a wrong default counts as known, so that its uses are no errors.
fn vars(reader: &mut Reader<'_>) -> BTreeMap<String, Option<String>> {
    let mut vars = BTreeMap::new();
    for (name, key, node) in reader.named("vars", Shape::Text) {
        if !ritual::is_variable(name) {
            let error = Diagnostic::error(format!("{name:?} is not the name of a variable"));
            let hint = "lower-case letters, digits and _, beginning with a letter";
            reader.report.add(error.at(key).hint(hint));
        }
        if let Some((_, what)) = GIVEN.iter().find(|(given, _)| *given == name) {
            let error = Diagnostic::error(format!("`{name}` is {what} and cannot be defined"));
            reader.report.add(error.at(key));
        }
        let value = text(node).and_then(|value| match value.len() > VALUE_MAX {
            true => complain(node, format!("this is longer than {VALUE_MAX} bytes")),
            false => Ok(value),
        });
        let value = value.map_err(|errors| add_all(reader.report, errors));
        let value = value.unwrap_or_default();
        vars.insert(name.to_owned(), Some(value).filter(|it| !it.is_empty()));
    }
    vars
}

/// The place of a step in the graph, and the places that errors about it point at.
struct Link {
    id: (StepName, SourceSpan),
    needs: Vec<(StepName, SourceSpan)>,
}

fn steps_of(
    reader: &mut Reader<'_>,
    vars: &BTreeMap<String, Option<String>>,
) -> Option<Vec<RitualStep>> {
    let sections = reader.sections("steps", "steps");
    let given = sections.len();
    let (mut links, mut steps) = (Vec::new(), Vec::new());
    for mut section in sections {
        let id = section.get("id", name::<StepName>);
        let title = section.get("title", |node| title(node, vars));
        let body = section.get("body", |node| body(node, vars));
        let needs = section.get("needs", list(name::<StepName>));
        let fresh_session = section.get("fresh_session", flag);
        let (id_place, needs_places) = (section.place("id"), section.element_places("needs"));
        section.finish();
        let (Some(id), Some(needs)) = (id, needs) else {
            continue;
        };
        links.push(Link {
            id: (id.clone(), id_place),
            needs: needs.iter().cloned().zip(needs_places).collect(),
        });
        if let (Some(title), Some(body), Some(fresh_session)) = (title, body, fresh_session) {
            steps.push(RitualStep {
                id,
                title,
                body,
                needs,
                fresh_session,
            });
        }
    }
    if given > STEPS_MAX {
        let message = format!("a ritual has at most {STEPS_MAX} steps, this one has {given}");
        reader.complain("steps", message);
        return None;
    }
    // A step whose id or needs cannot be read would make the graph of the others look wrong.
    let graph_is_right = links.len() == given && check_graph(&links, reader.report);
    (graph_is_right && given > 0 && steps.len() == given).then_some(steps)
}

fn title(node: &Node, vars: &BTreeMap<String, Option<String>>) -> Parsed<String> {
    let title = filled(node)?;
    if title.contains(['\n', '\r']) {
        return complain(node, "a title is one line");
    }
    if title.len() > TITLE_MAX {
        return complain(node, format!("this is longer than {TITLE_MAX} bytes"));
    }
    known_variables(node, title, vars)
}

fn body(node: &Node, vars: &BTreeMap<String, Option<String>>) -> Parsed<String> {
    let body = text(node)?;
    if body.len() > BODY_MAX {
        return complain(node, format!("this is longer than {BODY_MAX} bytes"));
    }
    known_variables(node, body, vars)
}

fn known_variables(
    node: &Node,
    text: String,
    vars: &BTreeMap<String, Option<String>>,
) -> Parsed<String> {
    let known = || {
        let given = GIVEN.iter().map(|(name, _)| *name);
        vars.keys().map(String::as_str).chain(given)
    };
    let used = ritual::variables(&text).into_iter();
    let mut unknown: Vec<_> = used
        .filter(|name| !known().any(|one| one == *name))
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    if unknown.is_empty() {
        return Ok(text);
    }
    let error = |name: &str| {
        let error = Diagnostic::error(format!("there is no variable `{name}`")).at(&node.place);
        error.hint(match closest(name, known()) {
            Some(near) => format!("did you mean {{{{{near}}}}}?"),
            None => format!("define it: [vars] {name} = \"...\""),
        })
    };
    Err(unknown.into_iter().map(error).collect())
}

/// Checks the ids and needs of all steps, and reports what is wrong.
fn check_graph(links: &[Link], report: &Report) -> bool {
    let mut right = true;
    let mut wrong = |error: Diagnostic| {
        right = false;
        report.add(error);
    };
    for (at, link) in links.iter().enumerate() {
        let (id, place) = &link.id;
        if let Some(first) = links[..at].iter().find(|other| other.id.0 == *id) {
            let error = Diagnostic::error(format!("two steps have the id \"{id}\"")).at(place);
            wrong(error.related(&first.id.1, "the first one"));
        }
        for (need, place) in &link.needs {
            let ids = || links.iter().map(|other| other.id.0.as_str());
            if ids().any(|other| other == need.as_str()) {
                continue;
            }
            let error = Diagnostic::error(format!("there is no step \"{need}\"")).at(place);
            wrong(match closest(need.as_str(), ids()) {
                Some(near) => error.hint(format!("did you mean \"{near}\"?")),
                None => error.hint(format!("steps: {}", ids().collect::<Vec<_>>().join(", "))),
            });
        }
    }
    if let Some(cycle) = cycle(links) {
        wrong(cycle);
    }
    right
}

/// Returns the error of steps that need each other, if there are any.
fn cycle(links: &[Link]) -> Option<Diagnostic> {
    let needs = |link: &Link| link.needs.iter().map(|(need, _)| need.clone()).collect();
    let graph: Vec<_> = links
        .iter()
        .map(|link| (link.id.0.clone(), needs(link)))
        .collect();
    let cycle = ritual::cycle(&graph)?;
    let names: Vec<_> = cycle.iter().map(StepName::as_str).collect();
    let message = format!("steps need each other: {}", names.join(" \u{2192} "));
    let error = Diagnostic::error(message);
    let first = links.iter().find(|link| link.id.0 == cycle[0]);
    let place = first.and_then(|link| link.needs.iter().find(|(need, _)| *need == cycle[1]));
    Some(match place {
        Some((_, place)) => error.at(place),
        None => error,
    })
}
