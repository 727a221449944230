//! Checks the text of a commit as a remote does that checks objects.

use super::super::bytes;
use super::Fault;
use crate::domain::ids::Oid;

/// Returns the objects that lines of a commit's head name.
pub(super) fn named(commit: &[u8], key: &[u8]) -> Vec<Oid> {
    let lines = commit.split(|byte| *byte == b'\n');
    let head = lines.take_while(|line| !line.is_empty());
    let ids = head.filter_map(|line| line.strip_prefix(key));
    ids.filter_map(id_of).collect()
}

/// Reads an id as git does, in either case.
fn id_of(hex: &[u8]) -> Option<Oid> {
    Oid::new(bytes::lossy(hex).to_ascii_lowercase()).ok()
}

/// Returns the fault of a commit itself.
pub(super) fn commit_fault(text: &[u8]) -> Option<Fault> {
    let fault = |why: &str| Some(Fault::whole(why));
    let end = text.windows(2).position(|two| two == b"\n\n");
    let head = &text[..end.map_or(text.len(), |end| end + 1)];
    if text.contains(&0) {
        return fault("it contains a NUL byte");
    }
    if !head.ends_with(b"\n") {
        return fault("its header has no end");
    }
    let mut lines = head.split(|byte| *byte == b'\n').peekable();
    let is_id = |id: &[u8]| id_of(id).is_some();
    let is_named = |line: Option<&[u8]>, key: &[u8]| {
        line.and_then(|line| line.strip_prefix(key))
            .is_some_and(is_id)
    };
    if !is_named(lines.next(), b"tree ") {
        return fault("no tree line");
    }
    while lines
        .peek()
        .is_some_and(|line| line.starts_with(b"parent "))
    {
        if !is_named(lines.next(), b"parent ") {
            return fault("a malformed parent line");
        }
    }
    for (key, what) in [("author ", "author"), ("committer ", "committer")] {
        let line = lines
            .next()
            .and_then(|line| line.strip_prefix(key.as_bytes()));
        let Some(line) = line else {
            return fault(&format!("no {what} line"));
        };
        if let Some(why) = ident_fault(line) {
            let line = bytes::lossy(line);
            return fault(&format!("its {what} line is malformed ({why}): {line:?}"));
        }
        if lines
            .peek()
            .is_some_and(|line| line.starts_with(b"author "))
            && what == "author"
        {
            return fault("two author lines");
        }
    }
    None
}

/// Returns the fault of `<name> <<address>> <time> <zone>`.
fn ident_fault(line: &[u8]) -> Option<&'static str> {
    let stop = |text: &[u8]| text.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let Some(open) = stop(line) else {
        return Some("no address");
    };
    let (name, rest) = line.split_at(open);
    if rest[0] == b'>' {
        return Some("a > in the name");
    }
    match name.last() {
        None => return Some("no name"),
        Some(b' ') => {}
        Some(_) => return Some("no space before the address"),
    }
    let address = &rest[1..];
    let Some(close) = stop(address).filter(|at| address[*at] == b'>') else {
        return Some("an address without an end");
    };
    let Some(time) = address[close + 1..].strip_prefix(b" ") else {
        return Some("no space before the time");
    };
    let blanks = time.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let time = &time[blanks.count()..];
    let mut fields = time.splitn(2, |byte| *byte == b' ');
    let (time, zone) = (fields.next().unwrap_or_default(), fields.next());
    let number = std::str::from_utf8(time)
        .ok()
        .filter(|time| !time.is_empty() && time.bytes().all(|digit| digit.is_ascii_digit()));
    match number.map(str::parse::<i64>) {
        None | Some(Err(_)) => return Some("no time"),
        Some(Ok(_)) if time.len() > 1 && time[0] == b'0' => return Some("a time with zeros"),
        Some(Ok(_)) => {}
    }
    let is_zone = |zone: &[u8]| match zone.split_first() {
        Some((b'+' | b'-', digits)) => digits.len() == 4 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (!zone.is_some_and(is_zone)).then_some("no time zone")
}
