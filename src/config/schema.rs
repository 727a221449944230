//! The JSON Schema of `city.toml`, for editors. It is made of what the parser asks for when it reads a city that has one of
//! everything, and of the defaults and comments of `config/default.toml`. Whatever the parser accepts is valid; the parser checks
//! more.

mod help;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tempfile::NamedTempFile;

use super::document::{self, Entry, Node, Table, Value};
use super::reader::Report;
use super::shape::{Asked, Keys, Shape};
use super::sources::take;
use super::{DEFAULTS, Env, freeze};
use crate::regular;

/// The file of the schema, beside `city.toml`.
pub const SCHEMA_FILE: &str = ".horde/city.schema.json";

/// The text of [`schema`]. It is stored, because each start of a supervisor would take milliseconds to generate it; a test
/// compares the two, and `docs/reference/generate` writes the file.
pub(super) const TEXT: &str = include_str!("../../config/city.schema.json");

/// Units of durations.
const UNITS: &str = "nanos|nsec|ns|usec|us|µs|millis|msec|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h\
    |days?|d|weeks?|wks?|w|months?|M|years?|yrs?|y";

/// Returns the schema, with the keywords that mean the same in every draft since the fourth.
#[must_use]
pub fn schema() -> Json {
    let sections = asked().unwrap_or_default();
    let schema = Writer { sections }.table("", false);
    let mut city = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "city.toml",
        "description": "The desired state of a city of the Horde supervisor.",
    });
    if let (Json::Object(city), Json::Object(schema)) = (&mut city, schema) {
        city.extend(schema);
    }
    city
}

/// Writes the schema into a city's directory of state, which is made if it is missing. A file that is up to date stays.
///
/// # Errors
/// The reason why it cannot be written.
pub fn write_schema(city: &Path) -> io::Result<()> {
    let path = city.join(SCHEMA_FILE);
    if regular::read_text(&path).is_ok_and(|before| before == TEXT) {
        return Ok(());
    }
    let state = path.parent().unwrap_or(city);
    match fs::DirBuilder::new().mode(0o700).create(state) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let new = NamedTempFile::with_prefix_in(".city.schema.", state);
    let mut new = new.map_err(regular::of_temporary)?;
    new.write_all(TEXT.as_bytes())?;
    new.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// Returns the keys that the parser asks for, by section.
fn asked() -> Option<BTreeMap<&'static str, Keys>> {
    let (root, templates) = one_of_everything()?;
    // Nothing is below it, so no automation and no ritual of a city is read.
    let nowhere = Path::new("/dev/null");
    let report = Report::recording();
    let context = freeze::Context {
        root: nowhere,
        env: &Env::default(),
        named: &RefCell::default(),
    };
    let mut files = freeze::Files {
        sources: &mut Vec::new(),
        templates: &templates,
        searched: &mut Vec::new(),
        patterns: &mut Vec::new(),
    };
    // Its errors do not matter: reading goes on after each.
    let _invalid = freeze::freeze(&root, &context, &mut files, &report);
    let mut sections = report.into_record().into_sections();
    let top = sections.get_mut("")?;
    // These two are honoured before the parser asks for keys.
    let include = root.table()?.get("include")?;
    let files = Asked {
        shape: Shape::List(Box::new(Shape::Filled)),
        default: Some((document::plain(&include.node), include.key.start)),
    };
    top.insert("include", files);
    let agents = top.get("agents")?.clone();
    top.insert("agent", agents);
    Some(sections)
}

/// Returns the default file with one rig, agent, group and harness of its templates, and the templates.
fn one_of_everything() -> Option<(Node, Table)> {
    let mut root = document::parse(DEFAULTS, document::DEFAULTS).ok()?;
    let templates = take(&mut root, "defaults")?;
    let templates = templates.node.table()?.clone();
    let one = |name: &str| Some(templates.get(name)?.node.clone());
    let list = |of: Node| Node {
        place: of.place.clone(),
        value: Value::Array(vec![of]),
    };
    let named = |of: Node| Node {
        place: of.place.clone(),
        value: Value::Table(Table::from([("one".to_owned(), entry(of))])),
    };
    let mut rig = one("rigs")?;
    *at(&mut rig, &["forge", "gates"])? = list(one("gates")?);
    *at(&mut rig, &["raiders", "budget"])? = one("budget")?;
    *at(&mut root, &["rigs"])? = list(rig);
    let mut agent = one("agents")?;
    *at(&mut agent, &["pool"])? = one("pool")?;
    *at(&mut root, &["agents"])? = list(agent);
    *at(&mut root, &["groups"])? = list(one("groups")?);
    let mut harness = one("harness")?;
    *at(&mut harness, &["prices"])? = named(one("prices")?);
    *at(&mut harness, &["budget"])? = one("budget")?;
    // In place of the presets, whose values are no defaults.
    root.table_mut()?
        .insert("harness".to_owned(), entry(named(harness)));
    *at(&mut root, &["workspace", "budget"])? = one("budget")?;
    Some((root, templates))
}

fn at<'a>(node: &'a mut Node, path: &[&str]) -> Option<&'a mut Node> {
    let step = |node: &'a mut Node, key: &&str| Some(&mut node.table_mut()?.get_mut(*key)?.node);
    path.iter().try_fold(node, step)
}

fn entry(node: Node) -> Entry {
    let key = node.place.clone();
    Entry { key, node }
}

/// Writes the schema of the keys.
struct Writer {
    sections: BTreeMap<&'static str, Keys>,
}

impl Writer {
    /// Returns the schema of a section's table. One that is `whole` is written in a single place, as an element of an array is;
    /// another may get its required keys from another file.
    fn table(&self, section: &str, whole: bool) -> Json {
        let mut properties = self.properties(section, whole);
        if section.is_empty() {
            properties.insert("patches".to_owned(), self.patches());
        }
        let keys = self.sections.get(section).into_iter().flatten();
        let required = keys.filter(|(_, asked)| whole && asked.default.is_none());
        let required: Vec<&str> = required.map(|(key, _)| *key).collect();
        closed(properties, &required)
    }

    fn properties(&self, section: &str, whole: bool) -> Map<String, Json> {
        let keys = self.sections.get(section);
        let defaults = keys.into_iter().flat_map(BTreeMap::values);
        let places = defaults.filter_map(|asked| Some(asked.default.as_ref()?.1));
        let somewhere = places.min().unwrap_or_default();
        let mut properties = Map::new();
        for (key, asked) in keys.into_iter().flatten() {
            let mut schema = self.value(&asked.shape, whole);
            let help = match &asked.default {
                Some((_, at)) => help::above(DEFAULTS, *at),
                None => help::of_required(DEFAULTS, somewhere, key),
            };
            if let Some(help) = help {
                schema["description"] = help.into();
            }
            if let Some((default, _)) = &asked.default
                && !has_section(&asked.shape)
            {
                schema["default"] = json!(default);
            }
            properties.insert((*key).to_owned(), schema);
        }
        properties
    }

    /// Returns the schema of `[patches]`: keys of agents, of which only the name is required.
    fn patches(&self) -> Json {
        let patch = closed(self.properties("agents", false), &["name"]);
        let mut agents = json!({ "type": "array", "items": patch });
        if let Some(help) = help::around(DEFAULTS, help::PATCHES) {
            agents["description"] = help.into();
        }
        closed(Map::from_iter([("agents".to_owned(), agents)]), &[])
    }

    fn value(&self, shape: &Shape, whole: bool) -> Json {
        match shape {
            Shape::Any => json!({}),
            Shape::Text => json!({ "type": "string" }),
            Shape::Filled => json!({ "type": "string", "pattern": r"\S" }),
            Shape::Name => {
                json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$" })
            }
            Shape::Variable => json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
            Shape::Duration => {
                let pattern = format!(r"^\s*([0-9][0-9\s]*(\.[0-9\s]+)?({UNITS})\s*)+$");
                json!({ "type": "string", "pattern": pattern })
            }
            Shape::Size => {
                let pattern = r"^\s*[0-9]+\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)\s*$";
                json!({ "type": "string", "pattern": pattern })
            }
            Shape::Flag => json!({ "type": "boolean" }),
            Shape::Integer { least } => json!({ "type": "integer", "minimum": least }),
            Shape::Number { least, most } => {
                json!({ "type": "number", "minimum": least, "maximum": most })
            }
            Shape::Choice(words) => json!({ "type": "string", "enum": words }),
            Shape::Variables => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
            Shape::List(of) => json!({ "type": "array", "items": self.value(of, whole) }),
            Shape::OneOrMore(of) => {
                let one = self.value(of, whole);
                let mut all = one.clone();
                all["type"] = json!([one["type"], "array"]);
                all["items"] = one;
                all
            }
            Shape::Optional(of) => or_none(self.value(of, whole)),
            Shape::Table(section) => self.table(section, whole),
            Shape::Tables(section) => {
                json!({ "type": "array", "items": self.table(section, true) })
            }
            Shape::Named(of) => {
                json!({ "type": "object", "additionalProperties": self.value(of, whole) })
            }
        }
    }
}

/// Returns whether the shape is that of a section: its keys have defaults of their own.
fn has_section(shape: &Shape) -> bool {
    match shape {
        Shape::Table(_) | Shape::Tables(_) => true,
        Shape::Optional(of) | Shape::Named(of) | Shape::List(of) => has_section(of),
        _ => false,
    }
}

/// Returns the schema that also takes an empty string. Without `anyOf`, so that an editor names the part that is wrong.
fn or_none(mut schema: Json) -> Json {
    if schema["type"] != "string" {
        schema["type"] = json!([schema["type"], "string"]);
        schema["maxLength"] = 0.into();
    } else if let Some(words) = schema.get_mut("enum").and_then(Json::as_array_mut) {
        words.push("".into());
    } else if let Some(pattern) = schema.get("pattern").and_then(Json::as_str) {
        schema["pattern"] = format!("^$|{pattern}").into();
    }
    schema
}

/// Returns the schema of a table that has no other keys.
fn closed(properties: Map<String, Json>, required: &[&str]) -> Json {
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}
