//! The terminal log of a name goes on over its sessions and incarnations; a mark tells where one begins.

use jiff::Timestamp;

use super::ids::{Generation, Incarnation};

/// Begins every mark: a control that terminals take no notice of, and that programs do not print.
const SIGN: &str = "\x1b]7770;horde\x07";

/// What is written between the output of an earlier session and that of this one.
#[must_use]
pub fn mark(incarnation: Incarnation, generation: Generation, since: Timestamp) -> String {
    let of = match incarnation.0 {
        // Standing agents have none.
        0 => String::new(),
        incarnation => format!(" of incarnation {incarnation}"),
    };
    format!("\r\n{SIGN}\x1b[0m--- session {generation}{of}, since {since:.0} ---\r\n")
}

/// What the last session wrote, of the end of a log.
#[must_use]
pub fn of_last_session(log: &[u8]) -> &[u8] {
    let is_sign = |bytes: &[u8]| bytes == SIGN.as_bytes();
    let Some(sign) = log.windows(SIGN.len()).rposition(is_sign) else {
        return log;
    };
    let rest = &log[sign..];
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => &rest[end + 1..],
        None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_the_last_sessions_output_from_what_was_before() {
        let since = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let second = mark(Incarnation(0), Generation(2), since);
        let third = mark(Incarnation(2), Generation(3), since);
        assert!(second.contains("--- session 2, since 2026-01-01T00:00:00Z ---"));
        assert!(third.contains("--- session 3 of incarnation 2, since"));
        for (log, own) in [
            ("one\n".to_owned(), "one\n"),
            (format!("one\n{second}two\nand\n"), "two\nand\n"),
            (format!("one\n{second}two{third}three"), "three"),
            (format!("one\n{second}two{third}"), ""),
            // The end of a log may begin in the middle of one.
            (
                format!("{}two", &second[3..]),
                &*format!("{}two", &second[3..]),
            ),
        ] {
            assert_eq!(of_last_session(log.as_bytes()), own.as_bytes(), "{log:?}");
        }
    }
}
