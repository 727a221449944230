//! Plain English of doc comments: each begins with a verb or a noun, so that its subject is a thing that a reader
//! can look up, and none has a subject without a name.

use super::source::Source;
use super::{all, expect_none};

/// Words that open a relative clause without its noun, or name nothing.
const BANNED: &[&str] = &[
    "Who", "Whoever", "What", "Whatever", "Which", "Those", "Where", "How", "Nobody", "Somebody",
    "Someone", "One", "Whether",
];

/// Words for people that hide which program or person acts.
const NAMELESS: &[&str] = &["nobody", "somebody", "anybody", "whoever"];

fn broken(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    // A doc comment's first line follows a line that is none.
    let mut inside = false;
    for (number, line) in source.text.lines().enumerate() {
        let line = line.trim_start();
        let text = line.strip_prefix("/// ").or(line.strip_prefix("//! "));
        let is_doc = line.starts_with("///") || line.starts_with("//!");
        let first = text.and_then(|text| text.split(|c: char| !c.is_alphanumeric()).next());
        let mut words = text
            .unwrap_or_default()
            .split(|c: char| !c.is_alphanumeric());
        let is_nameless = words.any(|word| NAMELESS.contains(&word.to_lowercase().as_str()));
        if is_nameless || (!inside && first.is_some_and(|first| BANNED.contains(&first))) {
            let number = number + 1;
            found.push(format!("{}:{number} {line}", source.name));
        }
        inside = is_doc;
    }
    found
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let broken: Vec<_> = all().iter().flat_map(broken).collect();
    expect_none(
        "a doc comment begins with a verb or a noun (tests/it/tidy/english.rs)",
        &broken,
    );
}

#[test]
fn doc_comment_that_opens_with_a_banned_word_is_caught() {
    let count = |text: &str| broken(&Source::new("src/x.rs", text)).len();
    assert_eq!(count("/// What it holds.\nstruct X;\n"), 1);
    assert_eq!(count("//! Who calls.\n"), 1);
    assert_eq!(
        count("/// Returns the owner.\n/// What follows is prose.\nstruct X;\n"),
        0
    );
    assert_eq!(count("/// Whatsoever.\n"), 0);
    assert_eq!(count("/// A branch that nobody has.\n"), 1);
    assert_eq!(count("// What a plain comment says.\n"), 0);
}
