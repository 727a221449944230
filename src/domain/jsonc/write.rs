//! Puts a value into a JSON text.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::read::{Kind, Node, parse};
use super::{Edit, Put, Unchangeable};

/// Returns the text after one edit; none where nothing changes.
pub(super) fn edited(text: &str, edit: &Edit) -> Result<Option<String>, Unchangeable> {
    let blank = text.trim_start_matches('\u{feff}').trim().is_empty();
    let text = if blank { "{}\n" } else { text };
    let page = Page::of(text);
    let mut node = parse(text)?;
    for (depth, key) in edit.path.iter().enumerate() {
        if !matches!(node.kind, Kind::Object(_)) {
            let key = edit.path[..depth].join(".");
            let wanted = "object";
            return Err(Unchangeable::Kind { key, wanted });
        }
        let Some(member) = node.clone().take_member(key) else {
            let value = nested(&edit.path[depth + 1..], &edit.put);
            let key = Value::from(key.as_str());
            return Ok(Some(page.inserted(&node, Some(&key), &value)));
        };
        node = member;
    }
    page.put(&node, edit)
}

/// Returns the value of a key that is missing.
fn nested(rest: &[String], put: &Put) -> Value {
    let value = match put {
        Put::Set(value) | Put::Default(value) => value.clone(),
        Put::Add(value) => Value::from(vec![value.clone()]),
    };
    let wrap = |value, key: &String| Value::Object(Map::from_iter([(key.clone(), value)]));
    rest.iter().rev().fold(value, wrap)
}

/// A text, and the layout of its lines.
struct Page<'a> {
    text: &'a str,
    newline: &'static str,
}

impl<'a> Page<'a> {
    fn of(text: &'a str) -> Self {
        let newline = match text.contains("\r\n") {
            true => "\r\n",
            false => "\n",
        };
        Self { text, newline }
    }

    /// Returns the indent of one level of the text.
    fn unit(&self, root: &Node) -> String {
        let Kind::Object(members) = &root.kind else {
            return "  ".to_owned();
        };
        let first = members.first().map(|(_, at, _)| *at);
        let own = first.and_then(|at| self.indent(at));
        own.filter(|unit| !unit.is_empty())
            .unwrap_or("  ")
            .to_owned()
    }

    /// Returns the white space before a position at the beginning of a line; none elsewhere.
    fn indent(&self, at: usize) -> Option<&'a str> {
        let line = self.text[..at].rfind('\n')? + 1;
        let before = &self.text[line..at];
        before.trim().is_empty().then_some(before)
    }

    /// Returns the white space at the beginning of the line of a position.
    fn line_indent(&self, at: usize) -> &'a str {
        let line = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        let line = &self.text[line..];
        let end = line.find(|c: char| c != ' ' && c != '\t');
        &line[..end.unwrap_or(0)]
    }

    fn put(&self, node: &Node, edit: &Edit) -> Result<Option<String>, Unchangeable> {
        let there: Option<Value> = serde_json::from_str(&self.text[node.span.clone()]).ok();
        match &edit.put {
            Put::Default(_) if there.as_ref() != Some(&Value::Null) => Ok(None),
            Put::Set(value) | Put::Default(value) if there.as_ref() == Some(value) => Ok(None),
            Put::Set(value) | Put::Default(value) => {
                let indent = self.line_indent(node.span.start);
                let value = self.pretty(value, indent);
                let (before, after) = (&self.text[..node.span.start], &self.text[node.span.end..]);
                Ok(Some(format!("{before}{value}{after}")))
            }
            Put::Add(value) => {
                let Kind::Array(items) = &node.kind else {
                    let key = edit.path.join(".");
                    let wanted = "array";
                    return Err(Unchangeable::Kind { key, wanted });
                };
                let is = |item: &Node| {
                    let item = serde_json::from_str::<Value>(&self.text[item.span.clone()]);
                    item.is_ok_and(|item| item == *value)
                };
                match items.iter().any(is) {
                    true => Ok(None),
                    false => Ok(Some(self.inserted(node, None, value))),
                }
            }
        }
    }

    /// Returns the text with a member, or an element, after all others of the object or array.
    fn inserted(&self, node: &Node, key: Option<&Value>, value: &Value) -> String {
        let first = match &node.kind {
            Kind::Object(members) => members.first().map(|(_, at, _)| *at),
            Kind::Array(items) => items.first().map(|item| item.span.start),
            Kind::Scalar => None,
        };
        let entry = |value: String| match key {
            Some(key) => format!("{key}: {value}"),
            None => value,
        };
        let Some(first) = first else {
            let outer = self.line_indent(node.span.start);
            let inner = format!("{outer}{}", self.unit_of_text());
            let entry = entry(self.pretty(value, &inner));
            let newline = self.newline;
            let (open, close) = (node.span.start + 1, node.span.end - 1);
            let kept = self.text[open..close].trim_end();
            let (before, after) = (&self.text[..open], &self.text[close..]);
            // A lone comment goes first, and ends before the entry begins.
            return format!("{before}{kept}{newline}{inner}{entry}{newline}{outer}{after}");
        };
        let mut text = self.text.to_owned();
        match self.indent(first) {
            Some(indent) => {
                let entry = entry(self.pretty(value, indent));
                let at = self.end_of_line(node.tail);
                text.insert_str(at, &format!("{}{indent}{entry}", self.newline));
            }
            None => text.insert_str(node.tail, &format!(" {}", entry(value.to_string()))),
        }
        if !node.comma {
            text.insert(node.tail, ',');
        }
        text
    }

    /// Returns the position after a comment on the rest of the line.
    fn end_of_line(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.trim_end();
        let said = line.trim_start();
        let is_comment = said.starts_with("//") || (said.starts_with("/*") && said.ends_with("*/"));
        match is_comment {
            true => at + line.len(),
            false => at,
        }
    }

    fn unit_of_text(&self) -> String {
        parse(self.text).map_or_else(|_| "  ".to_owned(), |root| self.unit(&root))
    }

    /// Formats the value on lines of its own, all but the first indented.
    fn pretty(&self, value: &Value, indent: &str) -> String {
        let unit = self.unit_of_text();
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(unit.as_bytes());
        let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
        let text = match value.serialize(&mut serializer) {
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => value.to_string(),
        };
        text.replace('\n', &format!("{}{indent}", self.newline))
    }
}
