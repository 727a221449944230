//! Makes the smallest JSON that fits a schema.

use serde_json::{Map, Value, json};

/// The maximum depth to which a schema is followed: some refer to themselves.
const DEPTH_MAX: usize = 8;
/// The maximum number of items of an array, whatever its schema asks for.
const ITEMS_MAX: usize = 8;

/// Returns a value that fits a schema. References to definitions are not followed: they become an empty object.
pub fn example(schema: &Value) -> Value {
    at_depth(schema, 0)
}

fn at_depth(schema: &Value, depth: usize) -> Value {
    if depth >= DEPTH_MAX {
        return Value::Null;
    }
    for fixed in ["const", "default"] {
        if let Some(value) = schema.get(fixed) {
            return value.clone();
        }
    }
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    for any in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(any).and_then(|schemas| schemas.get(0)) {
            return at_depth(first, depth + 1);
        }
    }
    match type_of(schema).as_str() {
        "string" => json!("none"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        "null" => Value::Null,
        "array" => array(schema, depth),
        _ => Value::Object(object(schema, depth)),
    }
}

fn array(schema: &Value, depth: usize) -> Value {
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let Some(item) = schema.get("items") else {
        return json!([]);
    };
    let least = usize::try_from(least).unwrap_or(ITEMS_MAX).min(ITEMS_MAX);
    Value::Array(vec![at_depth(item, depth + 1); least])
}

/// Returns the required properties of an object, down from a depth.
fn object(schema: &Value, depth: usize) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let example = |name: &str| {
        let property = property(schema, name)?;
        Some((name.to_owned(), at_depth(property, depth + 1)))
    };
    names.filter_map(example).collect()
}

/// Returns the required properties of an object, each with the smallest value that fits.
pub fn required(schema: &Value) -> Map<String, Value> {
    object(schema, 0)
}

/// Returns the schema of a property.
pub fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// Returns the type of a schema in lower case, for Gemini writes types in capitals; the first of several.
pub fn type_of(schema: &Value) -> String {
    let named = match schema.get("type") {
        Some(Value::Array(types)) => types.first().and_then(Value::as_str),
        Some(other) => other.as_str(),
        None => None,
    };
    named.unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_has_the_required_properties_only() {
        let schema = json!({
            "type": "OBJECT",
            "properties": {
                "title": {"type": "STRING"},
                "next": {"type": "string", "enum": ["user", "model"]},
                "score": {"type": "integer", "minimum": 1},
                "sure": {"type": ["boolean", "null"]},
                "parts": {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "number"}]}},
                "more": {"type": "array", "items": {"type": "string"}},
                "optional": {"type": "string"},
            },
            "required": ["title", "next", "score", "sure", "parts", "more"],
        });
        let expected = json!({
            "title": "none", "next": "user", "score": 1, "sure": false, "parts": [1], "more": [],
        });
        assert_eq!(example(&schema), expected);
    }

    #[test]
    fn schema_without_an_end_has_an_example() {
        let mut schema = json!({"type": "string"});
        for _ in 0..50 {
            schema = json!({
                "type": "object", "properties": {"next": schema}, "required": ["next"],
            });
        }
        assert!(example(&schema).is_object());
    }
}
