//! A Rust file as the rules see it: code without the text of its strings and comments, and the lines that belong to
//! tests.

/// A file.
pub struct Source {
    /// Its path in the package.
    pub name: String,
    /// The text unchanged.
    pub text: String,
    /// The text with the inside of comments, strings and characters blanked out, with the same lines.
    pub code: String,
    /// For each line, true if it belongs to tests only.
    pub test: Vec<bool>,
}

impl Source {
    /// Reads a file's text.
    pub fn new(name: &str, text: &str) -> Self {
        let code = blank(text);
        let in_tests = name.starts_with("tests/")
            || name.starts_with("src/testing/")
            || name.contains("/tests/")
            || name.contains("/testing/")
            || name.ends_with("tests.rs")
            || mentions_itself_as_test(name);
        let test = match in_tests {
            true => vec![true; code.lines().count()],
            false => test_lines(&code),
        };
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            code,
            test,
        }
    }

    /// Returns the lines of code that ship, with their numbers.
    pub fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.lines().enumerate();
        let shipped = lines.filter(|(index, _)| !self.test[*index]);
        shipped.map(|(index, line)| (index + 1, line))
    }

    /// Returns all lines of code, with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.lines().enumerate();
        lines.map(|(index, line)| (index + 1, line))
    }
}

/// Returns whether the module is declared under `#[cfg(test)]` in the file above it.
fn mentions_itself_as_test(name: &str) -> bool {
    let path = super::root().join(name);
    let (Some(stem), Some(dir)) = (path.file_stem(), path.parent()) else {
        return false;
    };
    let stem = stem.to_string_lossy();
    let above = [
        dir.join("mod.rs"),
        dir.join("lib.rs"),
        dir.with_extension("rs"),
    ];
    above.iter().any(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        lines.windows(2).any(|pair| {
            let declared = pair[1].trim_start_matches("pub ");
            pair[0].starts_with("#[cfg(")
                && pair[0].contains("test")
                && declared == format!("mod {stem};")
        })
    })
}

/// Marks the items under `#[cfg(test)]` and the functions under `#[test]`.
fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut test = vec![false; lines.len()];
    let mut index = 0;
    while index < lines.len() {
        if !lines[index].trim_start().starts_with("#[cfg(test)]") {
            index += 1;
            continue;
        }
        let end = end_of_item(&lines, index);
        test[index..=end].fill(true);
        index = end + 1;
    }
    test
}

/// Returns the line on which the item that begins here ends: its closing brace, or its semicolon.
pub fn end_of_item(lines: &[&str], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, line) in lines.iter().enumerate().skip(start) {
        for character in line.chars() {
            match character {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => return index,
                _ => continue,
            }
            if depth == 0 && character == '}' {
                return index;
            }
        }
    }
    lines.len().saturating_sub(1)
}

/// Blanks the inside of comments, strings and characters.
pub fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = out.chars().next_back().unwrap_or(' ');
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest, before) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' && is_character(rest) {
            quoted(rest, '\'')
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (inside, after) = rest.split_at(taken);
        out.extend(inside.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    out
}

/// Returns the length of the raw string that begins here.
fn raw_string(rest: &str, before: char) -> Option<usize> {
    let inner = rest.strip_prefix('r')?;
    let hashes = inner.len() - inner.trim_start_matches('#').len();
    let word = before.is_alphanumeric() && before != 'b' || before == '_';
    if word || !inner[hashes..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = &inner[hashes + 1..];
    let end = body
        .find(&close)
        .map_or(body.len(), |end| end + close.len());
    Some(1 + hashes + 1 + end)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return index + quote.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// Returns whether this is a character rather than a lifetime.
fn is_character(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    match characters.next() {
        Some('\\') => true,
        Some(_) => characters.next() == Some('\''),
        None => false,
    }
}

#[test]
fn words_in_comments_and_strings_are_not_code() {
    let code = blank("a // b\n\"c \\\" d\" 'e' '\\'' &'f g r#\"h \" i\"# /* j\nk */ l");
    assert_eq!(
        code.split_whitespace().collect::<Vec<_>>(),
        ["a", "&'f", "g", "l"]
    );
    assert_eq!(code.lines().count(), 3);
}

#[test]
fn tests_in_a_file_are_told_from_shipped_code() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
    let source = Source::new("src/x.rs", text);
    let shipped: Vec<_> = source.shipped().map(|(number, _)| number).collect();
    assert_eq!(shipped, [1, 6]);
}
