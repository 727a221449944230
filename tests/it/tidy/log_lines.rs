//! Log lines that can be understood without their source: a warning or error about "a session" names it.

use super::source::Source;
use super::{below, expect_none};

/// The macros of warnings and errors, and the number of their arguments before the fields.
const MACROS: &[(&str, usize)] = &[
    ("tracing::warn!(", 0),
    ("tracing::error!(", 0),
    ("or_warn!(", 1),
];
/// Fields that say what went wrong, and not with what.
const REASONS: &[&str] = &[
    "error", "why", "panic", "says", "hint", "limit", "wait", "delay", "target",
];
/// Words that open the name of a thing of which there are several.
const ARTICLES: &[&str] = &["a", "an"];

/// Returns the arguments of the macro call whose text begins here, as ranges of characters.
fn arguments(code: &[char], begin: usize) -> Vec<(usize, usize)> {
    let (mut depth, mut from, mut found) = (0_usize, begin, Vec::new());
    for (at, character) in code.iter().enumerate().skip(begin) {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                found.push((from, at));
                break;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push((from, at));
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

fn names_a_thing(field: &str) -> bool {
    let name = field.split('=').next().unwrap_or_default().trim();
    let name = name.trim_start_matches(['%', '?']);
    let last = name.rsplit('.').next().unwrap_or_default();
    !last.is_empty() && !REASONS.contains(&last) && !name.ends_with(':')
}

fn nameless(source: &Source) -> Vec<String> {
    let text: Vec<char> = source.text.chars().collect();
    let code: Vec<char> = source.code.chars().collect();
    let (mut found, mut offset) = (Vec::new(), 0);
    for (index, line) in source.code.lines().enumerate() {
        for (name, skipped) in MACROS {
            let Some(at) = line.find(name).filter(|_| !source.test[index]) else {
                continue;
            };
            let column = line[..at].chars().count() + name.len();
            let given = arguments(&code, offset + column);
            let of = |all: &[char], (from, to): (usize, usize)| {
                all[from..to].iter().collect::<String>().trim().to_owned()
            };
            // The inside of strings is blank in the code.
            let fields = given.into_iter().skip(*skipped);
            let (messages, fields): (Vec<(usize, usize)>, Vec<_>) =
                fields.partition(|range| of(&code, *range).is_empty());
            let message: String = messages.iter().map(|range| of(&text, *range)).collect();
            let of_many = message
                .split_whitespace()
                .any(|word| ARTICLES.contains(&word.trim_start_matches('"')));
            let is_named = message.contains('{')
                || fields.iter().any(|range| names_a_thing(&of(&code, *range)));
            if of_many && !is_named {
                found.push(format!("{}:{}: {message}", source.name, index + 1));
            }
        }
        offset += line.chars().count() + 1;
    }
    found
}

#[test]
fn warnings_about_one_of_many_things_name_it() {
    let broken: Vec<_> = below("src/").flat_map(nameless).collect();
    expect_none(
        "a warning or error about \"a session\" has a field that names the session",
        &broken,
    );
}

#[test]
fn warning_that_names_nothing_is_caught() {
    let count = |text: &str| nameless(&Source::new("src/x.rs", text)).len();
    for (text, caught) in [
        (r#"tracing::warn!(%error, "a session cannot be read");"#, 1),
        (
            r#"tracing::warn!(%session, %error, "a session cannot be read");"#,
            0,
        ),
        (
            r#"tracing::warn!(%error, "a session cannot be read: {id}");"#,
            0,
        ),
        (
            r#"tracing::error!(error = %why, "the end of a session is lost");"#,
            1,
        ),
        (
            r#"tracing::error!(child = %id, "the end of a session is lost");"#,
            0,
        ),
        (
            r#"or_warn!(read(a, b).await, "an escalation stays open");"#,
            1,
        ),
        (
            r#"or_warn!(read(a, b).await, rig = %args.rig, "an escalation stays open");"#,
            0,
        ),
        (
            r#"tracing::warn!(%error, "the sessions cannot be listed");"#,
            0,
        ),
        (r#"tracing::info!("a session began");"#, 0),
        (
            "tracing::warn!(\n    %error,\n    \"the park of an account \\\n    is lost\"\n);",
            1,
        ),
    ] {
        assert_eq!(count(text), caught, "{text}");
    }
}
