//! Sessions that are older than `max_session`: each is asked to hand off, and never forced.

use std::time::Duration;

use jiff::fmt::friendly::SpanPrinter;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ids::RelicId;

/// The time between two requests to the same session.
const PAUSE: Duration = Duration::from_secs(30 * 60);
/// The most requests to one session: an agent that hands off after none of them is left alone.
const MOST: u32 = 3;

/// The requests to a session, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Identifies the session.
    pub token: String,
    /// When it was asked last.
    pub at: Timestamp,
    /// The number of requests.
    pub times: u32,
}

impl Asked {
    /// Returns the record after one more request to this session.
    #[must_use]
    pub fn once_more(before: Option<&Self>, token: &str, at: Timestamp) -> Self {
        let before = before.filter(|asked| asked.token == token);
        Self {
            token: token.to_owned(),
            at,
            times: before.map_or(0, |asked| asked.times) + 1,
        }
    }
}

/// Returns the age of a session that is to be asked now to hand off; none for one that is young, or was asked.
#[must_use]
pub fn is_due(
    limit: Duration,
    (token, started): (&str, Timestamp),
    asked: Option<&Asked>,
    now: Timestamp,
) -> Option<Duration> {
    let since = |time: Timestamp| Duration::try_from(now.duration_since(time)).unwrap_or_default();
    let age = since(started);
    let rests = asked
        .filter(|asked| asked.token == token)
        .is_some_and(|asked| asked.times >= MOST || since(asked.at) < PAUSE);
    (age >= limit && !rests).then_some(age)
}

/// Returns the message to a session of this age. `hd` is the command as any shell finds it.
#[must_use]
pub fn text(relic: &RelicId, age: Duration, hd: &str) -> String {
    let minutes = age.as_secs() / 60;
    let age = SignedDuration::from_mins(i64::try_from(minutes).unwrap_or(i64::MAX / 60));
    let age = SpanPrinter::new().duration_to_string(&age);
    format!(
        "From the supervisor: this session on {relic} is {age} old, and a fresh one works better. When your present change is \
         complete, commit it, and hand off with `{hd} handoff -m \"what is done, what is left\"`: the note is saved first, and \
         the next session continues in this worktree. If you are nearly finished, finish instead."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    /// A row: minutes since the start; the session that was asked, when and how often; and whether it is asked now.
    #[test]
    fn old_session_is_asked_a_few_times_and_then_left_alone() {
        let rows = [
            (59, None, false),
            (60, None, true),
            (60, Some(("earlier", 59, 3)), true),
            (70, Some(("this", 60, 1)), false),
            (90, Some(("this", 60, 1)), true),
            (90, Some(("this", 60, 3)), false),
            (9_000, Some(("this", 60, 3)), false),
        ];
        let hour = Duration::from_secs(3600);
        for (now, asked, expected) in rows {
            let asked = asked.map(|(token, minutes, times)| Asked {
                token: String::from(token),
                at: at(minutes),
                times,
            });
            let due = is_due(hour, ("this", at(0)), asked.as_ref(), at(now));
            assert_eq!(due.is_some(), expected, "{now} {asked:?}");
        }
    }

    #[test]
    fn requests_are_counted_per_session() {
        let first = Asked::once_more(None, "one", at(1));
        let second = Asked::once_more(Some(&first), "one", at(2));
        let other = Asked::once_more(Some(&second), "two", at(3));
        assert_eq!((first.times, second.times, other.times), (1, 2, 1));
    }

    #[test]
    fn message_says_how_to_hand_off_and_that_the_note_comes_first() {
        let relic = RelicId::new("gt-1").unwrap();
        let said = text(&relic, Duration::from_secs(4 * 3600 + 59), "/bin/hd");
        assert!(
            said.contains("gt-1 is 4h old") && said.contains("`/bin/hd handoff -m"),
            "{said}"
        );
    }
}
