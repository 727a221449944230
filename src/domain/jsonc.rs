//! Changes of single values in a JSON file that leave every other byte of it as it was: order, layout
//! and comments. Comments and commas before a closing bracket are taken, as many programs do.

mod read;
mod write;

use serde_json::Value;

/// What is done to one value.
#[derive(Debug, Clone, PartialEq)]
pub enum Put {
    /// It becomes this value.
    Set(Value),
    /// It becomes this value, unless there is one.
    Default(Value),
    /// The array gets this element, unless it has it.
    Add(Value),
}

/// A change: the keys that lead to the value from the outermost object on, and what is done to it.
/// Objects on the way that are missing are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The keys; at least one.
    pub path: Vec<String>,
    /// What is done.
    pub put: Put,
}

/// Why a text cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unchangeable {
    /// It is no JSON.
    #[error("line {line}: {what}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// What was expected there.
        what: &'static str,
    },
    /// A value on the way is of another kind.
    #[error("`{key}` is no {wanted}")]
    Kind {
        /// The keys that lead to it, with dots; empty for the whole text.
        key: String,
        /// What it must be.
        wanted: &'static str,
    },
}

/// Returns the text with all edits made. It is the same text where everything is as wanted already.
/// A blank text is an empty object.
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

/// Whether a value is at these keys, which is not empty: not null, `""`, `[]` or `{}`.
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
