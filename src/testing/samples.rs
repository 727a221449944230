//! Answers for tests, completed by their schemas: a test names the fields that it is about.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::control::protocol::OpName;
use crate::control::protocol::answers::schemas;

/// Returns an answer with these fields. Each other field that is always there is null, empty, 0, or some word.
///
/// # Panics
/// The answer has no such field, or cannot have such a value.
#[must_use]
pub fn sample<T: JsonSchema + DeserializeOwned>(partial: Value) -> T {
    let samples = Samples::of::<T>(false);
    let whole = samples.fill(&samples.root, Some(&partial), "answer");
    let read = serde_json::from_value(whole.clone());
    read.unwrap_or_else(|error| panic!("{error}: {whole:#}"))
}

/// Returns the answer to an operation, or an item of its stream, completed like [`sample`].
///
/// # Panics
/// The answer has no such field.
#[must_use]
pub fn answer_to(op: OpName, partial: Option<&Value>) -> Value {
    static SCHEMAS: LazyLock<BTreeMap<OpName, Value>> = LazyLock::new(|| {
        let all = schemas().into_iter();
        all.map(|answer| (answer.op, answer.schema.into()))
            .collect()
    });
    let Some(root) = SCHEMAS.get(&op).cloned() else {
        return partial.cloned().unwrap_or_default();
    };
    let samples = Samples {
        root,
        is_full: false,
    };
    samples.fill(&samples.root, partial, op.as_str())
}

/// Returns answers that have every field, one for each form of the type.
#[must_use]
pub fn full<T: JsonSchema>() -> Vec<Value> {
    let samples = Samples::of::<T>(true);
    let forms = alternatives(&samples.root).unwrap_or_else(|| vec![&samples.root]);
    let forms = forms.into_iter();
    forms
        .map(|form| samples.fill(form, None, "answer"))
        .collect()
}

struct Samples {
    root: Value,
    is_full: bool,
}

fn alternatives(schema: &Value) -> Option<Vec<&Value>> {
    let any = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    Some(any.as_array()?.iter().collect())
}

/// Returns the types that a value of this schema may have.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(only)) => vec![only],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

impl Samples {
    fn of<T: JsonSchema>(is_full: bool) -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Self {
            root: schema.into(),
            is_full,
        }
    }

    /// Follows references to definitions.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(name) => {
                let place = name.trim_start_matches('#');
                self.resolved(self.root.pointer(place).expect("a definition"))
            }
            None => schema,
        }
    }

    fn may_be_null(&self, schema: &Value) -> bool {
        let schema = self.resolved(schema);
        match alternatives(schema) {
            Some(any) => any.into_iter().any(|one| self.may_be_null(one)),
            None => types(schema).contains(&"null"),
        }
    }

    /// Returns whether a value may be completed to one of this schema.
    fn fits(&self, schema: &Value, given: &Value) -> bool {
        let schema = self.resolved(schema);
        if given.is_null() {
            return self.may_be_null(schema);
        }
        if let Some(any) = alternatives(schema) {
            return any.into_iter().any(|one| self.fits(one, given));
        }
        if let Some(only) = schema.get("const") {
            return only == given;
        }
        match (given, schema.get("properties")) {
            (Value::Object(fields), Some(known)) => fields.iter().all(|(key, value)| {
                let known = known.get(key);
                known.is_some_and(|field| self.fits(field, value))
            }),
            (_, Some(_)) => false,
            (_, None) => types(schema) != ["null"],
        }
    }

    fn fill(&self, schema: &Value, given: Option<&Value>, name: &str) -> Value {
        let schema = self.resolved(schema);
        if given.is_some_and(Value::is_null) {
            return Value::Null;
        }
        if given.is_none() && !self.is_full && self.may_be_null(schema) {
            return Value::Null;
        }
        if let Some(any) = alternatives(schema) {
            let fitting = any.iter().find(|one| match given {
                Some(given) => self.fits(one, given),
                None => types(one) != ["null"],
            });
            return self.fill(fitting.unwrap_or(&any[0]), given, name);
        }
        let word = schema.get("const");
        let word = word.or_else(|| schema.get("enum").and_then(|words| words.get(0)));
        if let Some(word) = word {
            return given.unwrap_or(word).clone();
        }
        match types(schema).first() {
            Some(&"object") => self.object(schema, given, name),
            Some(&"array") => self.array(schema, given, name),
            kind => given.cloned().unwrap_or_else(|| match kind {
                Some(&"string") if schema.get("format").is_some() => {
                    json!("2026-01-31T12:00:00Z")
                }
                Some(&"string") => json!(text(name)),
                Some(&"boolean") => json!(false),
                Some(&"null") => Value::Null,
                Some(_) => json!(0),
                // Data of an event, for example.
                None => json!({ "tail": "text", "why": "text" }),
            }),
        }
    }

    fn array(&self, schema: &Value, given: Option<&Value>, name: &str) -> Value {
        let items = &schema["items"];
        match given.map(|given| given.as_array().expect("a list")) {
            Some(given) => {
                let given = given.iter();
                given
                    .map(|item| self.fill(items, Some(item), name))
                    .collect()
            }
            None if self.is_full => json!([self.fill(items, None, name)]),
            None => json!([]),
        }
    }

    fn object(&self, schema: &Value, given: Option<&Value>, name: &str) -> Value {
        let none = Map::new();
        let of = |key: &str| schema.get(key).and_then(Value::as_object);
        let (fields, given) = (
            of("properties").unwrap_or(&none),
            given.map_or(&none, |given| given.as_object().expect("an object")),
        );
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let has = |key: &str| fields.contains_key(key);
        let mut whole = Map::new();
        for (key, field) in fields {
            let is_required = required.iter().any(|it| it == key);
            if self.is_full || is_required || given.contains_key(key) {
                let name = match key.as_str() {
                    "id" if has("sandbox") => "raider",
                    "name" if has("until") && has("reason") => "raider",
                    "raider" if has("refs") => "slot",
                    other => other,
                };
                whole.insert(key.clone(), self.fill(field, given.get(key), name));
            }
        }
        for (key, value) in given.iter().filter(|(key, _)| !has(key)) {
            let more = of("additionalProperties").is_some();
            assert!(more, "{name} has no field {key}: {schema:#}");
            whole.insert(key.clone(), value.clone());
        }
        if let (true, Some(_)) = (self.is_full, of("additionalProperties")) {
            let value = self.fill(&schema["additionalProperties"], None, name);
            whole.insert("word".to_owned(), value);
        }
        Value::Object(whole)
    }
}

/// Returns a word that a field of this name may have.
fn text(name: &str) -> &'static str {
    match name {
        "raider" | "nuked" | "back_to" => "horde/raiders/Toast",
        "head" | "base" | "merge_commit" | "ids" | "stash_ids" | "stashes" | "damaged" | "left"
        | "files" => "0123456789abcdef0123456789abcdef01234567",
        "mailbox" | "reply_to" => "operator",
        _ => "gt-1",
    }
}
