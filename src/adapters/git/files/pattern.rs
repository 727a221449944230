//! Patterns of ignore lists, exactly as git understands them (gitignore(5)): `{a,b}` stands for itself, a tab at the
//! end belongs to the pattern, a set matches no `/`. An invalid pattern matches nothing, so that it hides nothing.
//! Case always counts, although an agent may configure otherwise.
//!
//! A match costs at most the pattern's length times that of the path, whatever an agent writes.

use std::ops::RangeInclusive;

/// A list of patterns, in its order: the last one that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct List(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// Set when it shows again what an earlier one hides.
    negative: bool,
    /// Set when it matches only directories.
    only_dirs: bool,
    /// Set when it is compared with the whole path below its directory; otherwise with the last name of the path.
    whole: bool,
    parts: Vec<Part>,
}

/// An element of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// This byte.
    Byte(u8),
    /// A byte that is no `/`.
    Any,
    /// Bytes that are no `/`, or nothing.
    Run,
    /// Any bytes, or nothing.
    Deep,
    /// Any bytes that end with a `/`, or nothing.
    Dirs,
    /// A byte of a set; never a `/`.
    Set(Set),
}

/// A set of bytes in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    negated: bool,
    ranges: Vec<RangeInclusive<u8>>,
}

impl List {
    /// Reads a list. Skips lines that are no patterns.
    pub(in super::super) fn read(text: &[u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        // git reads a line up to its first NUL.
        let lines = lines.map(|line| line.split(|byte| *byte == 0).next().unwrap_or_default());
        Self(lines.filter_map(Pattern::read).collect())
    }

    /// Returns a list that shows everything.
    pub(in super::super) fn shows_all() -> Self {
        Self::read(b"!*")
    }

    /// The number of patterns.
    pub(in super::super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the list hides the path (relative to its directory), false if it shows it; none if no pattern
    /// matches.
    pub(in super::super) fn hides(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let found = self.0.iter().rev().find(|it| it.matches(path, is_dir))?;
        Some(!found.negative)
    }
}

impl Pattern {
    fn read(line: &[u8]) -> Option<Self> {
        if line.starts_with(b"#") {
            return None;
        }
        let line = without_spaces(line);
        let (negative, line) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (only_dirs, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let whole = line.contains(&b'/');
        let parts = parts(line.strip_prefix(b"/").unwrap_or(line))?;
        (!parts.is_empty()).then_some(Self {
            negative,
            only_dirs,
            whole,
            parts,
        })
    }

    fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.only_dirs && !is_dir {
            return false;
        }
        let name = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) if !self.whole => &path[slash + 1..],
            _ => path,
        };
        fits(&self.parts, name)
    }
}

/// Removes the spaces at the end of a line, except those behind a backslash.
fn without_spaces(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            // A backslash at the very end escapes nothing, and the spaces before it stay.
            b'\\' if at + 1 == line.len() => return line,
            b'\\' => {
                at += 2;
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

/// Parses the parts of a pattern; none if it can match nothing.
fn parts(pattern: &[u8]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut at = 0;
    // git compares the text before the first of these separately, and takes the rest for a pattern of its own.
    let mut is_first = true;
    while let Some(byte) = pattern.get(at) {
        at += 1;
        let part = match byte {
            b'\\' => {
                at += 1;
                Part::Byte(*pattern.get(at - 1)?)
            }
            b'?' => Part::Any,
            b'[' => {
                let (set, end) = set(pattern, at)?;
                at = end;
                Part::Set(set)
            }
            b'*' => {
                let begins =
                    is_first || matches!(parts.last(), Some(Part::Byte(b'/') | Part::Dirs));
                let stars = pattern[at..]
                    .iter()
                    .take_while(|byte| **byte == b'*')
                    .count();
                at += stars;
                match &pattern[at..] {
                    _ if stars == 0 || !begins => Part::Run,
                    [] | [b'\\', b'/', ..] => Part::Deep,
                    [b'/', ..] => {
                        at += 1;
                        Part::Dirs
                    }
                    _ => Part::Run,
                }
            }
            byte => {
                parts.push(Part::Byte(*byte));
                continue;
            }
        };
        is_first = false;
        parts.push(part);
    }
    Some(parts)
}

/// Parses the set whose bracket is before `at`. Returns it with the position after it; none if it has no end, or
/// names an unknown class.
fn set(pattern: &[u8], mut at: usize) -> Option<(Set, usize)> {
    let negated = matches!(pattern.get(at)?, b'!' | b'^');
    at += usize::from(negated);
    let mut ranges = Vec::new();
    // The byte that a range may begin with.
    let mut from = None;
    loop {
        let byte = *pattern.get(at)?;
        at += 1;
        let next = pattern.get(at).copied();
        match (byte, from) {
            (b'\\', _) => {
                let byte = next?;
                at += 1;
                ranges.push(byte..=byte);
                from = Some(byte);
            }
            (b'-', Some(low)) if next.is_some_and(|next| next != b']') => {
                let mut high = next?;
                at += 1;
                if high == b'\\' {
                    high = *pattern.get(at)?;
                    at += 1;
                }
                ranges.push(low..=high);
                from = None;
            }
            (b'[', _) if next == Some(b':') => {
                let name = &pattern[at + 1..];
                let end = name.iter().position(|byte| *byte == b']')?;
                match name[..end].strip_suffix(b":") {
                    Some(name) => {
                        ranges.extend(class(name)?.iter().cloned());
                        at += 1 + end + 1;
                        from = None;
                    }
                    // Without its end it is a plain bracket.
                    None => {
                        ranges.push(byte..=byte);
                        from = Some(byte);
                    }
                }
            }
            (byte, _) => {
                ranges.push(byte..=byte);
                from = Some(byte);
            }
        }
        if *pattern.get(at)? == b']' {
            return Some((Set { negated, ranges }, at + 1));
        }
    }
}

/// Returns the bytes of a named class.
fn class(name: &[u8]) -> Option<&'static [RangeInclusive<u8>]> {
    Some(match name {
        b"alnum" => &[b'0'..=b'9', b'A'..=b'Z', b'a'..=b'z'],
        b"alpha" => &[b'A'..=b'Z', b'a'..=b'z'],
        b"blank" => &[b' '..=b' ', b'\t'..=b'\t'],
        b"cntrl" => &[0..=0x1f, 0x7f..=0x7f],
        b"digit" => &[b'0'..=b'9'],
        b"graph" => &[0x21..=0x7e],
        b"lower" => &[b'a'..=b'z'],
        b"print" => &[0x20..=0x7e],
        b"punct" => &[0x21..=0x2f, 0x3a..=0x40, 0x5b..=0x60, 0x7b..=0x7e],
        b"space" => &[b' '..=b' ', b'\t'..=b'\n', b'\r'..=b'\r'],
        b"upper" => &[b'A'..=b'Z'],
        b"xdigit" => &[b'0'..=b'9', b'A'..=b'F', b'a'..=b'f'],
        _ => return None,
    })
}

impl Part {
    /// Returns true if this part, which matches one byte, matches this one.
    fn is(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::Any => byte != b'/',
            Self::Set(set) => {
                let within = set.ranges.iter().any(|range| range.contains(&byte));
                byte != b'/' && within != set.negated
            }
            Self::Run | Self::Deep | Self::Dirs => false,
        }
    }

    /// Returns true if the part matches any number of bytes, this one among them.
    fn spans(&self, byte: u8) -> bool {
        match self {
            Self::Run => byte != b'/',
            Self::Deep | Self::Dirs => true,
            Self::Byte(_) | Self::Any | Self::Set(_) => false,
        }
    }
}

/// Returns true if the parts match this text.
fn fits(parts: &[Part], text: &[u8]) -> bool {
    let plain = parts
        .iter()
        .take_while(|part| matches!(part, Part::Byte(_)));
    let plain = plain.count();
    let Some((head, text)) = text.split_at_checked(plain) else {
        return false;
    };
    if !are(&parts[..plain], head) {
        return false;
    }
    match &parts[plain..] {
        [] => text.is_empty(),
        [Part::Run, end @ ..] if end.iter().all(|part| matches!(part, Part::Byte(_))) => {
            let cut = text.len().checked_sub(end.len());
            cut.is_some_and(|cut| are(end, &text[cut..]) && !text[..cut].contains(&b'/'))
        }
        parts => runs(parts, text),
    }
}

/// Returns true if the parts, which match one byte each, match this text of the same length.
fn are(parts: &[Part], text: &[u8]) -> bool {
    parts.iter().zip(text).all(|(part, byte)| part.is(*byte))
}

/// Matches byte by byte, with the set of all possible numbers of parts that match the text so far.
fn runs(parts: &[Part], text: &[u8]) -> bool {
    let mut now = vec![false; parts.len() + 1];
    let mut next = now.clone();
    enter(parts, &mut now, 0);
    for byte in text {
        next.fill(false);
        for (nth, part) in parts.iter().enumerate().filter(|(nth, _)| now[*nth]) {
            let is_over = match part {
                Part::Run | Part::Deep => part.spans(*byte),
                Part::Dirs => *byte == b'/',
                Part::Byte(_) | Part::Any | Part::Set(_) => part.is(*byte),
            };
            if is_over {
                enter(parts, &mut next, nth + 1);
            }
            next[nth] |= part.spans(*byte);
        }
        std::mem::swap(&mut now, &mut next);
    }
    now[parts.len()]
}

/// Marks `count` as reached, and the numbers after it as long as the following parts may match nothing.
fn enter(parts: &[Part], reached: &mut [bool], count: usize) {
    let mut counts = count..=parts.len();
    for count in counts.by_ref() {
        reached[count] = true;
        match parts.get(count) {
            Some(Part::Run | Part::Deep | Part::Dirs) => {}
            Some(Part::Byte(_) | Part::Any | Part::Set(_)) | None => return,
        }
    }
}

#[cfg(test)]
mod tests;
