//! Parses a JSON text to values with their positions.

use std::ops::Range;

use serde_json::Value;

use super::Unchangeable;

/// Deeper nesting is refused.
const DEPTH_MAX: usize = 128;

/// A value with its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// The range of its bytes.
    pub span: Range<usize>,
    /// Its kind.
    pub kind: Kind,
    /// The position after the last member or element and its comma, if it has one; without any, the position for the
    /// first.
    pub tail: usize,
    /// Set when a comma follows the last member or element.
    pub comma: bool,
}

/// The kind of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Keys with their positions, and their values, in the order of the text.
    Object(Vec<(String, usize, Node)>),
    /// Elements.
    Array(Vec<Node>),
    /// A string, number, boolean or null.
    Scalar,
}

impl Node {
    /// Returns the member of this key; the last of several, as programs read it.
    pub fn take_member(self, wanted: &str) -> Option<Self> {
        let Kind::Object(members) = self.kind else {
            return None;
        };
        let mut members = members.into_iter().rev();
        let found = members.find(|(key, _, _)| key == wanted);
        found.map(|(_, _, value)| value)
    }
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Node, Unchangeable> {
    let mut reader = Reader { text, at: 0 };
    if text.starts_with('\u{feff}') {
        reader.at = '\u{feff}'.len_utf8();
    }
    reader.blank()?;
    let node = reader.value(0)?;
    reader.blank()?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.error("something follows the value")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, what: &'static str) -> Unchangeable {
        let line = self.text[..self.at].matches('\n').count() + 1;
        Unchangeable::Malformed { line, what }
    }

    /// Skips white space and comments.
    fn blank(&mut self) -> Result<(), Unchangeable> {
        loop {
            let rest = self.rest();
            let skipped = if rest.starts_with([' ', '\t', '\n', '\r']) {
                1
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                end.ok_or_else(|| self.error("a comment does not end"))? + 2
            } else {
                return Ok(());
            };
            self.at += skipped;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Unchangeable> {
        if depth > DEPTH_MAX {
            return Err(self.error("too many values within values"));
        }
        match self.peek() {
            Some(b'{') => self.bracketed(depth, b'}'),
            Some(b'[') => self.bracketed(depth, b']'),
            _ => {
                let span = self.scalar()?;
                Ok(Node {
                    tail: span.end,
                    span,
                    kind: Kind::Scalar,
                    comma: false,
                })
            }
        }
    }

    fn bracketed(&mut self, depth: usize, close: u8) -> Result<Node, Unchangeable> {
        let start = self.at;
        self.at += 1;
        let (mut tail, mut comma) = (self.at, false);
        let (mut members, mut items) = (Vec::new(), Vec::new());
        loop {
            self.blank()?;
            if self.peek() == Some(close) {
                self.at += 1;
                break;
            }
            let first = members.is_empty() && items.is_empty();
            if !first && !comma {
                return Err(self.error("a comma is missing"));
            }
            match close {
                b'}' => members.push(self.member(depth)?),
                _ => items.push(self.value(depth + 1)?),
            }
            tail = self.at;
            self.blank()?;
            comma = self.peek() == Some(b',');
            if comma {
                self.at += 1;
                tail = self.at;
            }
        }
        Ok(Node {
            span: start..self.at,
            kind: match close {
                b'}' => Kind::Object(members),
                _ => Kind::Array(items),
            },
            tail,
            comma,
        })
    }

    fn member(&mut self, depth: usize) -> Result<(String, usize, Node), Unchangeable> {
        if self.peek() != Some(b'"') {
            return Err(self.error("a key in quotes is missing"));
        }
        let span = self.scalar()?;
        let start = span.start;
        let key = serde_json::from_str::<String>(&self.text[span]);
        let key = key.map_err(|_| self.error("this is not a key"))?;
        self.blank()?;
        if self.peek() != Some(b':') {
            return Err(self.error("a colon is missing"));
        }
        self.at += 1;
        self.blank()?;
        Ok((key, start, self.value(depth + 1)?))
    }

    fn scalar(&mut self) -> Result<Range<usize>, Unchangeable> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        if self.peek() == Some(b'"') {
            self.at += 1;
            while let Some(byte) = self.peek().filter(|byte| *byte != b'"') {
                self.at += if byte == b'\\' { 2 } else { 1 };
            }
            // After the closing quote, and never after the end.
            self.at = (self.at + 1).min(bytes.len());
        } else {
            let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:{}[]\"/".contains(byte);
            let length = bytes[start..].iter().position(ends);
            self.at = length.map_or(bytes.len(), |length| start + length);
        }
        let read = self.text.get(start..self.at);
        match read.map(serde_json::from_str::<Value>) {
            Some(Ok(_)) => Ok(start..self.at),
            _ => {
                self.at = start;
                Err(self.error("this is not a value"))
            }
        }
    }
}
