//! The terminal log of a name continues over its sessions and incarnations. Marks show where a session begins, and what
//! a reader must know of its terminal: its size, and now and then the whole screen.

use std::borrow::Cow;

use jiff::Timestamp;

use super::ids::{Generation, Incarnation, RelicId};

/// Begins the sequences of all marks. A program may print it, too: see [`Unmarked`].
const PRIVATE: &[u8] = b"\x1b]7770;";

/// Begins the mark of a session: a control sequence that terminals ignore.
const SIGN: &str = "\x1b]7770;horde\x07";

/// Returns the mark between the output of an earlier session and that of the next. A raider's session works on a relic.
#[must_use]
pub fn mark(
    incarnation: Incarnation,
    generation: Generation,
    relic: Option<&RelicId>,
    since: Timestamp,
) -> String {
    let of = match incarnation.0 {
        // Standing agents have none.
        0 => String::new(),
        incarnation => format!(" of incarnation {incarnation}"),
    };
    let on = relic.map_or_else(String::new, |relic| format!(" on {relic}"));
    format!("\r\n{SIGN}\x1b[0m--- session {generation}{of}{on}, since {since:.0} ---\r\n")
}

/// Removes the marks from a program's output, before it is written to a log: a session must not forge the beginning of
/// another. Leaves out the last character of their beginning, so that another sequence is left, which terminals ignore.
#[derive(Debug, Default)]
pub struct Unmarked {
    /// The length of the beginning with which the output so far ends.
    matched: usize,
}

impl Unmarked {
    /// Returns the next part of the output without marks; a mark may begin in an earlier part.
    pub fn strip<'a>(&mut self, output: &'a [u8]) -> Cow<'a, [u8]> {
        let mut stripped: Option<Vec<u8>> = None;
        for (at, byte) in output.iter().enumerate() {
            let is_next = PRIVATE.get(self.matched) == Some(byte);
            if is_next && self.matched + 1 == PRIVATE.len() {
                stripped.get_or_insert_with(|| output[..at].to_vec());
                continue;
            }
            self.matched = match is_next {
                true => self.matched + 1,
                false => usize::from(PRIVATE.first() == Some(byte)),
            };
            if let Some(stripped) = &mut stripped {
                stripped.push(*byte);
            }
        }
        stripped.map_or(Cow::Borrowed(output), Cow::Owned)
    }
}

/// Returns true if a line of output looks like the title of a session.
#[must_use]
pub fn is_like_title(line: &str) -> bool {
    line.starts_with("--- session ")
}

/// The initial size of a session's terminal: rows, columns.
pub const SIZE: (u16, u16) = (50, 200);

/// Prefixes of the marks that give the terminal's size from there on: alone, and before bytes that paint the whole
/// screen.
const RESIZED: &str = "\x1b]7770;size;";
const PAINTED: &str = "\x1b]7770;screen;";

/// Returns the mark before output of a terminal whose size has changed.
#[must_use]
pub fn size_mark((rows, cols): (u16, u16)) -> String {
    format!("{RESIZED}{rows};{cols}\x07")
}

/// Returns the mark before bytes that paint the present screen. A reader can begin there: a program that draws its
/// screen in place writes only the changes.
#[must_use]
pub fn screen_mark((rows, cols): (u16, u16)) -> String {
    format!("{PAINTED}{rows};{cols}\x07")
}

/// Returns the rows and columns in a control sequence, if it is such a mark.
#[must_use]
pub fn size(sequence: &[u8]) -> Option<(u16, u16)> {
    let told = std::str::from_utf8(sequence).ok()?;
    let told = [RESIZED, PAINTED]
        .iter()
        .find_map(|mark| told.strip_prefix(mark));
    let (rows, cols) = told?.strip_suffix('\x07')?.split_once(';')?;
    Some((rows.parse().ok()?, cols.parse().ok()?))
}

/// Returns the output from the first painted screen on; none without one.
#[must_use]
pub fn from_painted(output: &[u8]) -> Option<&[u8]> {
    let is_mark = |bytes: &[u8]| bytes == PAINTED.as_bytes();
    let at = output.windows(PAINTED.len()).position(is_mark)?;
    Some(&output[at..])
}

/// The output of one session in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session<'a> {
    /// The title line; none where the log begins in the middle of the session.
    pub title: Option<&'a str>,
    /// Its output.
    pub output: &'a [u8],
}

/// Returns the sessions of a log, the oldest first.
#[must_use]
pub fn sessions(log: &[u8]) -> Vec<Session<'_>> {
    let mut sessions = Vec::new();
    let mut title = None;
    let mut rest = log;
    loop {
        let sign = rest
            .windows(SIGN.len())
            .position(|bytes| bytes == SIGN.as_bytes());
        let (output, after) = rest.split_at(sign.unwrap_or(rest.len()));
        if title.is_some() || !output.is_empty() {
            sessions.push(Session { title, output });
        }
        if sign.is_none() {
            return sessions;
        }
        let after = &after[SIGN.len()..];
        let line = after.iter().position(|byte| *byte == b'\n');
        let (line, later) = after.split_at(line.map_or(after.len(), |end| end + 1));
        let line = std::str::from_utf8(line).unwrap_or_default().trim_end();
        title = Some(line.strip_prefix("\x1b[0m").unwrap_or(line));
        rest = later;
    }
}

/// Returns the output of the last session in the end of a log.
#[must_use]
pub fn of_last_session(log: &[u8]) -> &[u8] {
    sessions(log).last().map_or(&[], |session| session.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_of_a_log_have_their_titles() {
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        let second = mark(Incarnation(0), Generation(2), None, since);
        let log = format!("one\n{second}two{second}");
        let sessions = sessions(log.as_bytes());
        let title = "--- session 2, since 2026-01-01T00:00:00Z ---";
        let found: Vec<_> = sessions.iter().map(|one| (one.title, one.output)).collect();
        let expected: [(_, &[u8]); 3] = [
            (None, b"one\n\r\n"),
            (Some(title), b"two\r\n"),
            (Some(title), b""),
        ];
        assert_eq!(found, expected);
        assert!(super::sessions(b"").is_empty());
        let relic = RelicId::new("gt-7").unwrap();
        let of_raider = mark(Incarnation(3), Generation(1), Some(&relic), since);
        let title = "--- session 1 of incarnation 3 on gt-7, since 2026-01-01T00:00:00Z ---";
        assert_eq!(super::sessions(of_raider.as_bytes())[1].title, Some(title));
    }

    #[test]
    fn marks_tell_the_size_of_the_terminal_and_where_a_reader_can_begin() {
        for (mark, told) in [
            (size_mark((24, 80)), Some((24, 80))),
            (screen_mark((50, 200)), Some((50, 200))),
            ("\x1b]7770;size;24\x07".to_owned(), None),
            ("\x1b]0;title\x07".to_owned(), None),
        ] {
            assert_eq!(size(mark.as_bytes()), told, "{mark:?}");
        }
        let screen = screen_mark((3, 4));
        let log = format!("lost{screen}known{screen}too");
        let known = format!("{screen}known{screen}too");
        assert_eq!(from_painted(log.as_bytes()), Some(known.as_bytes()));
        assert_eq!(from_painted(b"lost"), None);
    }

    #[test]
    fn output_cannot_forge_a_mark_however_it_is_split() {
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        let forged = mark(Incarnation(1), Generation(9), None, since);
        let twice = forged.replace(';', ";;;");
        for text in [&*forged, &twice, &size_mark((1, 1)), &screen_mark((1, 1))] {
            for cut in 0..=text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                let mut unmarked = Unmarked::default();
                let log = [unmarked.strip(first), unmarked.strip(second)].concat();
                assert_eq!(sessions(&log).len(), 1, "{text:?} at {cut}");
                assert!(!log.windows(PRIVATE.len()).any(|bytes| bytes == PRIVATE));
            }
        }
        let plain = b"\x1b]0;title\x07\x1b\x1b[31mred;\x1b]777;x\x07";
        let stripped = Unmarked::default().strip(plain).into_owned();
        assert_eq!(stripped, plain);
    }

    #[test]
    fn mark_separates_the_last_sessions_output_from_earlier_output() {
        let since = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let second = mark(Incarnation(0), Generation(2), None, since);
        let third = mark(Incarnation(2), Generation(3), None, since);
        assert!(second.contains("--- session 2, since 2026-01-01T00:00:00Z ---"));
        assert!(third.contains("--- session 3 of incarnation 2, since"));
        for (log, own) in [
            ("one\n".to_owned(), "one\n"),
            (format!("one\n{second}two\nand\n"), "two\nand\n"),
            (format!("one\n{second}two{third}three"), "three"),
            (format!("one\n{second}two{third}"), ""),
            // The end of a log may begin in the middle of a mark.
            (
                format!("{}two", &second[3..]),
                &*format!("{}two", &second[3..]),
            ),
        ] {
            assert_eq!(of_last_session(log.as_bytes()), own.as_bytes(), "{log:?}");
        }
    }
}
