//! The shapes of values, asked of the readers that parse them: a reader that gets a probe instead of a value answers with
//! the shape that it takes. So the schema of `city.toml` says what the parser does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::document::{DEFAULTS, Entry, Node, SourceSpan, Value, plain};
use super::values::Parsed;

/// Shape of the values that a reader takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Anything: the reader does not say.
    Any,
    /// A string.
    Text,
    /// A string that is not blank.
    Filled,
    /// A name of the domain.
    Name,
    /// The name of an environment variable.
    Variable,
    /// A duration with its unit.
    Duration,
    /// A size with its unit.
    Size,
    /// `true` or `false`.
    Flag,
    /// An integer.
    Integer {
        /// The least one.
        least: i64,
    },
    /// An integer or a float.
    Number {
        /// The least one.
        least: f64,
        /// The largest one.
        most: f64,
    },
    /// A word of a few.
    Choice(Vec<&'static str>),
    /// Variables with their values.
    Variables,
    /// An array.
    List(Box<Shape>),
    /// The shape, or an array of it.
    OneOrMore(Box<Shape>),
    /// The shape, or an empty string for none.
    Optional(Box<Shape>),
    /// The table of a section.
    Table(&'static str),
    /// Tables of a section.
    Tables(&'static str),
    /// A table whose keys are names.
    Named(Box<Shape>),
}

/// A value that readers answer with their shape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probe(Arc<OnceLock<Shape>>);

/// Declares the shape that a reader takes. If the value is a probe, it gets the shape, and there is nothing to parse.
pub fn takes(node: &Node, shape: impl FnOnce() -> Shape) -> Parsed<()> {
    let Value::Probe(probe) = &node.value else {
        return Ok(());
    };
    // The outermost reader is the first, and knows the most.
    probe.0.get_or_init(shape);
    Err(Vec::new())
}

/// Returns the shape that a reader takes.
pub fn of<T>(parse: impl Fn(&Node) -> Parsed<T>) -> Shape {
    let probe = Probe::default();
    let node = Node {
        place: SourceSpan::new(DEFAULTS, 0..0),
        value: Value::Probe(probe.clone()),
    };
    let _nothing = parse(&node);
    probe.0.get().cloned().unwrap_or(Shape::Any)
}

/// A key that the parser asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The shape of its value.
    pub shape: Shape,
    /// Its default, and the place of its key in the default file; none if it is required.
    pub default: Option<(toml::Value, usize)>,
}

/// The keys that the parser asked for, by section.
#[derive(Debug, Default)]
pub struct Record(RefCell<BTreeMap<&'static str, Keys>>);

/// The keys of a section.
pub type Keys = BTreeMap<&'static str, Asked>;

impl Record {
    /// Adds a key of a section, with its entry in the document.
    pub fn note(
        &self,
        section: &'static str,
        key: &'static str,
        shape: Shape,
        entry: Option<&Entry>,
    ) {
        let default = entry.map(|entry| (plain(&entry.node), entry.key.start));
        let mut sections = self.0.borrow_mut();
        let keys = sections.entry(section).or_default();
        keys.insert(key, Asked { shape, default });
    }

    /// Returns all keys.
    pub fn into_sections(self) -> BTreeMap<&'static str, Keys> {
        self.0.into_inner()
    }
}
