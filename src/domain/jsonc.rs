//! Changes single values in a JSON file and leaves every other byte as it was: order, layout and comments. Accepts
//! comments and trailing commas, as many programs do.

mod read;
mod write;

use serde_json::Value;

/// The change of one value.
#[derive(Debug, Clone, PartialEq)]
pub enum Put {
    /// Sets this value.
    Set(Value),
    /// Sets this value, unless there is one.
    Default(Value),
    /// Adds this element to the array, unless it has it.
    Add(Value),
}

/// A change: the keys from the outermost object to the value, and the change of it. Missing objects on the way are
/// created.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The keys; at least one.
    pub path: Vec<String>,
    /// The change.
    pub put: Put,
}

/// The reason why a text cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unchangeable {
    /// It is not JSON.
    #[error("line {line}: {what}")]
    Malformed {
        /// The line, counted from 1.
        line: usize,
        /// The expected syntax.
        what: &'static str,
    },
    /// A value on the way is of another kind.
    #[error("`{key}` is not an {wanted}")]
    Kind {
        /// The keys that lead to it, with dots; empty for the whole text.
        key: String,
        /// The required kind.
        wanted: &'static str,
    },
}

/// Returns the text with all edits made; the same text where nothing has to change. A blank text counts as an empty
/// object.
///
/// # Errors
/// [`Unchangeable`].
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, Unchangeable> {
    let mut text = text.to_owned();
    for edit in edits {
        if let Some(next) = write::edited(&text, edit)? {
            text = next;
        }
    }
    Ok(text)
}

/// Returns true when there is a value at these keys that is not empty: not null, false, `""`, `[]` or `{}`.
///
/// # Errors
/// [`Unchangeable::Malformed`].
pub fn has(text: &str, path: &[&str]) -> Result<bool, Unchangeable> {
    if text.trim().is_empty() {
        return Ok(false);
    }
    let mut node = read::parse(text)?;
    for key in path {
        match node.take_member(key) {
            Some(member) => node = member,
            None => return Ok(false),
        }
    }
    Ok(match &node.kind {
        read::Kind::Object(members) => !members.is_empty(),
        read::Kind::Array(items) => !items.is_empty(),
        read::Kind::Scalar => !matches!(&text[node.span], "null" | "\"\"" | "false"),
    })
}

#[cfg(test)]
mod tests;
