//! Reads a table key by key. Missing and invalid values go into the report and reading goes on, so that all errors are
//! reported at once; a key that is never asked for is unknown.

use std::cell::RefCell;

use super::diagnostics::Diagnostic;
use super::document::{CITY, Node, SourceSpan, Table, Value};
use super::reserved_keys;
use super::shape::{self, Record, Shape};
use super::values::Parsed;
use crate::domain::suggest::closest;

/// Collects diagnostics.
#[derive(Debug, Default)]
pub struct Report {
    items: RefCell<Vec<Diagnostic>>,
    /// The keys that are asked for, when they are recorded.
    record: Option<Record>,
}

impl Report {
    /// Makes a report that records the keys that are asked for.
    pub fn recording() -> Self {
        Self {
            record: Some(Record::default()),
            ..Self::default()
        }
    }

    /// Returns the keys that were asked for.
    pub fn into_record(self) -> Record {
        self.record.unwrap_or_default()
    }

    /// Adds a diagnostic.
    pub fn add(&self, diagnostic: Diagnostic) {
        self.items.borrow_mut().push(diagnostic);
    }

    /// Returns whether the report is empty.
    pub fn is_empty(&self) -> bool {
        self.items.borrow().is_empty()
    }

    /// Returns everything that was added.
    pub fn into_items(self) -> Vec<Diagnostic> {
        self.items.into_inner()
    }
}

/// A table that is being read.
#[derive(Debug)]
pub struct Reader<'a> {
    /// Its name as [`later`] and messages know it: `rigs.forge`.
    section: &'static str,
    table: &'a Table,
    place: SourceSpan,
    asked: Vec<&'static str>,
    /// The report that receives the diagnostics.
    pub report: &'a Report,
}

impl<'a> Reader<'a> {
    /// Starts reading a table. Complains and returns `None` when the node is no table.
    pub fn open(section: &'static str, node: &'a Node, report: &'a Report) -> Option<Self> {
        let Some(table) = node.table() else {
            let message = format!("expected a table, found {}", node.kind());
            report.add(Diagnostic::error(message).at(&node.place));
            return None;
        };
        Some(Self {
            section,
            table,
            place: node.place.clone(),
            asked: Vec::new(),
            report,
        })
    }

    /// Reads a value. Optional keys have their default in `config/default.toml`, so an absent key is an error.
    pub fn get<T>(&mut self, key: &'static str, parse: impl Fn(&Node) -> Parsed<T>) -> Option<T> {
        let node = self.node(key, || shape::of(&parse))?;
        match parse(node) {
            Ok(value) => Some(value),
            Err(errors) => {
                errors.into_iter().for_each(|error| self.report.add(error));
                None
            }
        }
    }

    /// Opens a table within this one.
    pub fn section(&mut self, key: &'static str, section: &'static str) -> Option<Reader<'a>> {
        let node = self.node(key, || Shape::Table(section))?;
        Reader::open(section, node, self.report)
    }

    /// Opens an optional table; an empty string stands for none. The outer `None` means an error.
    pub fn optional_section(
        &mut self,
        key: &'static str,
        section: &'static str,
    ) -> Option<Option<Reader<'a>>> {
        let table = || Shape::Optional(Box::new(Shape::Table(section)));
        let node = self.node(key, table)?;
        match &node.value {
            Value::Text(text) if text.is_empty() => Some(None),
            _ => Reader::open(section, node, self.report).map(Some),
        }
    }

    /// Opens each table of an array of tables.
    pub fn sections(&mut self, key: &'static str, section: &'static str) -> Vec<Reader<'a>> {
        let Some(node) = self.node(key, || Shape::Tables(section)) else {
            return Vec::new();
        };
        let Value::Array(items) = &node.value else {
            let message = format!("expected an array of tables, found {}", node.kind());
            let error = Diagnostic::error(message).at(&node.place);
            self.report.add(error.hint(format!("write [[{section}]]")));
            return Vec::new();
        };
        let open = |item| Reader::open(section, item, self.report);
        items.iter().filter_map(open).collect()
    }

    /// Returns the entries of a table whose keys are names, given their shape.
    pub fn named(
        &mut self,
        key: &'static str,
        shape: Shape,
    ) -> Vec<(&'a str, &'a SourceSpan, &'a Node)> {
        let Some(node) = self.node(key, || Shape::Named(Box::new(shape))) else {
            return Vec::new();
        };
        let Some(table) = node.table() else {
            let message = format!("expected a table, found {}", node.kind());
            self.report.add(Diagnostic::error(message).at(&node.place));
            return Vec::new();
        };
        let entries = table.iter();
        entries
            .map(|(name, entry)| (name.as_str(), &entry.key, &entry.node))
            .collect()
    }

    /// Returns the place of a value, or of the table when the value is missing.
    pub fn place(&self, key: &str) -> SourceSpan {
        let entry = self.table.get(key);
        entry.map_or_else(|| self.place.clone(), |entry| entry.node.place.clone())
    }

    /// Returns the places of an array's elements.
    pub fn element_places(&self, key: &str) -> Vec<SourceSpan> {
        match self.table.get(key).map(|entry| &entry.node.value) {
            Some(Value::Array(items)) => items.iter().map(|item| item.place.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Complains about a key's value.
    pub fn complain(&self, key: &str, message: impl Into<String>) {
        let error = Diagnostic::error(message).at(&self.place(key));
        self.report.add(error);
    }

    /// Complains about every key that was never asked for.
    pub fn finish(self) {
        let later = reserved_keys::keys(self.section);
        // `include` is honoured before any key is read.
        let elsewhere: &[&str] = match self.section {
            "" => &["include"],
            _ => &[],
        };
        for (key, entry) in self.table {
            if self.asked.contains(&key.as_str()) {
                continue;
            }
            let error = if later.contains(&key.as_str()) {
                let message = format!("`{key}` is not supported yet");
                Diagnostic::error(message).hint("remove it: this version would ignore it")
            } else {
                let error = Diagnostic::error(format!("unknown key `{key}`"));
                if key == "include" && !self.section.is_empty() {
                    // A key below the header of a table is one of that table.
                    let place = "write `include` at the top of city.toml, above the first table";
                    self.report.add(error.hint(place).at(&entry.key));
                    continue;
                }
                let known = self.asked.iter().chain(later).chain(elsewhere).copied();
                match closest(key, known) {
                    Some(near) if later.contains(&near) => {
                        error.hint(format!("did you mean `{near}`? (not supported yet)"))
                    }
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None if self.section.is_empty() => error,
                    None => error.hint(format!("{} knows {}", self.title(), self.known())),
                }
            };
            self.report.add(error.at(&entry.key));
        }
    }

    fn title(&self) -> String {
        match self.section {
            "rigs" | "agents" => format!("[[{}]]", self.section),
            "harness" => "[harness.<name>]".to_owned(),
            "automation" => "automation.toml".to_owned(),
            "ritual" => "a ritual".to_owned(),
            "steps" => "[[steps]]".to_owned(),
            section => format!("[{section}]"),
        }
    }

    fn known(&self) -> String {
        let mut known = self.asked.clone();
        known.sort_unstable();
        known.join(", ")
    }

    fn node(&mut self, key: &'static str, shape: impl FnOnce() -> Shape) -> Option<&'a Node> {
        self.asked.push(key);
        let found = self.table.get(key);
        if let Some(record) = &self.report.record {
            record.note(self.section, key, shape(), found);
        }
        if found.is_none() {
            let name = match self.section {
                "" => key.to_owned(),
                section => format!("{section}.{key}"),
            };
            // A table that no file has has no header to point at, so the place is the top of the city's file.
            let place = match self.place.is_default() {
                true => SourceSpan::new(CITY, 0..0),
                false => self.place.clone(),
            };
            let error = Diagnostic::error(format!("missing `{name}`"));
            self.report.add(error.at(&place));
        }
        found.map(|entry| &entry.node)
    }
}
