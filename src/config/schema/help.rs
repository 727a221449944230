//! The comments of `config/default.toml`, as descriptions of keys.

/// The name of the tables of patches in the default file, which has no defaults for them.
pub const PATCHES: &str = "[[patches.agents]]";

/// Returns the comment above a key, given a place in its line. Keys that stand together share the comment of the first.
pub fn above(text: &str, at: usize) -> Option<String> {
    let line = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let upwards = text.get(..line)?.lines().rev();
    let upwards = upwards.skip_while(|line| is_key(line));
    let mut comment: Vec<&str> = upwards.take_while(|line| line.starts_with('#')).collect();
    comment.reverse();
    comment.retain(|line| example(line).is_none());
    said(&comment)
}

/// Returns the words beside a required key, which the section around a place has as an example: `# name = "test"  Required.`
pub fn of_required(text: &str, somewhere: usize, key: &str) -> Option<String> {
    let is_header = |line: &str| line.starts_with('[');
    let start = text.get(..somewhere)?;
    let start = start.rfind("\n[").unwrap_or_default();
    let mut lines = text
        .get(start..)?
        .lines()
        .skip_while(|line| line.is_empty());
    let header = lines.next().into_iter().filter(|line| !is_header(line));
    let section = header.chain(lines.take_while(|line| !is_header(line)));
    let mut found = section.filter_map(example);
    let (_, value) = found.find(|(name, _)| *name == key)?;
    let (_, words) = value.split_once("  ")?;
    Some(words.trim().to_owned())
}

/// Returns the comment that contains some words.
pub fn around(text: &str, words: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let found = lines.iter().position(|line| line.contains(words))?;
    let is_comment = |line: &&&str| line.starts_with('#');
    let before = lines[..found].iter().rev().take_while(is_comment).count();
    let comment = lines[found - before..].iter().take_while(is_comment);
    said(&comment.copied().collect::<Vec<_>>())
}

fn said(comment: &[&str]) -> Option<String> {
    let words = comment.iter().map(|line| line.trim_start_matches("# "));
    let words = words.collect::<Vec<_>>().join("\n");
    (!words.is_empty()).then_some(words)
}

fn is_key(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Splits a key that is commented out: its name, and the value with what follows.
fn example(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("# ")?.split_once(" = ")?;
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_name.then_some((name, value))
}
