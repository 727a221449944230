//! Readers of single values: each reports all errors of its value.

use std::collections::BTreeMap;
use std::time::Duration;

use super::diagnostics::Diagnostic;
use super::document::{Node, Value};
use super::shape::{self, Shape, takes};
use crate::domain::ids::{InvalidId, is_branch_name};
use crate::domain::question::Pattern;
use crate::domain::suggest::closest;

/// A value, or its errors.
pub type Parsed<T> = Result<T, Vec<Diagnostic>>;

/// Returns a single error at the place of the value.
pub fn complain<T>(node: &Node, message: impl Into<String>) -> Parsed<T> {
    Err(vec![Diagnostic::error(message).at(&node.place)])
}

fn complain_with<T>(node: &Node, message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    let error = Diagnostic::error(message).at(&node.place).hint(hint);
    Err(vec![error])
}

fn wrong_kind<T>(node: &Node, wanted: &str) -> Parsed<T> {
    complain(node, format!("expected {wanted}, found {}", node.kind()))
}

/// Reads a string, which may be empty.
pub fn text(node: &Node) -> Parsed<String> {
    takes(node, || Shape::Text)?;
    match &node.value {
        Value::Text(text) if text.contains('\0') => {
            complain(node, "a NUL character cannot be used here")
        }
        Value::Text(text) => Ok(text.clone()),
        _ => wrong_kind(node, "a string"),
    }
}

/// Reads a string that is not empty.
pub fn filled(node: &Node) -> Parsed<String> {
    takes(node, || Shape::Filled)?;
    let text = text(node)?;
    if text.trim().is_empty() {
        return complain(node, "this must not be empty");
    }
    Ok(text)
}

/// Reads a value; an empty string is none.
pub fn optional<T>(parse: impl Fn(&Node) -> Parsed<T>) -> impl Fn(&Node) -> Parsed<Option<T>> {
    move |node| {
        takes(node, || Shape::Optional(Box::new(shape::of(&parse))))?;
        match &node.value {
            Value::Text(text) if text.is_empty() => Ok(None),
            _ => parse(node).map(Some),
        }
    }
}

/// Reads a regular expression for a screen.
pub fn pattern(node: &Node) -> Parsed<Pattern> {
    let text = text(node)?;
    // A test checks those of the defaults.
    if node.place.is_default() {
        return Ok(Pattern::checked(&text));
    }
    Pattern::new(&text).or_else(|error| complain(node, error))
}

/// Reads a checked name of the domain.
pub fn name<T: TryFrom<String, Error = InvalidId>>(node: &Node) -> Parsed<T> {
    takes(node, || Shape::Name)?;
    T::try_from(text(node)?).or_else(|error| complain(node, error.to_string()))
}

/// Reads an array; the errors of all elements are reported.
pub fn list<T>(parse: impl Fn(&Node) -> Parsed<T>) -> impl Fn(&Node) -> Parsed<Vec<T>> {
    move |node| {
        takes(node, || Shape::List(Box::new(shape::of(&parse))))?;
        let Value::Array(items) = &node.value else {
            return wrong_kind(node, "an array");
        };
        let mut read = Vec::new();
        let mut errors = Vec::new();
        for item in items {
            match parse(item) {
                Ok(value) => read.push(value),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() {
            Ok(read)
        } else {
            Err(errors)
        }
    }
}

/// Reads a program and its arguments; may be empty.
pub fn command(node: &Node) -> Parsed<Vec<String>> {
    if let Value::Text(line) = &node.value {
        let words = shell_words::split(line).unwrap_or_else(|_| vec![line.clone()]);
        let array = toml::Value::from(words);
        return complain_with(
            node,
            "expected an array of program and arguments, found a string",
            format!("write {array}"),
        );
    }
    let words = list(text)(node)?;
    if words
        .first()
        .is_some_and(|program| program.trim().is_empty())
    {
        return complain(node, "the program must not be empty");
    }
    Ok(words)
}

/// Reads `true` or `false`.
pub fn flag(node: &Node) -> Parsed<bool> {
    takes(node, || Shape::Flag)?;
    match node.value {
        Value::Flag(flag) => Ok(flag),
        _ => wrong_kind(node, "true or false"),
    }
}

/// Reads an integer of at least `least`.
pub fn integer<T: TryFrom<i64>>(least: i64) -> impl Fn(&Node) -> Parsed<T> {
    move |node| {
        takes(node, || Shape::Integer { least })?;
        let Value::Integer(number) = node.value else {
            return wrong_kind(node, "an integer");
        };
        if number < least {
            return complain(node, format!("{number} is too small: at least {least}"));
        }
        T::try_from(number).or_else(|_| complain(node, format!("{number} is too large")))
    }
}

/// Reads a number between two others, both included.
pub fn number(least: f64, most: f64) -> impl Fn(&Node) -> Parsed<f64> {
    move |node| {
        takes(node, || Shape::Number { least, most })?;
        let number = match node.value {
            Value::Float(number) => number,
            // Every integer that passes the bounds below is exact as a float.
            Value::Integer(number) => number as f64,
            _ => return wrong_kind(node, "a number"),
        };
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            complain(node, format!("{number} is not between {least} and {most}"))
        }
    }
}

/// Reads a duration such as `"30s"` or `"1h 30m"`.
pub fn duration(node: &Node) -> Parsed<Duration> {
    const HINT: &str =
        "durations are strings with a unit: \"500ms\", \"30s\", \"5m\", \"1h\", \"7d\"";
    takes(node, || Shape::Duration)?;
    let Value::Text(text) = &node.value else {
        let found = format!("expected a duration, found {}", node.kind());
        return complain_with(node, found, HINT);
    };
    match humantime::parse_duration(text) {
        // Sums of durations must fit into a clock.
        Ok(read) if read > CENTURY => complain(node, "this duration is longer than a century"),
        Ok(read) => Ok(read),
        Err(_) => {
            let message = format!("invalid duration {text:?}: expected numbers, each with a unit");
            complain_with(node, message, HINT)
        }
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Reads a duration that is not zero.
pub fn some_duration(node: &Node) -> Parsed<Duration> {
    let read = duration(node)?;
    if read.is_zero() {
        return complain(node, "this duration must not be zero");
    }
    Ok(read)
}

/// Reads a size such as `"64MiB"`, in bytes; at least `least`.
pub fn size(least: u64) -> impl Fn(&Node) -> Parsed<u64> {
    const HINT: &str = "sizes are strings with a unit: \"512KiB\", \"64MiB\", \"2GiB\", \"10MB\"";
    move |node| {
        takes(node, || Shape::Size)?;
        let Value::Text(text) = &node.value else {
            let found = format!("expected a size, found {}", node.kind());
            return complain_with(node, found, HINT);
        };
        match bytes(text) {
            Some(bytes) if bytes >= least => Ok(bytes),
            Some(_) => complain(
                node,
                format!("{text:?} is too small: at least {least} bytes"),
            ),
            None => complain_with(node, format!("invalid size {text:?}"), HINT),
        }
    }
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let unit: u64 = match unit.trim() {
        "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1000_u64.pow(2),
        "GB" => 1000_u64.pow(3),
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses one of a few words; `later` are words of the contract that do not work yet.
pub fn choice<T: Copy>(
    options: impl AsRef<[(&'static str, T)]>,
    later: &'static [&'static str],
) -> impl Fn(&Node) -> Parsed<T> {
    move |node| {
        let options = options.as_ref();
        takes(node, || {
            Shape::Choice(options.iter().map(|(name, _)| *name).collect())
        })?;
        let word = text(node)?;
        if let Some((_, value)) = options.iter().find(|(name, _)| *name == word) {
            return Ok(*value);
        }
        if later.contains(&word.as_str()) {
            return complain(node, format!("`{word}` is not supported yet"));
        }
        let names = || options.iter().map(|(name, _)| *name);
        let hint = match closest(&word, names()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => {
                let quoted: Vec<String> = names().map(|name| format!("\"{name}\"")).collect();
                format!("one of {}", quoted.join(", "))
            }
        };
        complain_with(node, format!("unknown value {word:?}"), hint)
    }
}

/// Reads the name of an environment variable that may be configured.
pub fn variable(node: &Node) -> Parsed<String> {
    takes(node, || Shape::Variable)?;
    let name = text(node)?;
    check_variable(&name).map_or(Ok(name.clone()), |why| complain(node, why))
}

/// Reads variables with their values.
pub fn environment(node: &Node) -> Parsed<BTreeMap<String, String>> {
    takes(node, || Shape::Variables)?;
    let Some(table) = node.table() else {
        return wrong_kind(node, "a table of variables");
    };
    let mut read = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, entry) in table {
        if let Some(why) = check_variable(name) {
            errors.push(Diagnostic::error(why).at(&entry.key));
        }
        match text(&entry.node) {
            Ok(value) => {
                read.insert(name.clone(), value);
            }
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() {
        Ok(read)
    } else {
        Err(errors)
    }
}

fn check_variable(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(fits)
    {
        return Some(format!("{name:?} is not the name of a variable"));
    }
    name.starts_with("HD_")
        .then(|| format!("{name} is set by the supervisor and cannot be configured"))
}

/// Reads the short name of a branch, safe in a ref and on a command line.
pub fn branch(node: &Node) -> Parsed<String> {
    let name = filled(node)?;
    if let Some(short) = name.strip_prefix("refs/heads/") {
        let hint = format!("write \"{short}\"");
        return complain_with(node, "expected a short branch name, found a full ref", hint);
    }
    if !is_branch_name(&name) {
        return complain(node, format!("{name:?} is not a valid branch name"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::parse;

    fn value(text: &str) -> Node {
        let root = parse(&format!("v = {text}"), 1).unwrap();
        root.table().unwrap()["v"].node.clone()
    }

    #[test]
    fn sizes_have_units_and_do_not_overflow() {
        let read = |text| size(1)(&value(text)).ok();
        assert_eq!(read("\"64MiB\""), Some(64 << 20));
        assert_eq!(read("\"10 kB\""), Some(10_000));
        assert_eq!(read("\"1B\""), Some(1));
        let too_large = "\"99999999999999999999GiB\"";
        for bad in [
            "\"64\"",
            "\"MiB\"",
            "\"1.5MiB\"",
            "64",
            "\"-1MiB\"",
            "\"0B\"",
            too_large,
        ] {
            assert_eq!(read(bad), None, "{bad} was accepted");
        }
    }

    #[test]
    fn durations_have_units() {
        let read = |text| duration(&value(text)).ok();
        assert_eq!(read("\"1h 30m\""), Some(Duration::from_secs(5400)));
        assert_eq!(read("\"0s\""), Some(Duration::ZERO));
        assert_eq!(read("30"), None);
        assert_eq!(read("\"30\""), None);
        assert!(some_duration(&value("\"0s\"")).is_err());
    }

    #[test]
    fn branches_that_git_or_a_command_line_would_misread_are_refused() {
        let read = |text: &str| branch(&value(text)).is_ok();
        assert!(read("\"main\""));
        assert!(read("\"release/1.x\""));
        for bad in [
            "\"\"",
            "\"-d\"",
            "\"a..b\"",
            "\"a b\"",
            "\"refs/heads/x\"",
            "\"x.lock\"",
            "\"a//b\"",
            "\"@\"",
            "\"a~1\"",
            "\"/a\"",
        ] {
            assert!(!read(bad), "{bad} was accepted");
        }
    }

    #[test]
    fn every_wrong_element_of_a_list_is_reported() {
        let errors = list(filled)(&value("[1, \"ok\", \"\", true]")).unwrap_err();
        assert_eq!(errors.len(), 3);
    }

    #[test]
    fn wrong_duration_is_told_with_its_value_and_what_is_expected() {
        for text in ["\"10x\"", "\"x\"", "\"30\""] {
            let errors = duration(&value(text)).unwrap_err();
            let said = format!("invalid duration {text}: expected numbers, each with a unit");
            assert_eq!(errors[0].message, said);
        }
    }
}
