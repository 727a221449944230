//! Counts forbidden requests: a caller that retries in a loop must not fill the journal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::control::protocol::OpName;

/// The period in which only a limited number of a caller's attempts at an operation become events; the next event tells
/// the number of attempts left out.
const PAUSE: Duration = Duration::from_secs(60);
const BURST: u64 = 16;
/// The limit of remembered attempts. At the limit all counts are dropped: that costs additional events, and no memory.
const MAX: usize = 1024;

/// The caller and the operation; no operation means a connection.
type Attempt = (String, Option<OpName>);

/// The number of each attempt.
#[derive(Default)]
pub(super) struct Denials(Mutex<BTreeMap<Attempt, Count>>);

struct Count {
    /// The start of its period.
    since: Duration,
    /// Events in this period.
    told: u64,
    /// Attempts without an event.
    untold: u64,
}

impl Denials {
    /// Counts an attempt. Returns the number that its event is to tell of; none when the period has had enough events.
    pub(super) fn count(&self, who: &str, op: Option<OpName>, now: Duration) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (who.to_owned(), op);
        if known.len() >= MAX && !known.contains_key(&key) {
            known.clear();
        }
        let count = known.entry(key).or_insert(Count {
            since: now,
            told: 0,
            untold: 0,
        });
        if now.saturating_sub(count.since) >= PAUSE {
            (count.since, count.told) = (now, 0);
        }
        if count.told >= BURST {
            count.untold += 1;
            return None;
        }
        count.told += 1;
        Some(1 + std::mem::take(&mut count.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_few_events_a_minute_and_the_next_says_how_often() {
        let (denials, at) = (Denials::default(), Duration::from_secs);
        let count = |who, op, now| denials.count(who, Some(op), at(now));
        let told: Vec<_> = (0..1000)
            .filter_map(|_| count("toast", OpName::Stop, 1))
            .collect();
        assert_eq!(told, [1; 16]);
        assert_eq!(count("toast", OpName::RaiderNuke, 1), Some(1));
        assert_eq!(count("shadow", OpName::Stop, 1), Some(1));
        assert_eq!(count("toast", OpName::Stop, 60), None);
        // 984 times in the first second, once in the last, and now.
        assert_eq!(count("toast", OpName::Stop, 61), Some(986));
        assert_eq!(count("toast", OpName::Stop, 62), Some(1));
    }
}
