//! A TOML document that remembers the place of every key and value, so that an error can point at it after several
//! files were merged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::diagnostics::Diagnostic;
use super::shape::Probe;

/// A file, or the built-in defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path of the file.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

/// A range of bytes in one source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceSpan {
    /// Index into the sources.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl SourceSpan {
    /// Makes the place for this range of that source.
    pub fn new(source: usize, range: Range<usize>) -> Self {
        Self {
            source,
            start: range.start,
            end: range.end,
        }
    }

    /// Returns whether the place is in the built-in defaults.
    pub fn is_default(&self) -> bool {
        self.source == DEFAULTS
    }
}

/// The index of the built-in defaults, always the first source.
pub const DEFAULTS: usize = 0;
/// The index of `city.toml`, always the second source.
pub const CITY: usize = 1;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The place of the value.
    pub place: SourceSpan,
    /// The value.
    pub value: Value,
}

/// The kinds of a TOML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Flag(bool),
    /// A date or time, which no key takes.
    Datetime(String),
    /// An array, also of tables.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
    /// No value: readers answer it with their shape.
    Probe(Probe),
}

/// The entries of a table.
pub type Table = BTreeMap<String, Entry>;

/// A value under a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The place of the key.
    pub key: SourceSpan,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Returns the entries of a table.
    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the entries of a table.
    pub fn table_mut(&mut self) -> Option<&mut Table> {
        match &mut self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the kind of the value in words, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Flag(_) => "a boolean",
            Value::Datetime(_) => "a date",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
            Value::Probe(_) => "a probe",
        }
    }
}

/// The beginning of the parser's words for a value of no kind.
const UNQUOTED: &str = "string values must be quoted";

/// Parses a source. Every syntax error is reported, not only the first.
pub fn parse(text: &str, source: usize) -> Result<Node, Vec<Diagnostic>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let told = errors.iter().map(|error| {
            let place = SourceSpan::new(source, error.span().unwrap_or(0..0));
            let found = error.span().and_then(|span| text.get(span)).map(str::trim);
            let message = match (found, error.message()) {
                (Some(found), words) if words.starts_with(UNQUOTED) => no_value(found),
                (_, words) => words.to_owned(),
            };
            Diagnostic::error(message).at(&place)
        });
        return Err(told.collect());
    }
    let mut errors = Vec::new();
    let table = convert_table(document.get_ref(), source, &mut errors);
    let place = SourceSpan::new(source, 0..0);
    let value = Value::Table(table);
    errors
        .is_empty()
        .then_some(Node { place, value })
        .ok_or(errors)
}

fn no_value(found: &str) -> String {
    let expected = "expected a text in quotes, a number, true or false, an array or a table";
    match found {
        "" => format!("the value is missing: {expected}"),
        found => format!("`{found}` is no value: {expected}"),
    }
}

fn convert_table(table: &DeTable<'_>, source: usize, errors: &mut Vec<Diagnostic>) -> Table {
    let convert_entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<_>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        let entry = Entry {
            key: SourceSpan::new(source, key.span()),
            node: convert(value, source, errors),
        };
        (name.to_string(), entry)
    };
    table.iter().map(convert_entry).collect()
}

fn convert(
    value: &toml::Spanned<DeValue<'_>>,
    source: usize,
    errors: &mut Vec<Diagnostic>,
) -> Node {
    let place = SourceSpan::new(source, value.span());
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let read = i64::from_str_radix(number.as_str(), number.radix());
            if read.is_err() {
                errors.push(Diagnostic::error("this integer is too large").at(&place));
            }
            Value::Integer(read.unwrap_or_default())
        }
        DeValue::Float(number) => {
            let read = number.as_str().parse();
            if read.is_err() {
                errors.push(Diagnostic::error("this number cannot be read").at(&place));
            }
            Value::Float(read.unwrap_or_default())
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(date) => Value::Datetime(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| convert(item, source, errors));
            Value::Array(items.collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, source, errors)),
    };
    Node { place, value }
}

/// Returns the value without its places, for showing.
pub fn plain(node: &Node) -> toml::Value {
    match &node.value {
        Value::Text(text) | Value::Datetime(text) => toml::Value::String(text.clone()),
        // No document has one.
        Value::Probe(_) => toml::Value::String(String::new()),
        Value::Integer(number) => toml::Value::Integer(*number),
        Value::Float(number) => toml::Value::Float(*number),
        Value::Flag(flag) => toml::Value::Boolean(*flag),
        Value::Array(items) => toml::Value::Array(items.iter().map(plain).collect()),
        Value::Table(table) => {
            let entries = table
                .iter()
                .map(|(key, entry)| (key.clone(), plain(&entry.node)));
            toml::Value::Table(entries.collect())
        }
    }
}

/// Overlays `upper` on `lower`: tables are merged entry by entry, every other value is replaced.
pub fn overlay(lower: &mut Node, upper: Node) {
    let (Value::Table(below), Value::Table(_)) = (&mut lower.value, &upper.value) else {
        *lower = upper;
        return;
    };
    lower.place = upper.place;
    let Value::Table(above) = upper.value else {
        return;
    };
    for (key, entry) in above {
        match below.get_mut(&key) {
            Some(present) => {
                present.key = entry.key;
                overlay(&mut present.node, entry.node);
            }
            None => {
                below.insert(key, entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(source: &str, place: &SourceSpan) -> String {
        source[place.start..place.end].to_owned()
    }

    #[test]
    fn every_key_and_value_remembers_where_it_was_written() {
        let source = "a = 1\n[t]\nb = [\"x\", 2.5]\n[[r]]\nc = true\n";
        let root = parse(source, 3).unwrap();
        let root = root.table().unwrap();
        assert_eq!(text_of(source, &root["a"].key), "a");
        assert_eq!(text_of(source, &root["t"].node.place), "[t]");
        let inner = &root["t"].node.table().unwrap()["b"];
        assert_eq!(text_of(source, &inner.node.place), "[\"x\", 2.5]");
        let Value::Array(rows) = &root["r"].node.value else {
            panic!("an array of tables is an array");
        };
        assert_eq!(text_of(source, &rows[0].place), "[[r]]");
        assert_eq!(rows[0].place.source, 3);
    }

    #[test]
    fn all_syntax_errors_of_a_source_are_reported() {
        let errors = parse("a = \nb = 1\nb = 2\nc = 'x\n", 0).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:#?}");
    }

    #[test]
    fn tables_merge_and_everything_else_is_replaced() {
        let mut lower = parse("a = 1\nb = [1, 2]\n[t]\nx = 1\ny = 1\n", 0).unwrap();
        let upper = parse("b = [3]\n[t]\ny = 2\nz = 2\n", 1).unwrap();
        overlay(&mut lower, upper);
        let expected = "a = 1\nb = [3]\n[t]\nx = 1\ny = 2\nz = 2\n";
        let expected: toml::Table = toml::from_str(expected).unwrap();
        assert_eq!(plain(&lower), toml::Value::Table(expected));
    }
}
