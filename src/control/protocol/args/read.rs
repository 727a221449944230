//! Parsers of single argument values.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;

use super::task::Task;

/// Reads a word of an enumeration, as it is spelled on the wire.
pub(super) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| {
        let why = error.to_string();
        // The word itself is told already.
        let expected = why.find("expected ").map(|at| why[at..].to_owned());
        expected.unwrap_or(why)
    })
}

/// Reads a number, 0 or more.
pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "expected a whole number, 0 or more".to_owned())
}

/// Reads a number, 1 or more.
pub(super) fn some(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

/// Reads a priority.
pub(super) fn priority(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| "expected a whole number, such as 0 to 4".to_owned())
}

/// Refuses a blank text.
pub(super) fn not_blank(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty: describe the task".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Reads something or a list of it. An empty list is refused: it would mean something else than was asked.
fn one_or_many<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
    what: &str,
) -> Result<Vec<T>, D::Error> {
    use serde::de::Error;
    match Value::deserialize(from)? {
        one @ Value::String(_) => Ok(vec![serde_json::from_value(one).map_err(Error::custom)?]),
        many @ Value::Array(_) => {
            let many: Vec<T> = serde_json::from_value(many).map_err(Error::custom)?;
            if many.is_empty() {
                return Err(Error::custom(format!("{what} is empty")));
            }
            Ok(many)
        }
        _ => Err(Error::custom(format!(
            "{what} must be a text or a list of texts"
        ))),
    }
}

pub(super) fn tasks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Task>, D::Error> {
    one_or_many(from, "task")
}

pub(super) fn ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    one_or_many(from, "id")
}

/// Reads a number or a list of numbers, each of them once.
pub(super) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    use serde::de::Error;
    let wrong = || Error::custom("id must be a number or a list of numbers");
    let mut numbers: Vec<u64> = match Value::deserialize(from)? {
        Value::Number(one) => vec![one.as_u64().ok_or_else(wrong)?],
        Value::Array(many) if many.is_empty() => return Err(Error::custom("id is empty")),
        many @ Value::Array(_) => serde_json::from_value(many).map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    let mut seen = std::collections::BTreeSet::new();
    numbers.retain(|number| seen.insert(*number));
    Ok(numbers)
}

/// Reads `KEY=VALUE`, a list of such, or an object of texts.
pub(super) fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    use serde::de::Error;
    match Value::deserialize(from)? {
        Value::String(one) => Ok(vec![one]),
        many @ Value::Array(_) => serde_json::from_value(many).map_err(Error::custom),
        Value::Object(named) => {
            let pair = |(key, value): (String, Value)| match value {
                Value::String(value) => Ok(format!("{key}={value}")),
                _ => Err(Error::custom(format!("the value of {key} must be a text"))),
            };
            named.into_iter().map(pair).collect()
        }
        _ => Err(Error::custom("var must be KEY=VALUE, or a list of such")),
    }
}

pub(super) fn text_or_number<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    use serde::de::Error;
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(Error::custom("until must be a text or a number")),
    }
}
