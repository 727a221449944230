//! A validator for the keywords of JSON Schema that the product's schemas use.

use regex::Regex;
use serde_json::Value;

/// Returns what is wrong with a value, each with its place.
///
/// # Panics
/// The schema is malformed, or has a keyword that this validator does not know.
#[must_use]
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in keywords {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is_of_type(value, name)),
                name => is_of_type(value, name),
            },
            "enum" => list(rule).contains(value),
            "pattern" => {
                let pattern = Regex::new(text(rule)).expect("a pattern");
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minimum" => value.as_f64().is_none_or(|it| it >= number(rule)),
            "maximum" => value.as_f64().is_none_or(|it| it <= number(rule)),
            "maxLength" => {
                let length = value.as_str().map(|text| text.chars().count() as f64);
                length.is_none_or(|length| length <= number(rule))
            }
            "required" => {
                let mut keys = list(rule).iter();
                value.is_object() && keys.all(|key| value.get(text(key)).is_some())
            }
            "items" => {
                for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, &format!("{place}[{nth}]"), found);
                }
                true
            }
            "properties" => {
                for (key, rule) in rule.as_object().expect("an object") {
                    if let Some(inner) = value.get(key) {
                        check(rule, inner, &format!("{place}.{key}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties");
                let known = |key: &str| known.is_some_and(|known| known.get(key).is_some());
                let others = value.as_object().into_iter().flatten();
                for (key, inner) in others.filter(|(key, _)| !known(key)) {
                    let place = format!("{place}.{key}");
                    match rule {
                        Value::Bool(false) => found.push(format!("{place}: unknown key")),
                        rule => check(rule, inner, &place, found),
                    }
                }
                true
            }
            other => panic!("this validator does not know `{other}`"),
        };
        if !holds {
            found.push(format!("{place}: {keyword} {rule}, but it is {value}"));
        }
    }
}

fn text(rule: &Value) -> &str {
    rule.as_str().expect("a string")
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("an array")
}

fn number(rule: &Value) -> f64 {
    rule.as_f64().expect("a number")
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match text(name) {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("there is no type {other}"),
    }
}
