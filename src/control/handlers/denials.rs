//! What was forbidden, counted: whoever tries the same in a loop does not fill the journal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::control::protocol::OpName;

/// One caller's attempts at one operation are one event in this time.
const PAUSE: Duration = Duration::from_secs(60);
/// So many of both are remembered. Beyond that nothing is: it costs events, and no memory.
const MAX: usize = 1024;

/// Who tried what; without operation, to connect.
type Attempt = (String, Option<OpName>);

/// When each attempt was last told of, and how often it was made since.
#[derive(Default)]
pub(super) struct Denials(Mutex<BTreeMap<Attempt, (Duration, u64)>>);

impl Denials {
    /// Counts one more. How many an event is to speak of, or nothing while the last one is recent.
    pub(super) fn count(&self, who: &str, op: Option<OpName>, now: Duration) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (who.to_owned(), op);
        if let Some((told, since)) = known.get_mut(&key) {
            *since += 1;
            if now.saturating_sub(*told) < PAUSE {
                return None;
            }
            *told = now;
            return Some(std::mem::take(since));
        }
        if known.len() >= MAX {
            known.clear();
        }
        known.insert(key, (now, 0));
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_one_event_a_minute_that_says_how_often() {
        let (denials, at) = (Denials::default(), Duration::from_secs);
        let count = |who, op, now| denials.count(who, Some(op), at(now));
        let told: Vec<_> = (0..1000)
            .filter_map(|_| count("toast", OpName::Stop, 1))
            .collect();
        assert_eq!(told, [1]);
        assert_eq!(count("toast", OpName::RaiderNuke, 1), Some(1));
        assert_eq!(count("shadow", OpName::Stop, 1), Some(1));
        assert_eq!(count("toast", OpName::Stop, 60), None);
        // It tried 999 times in the first second, once in the last, and now.
        assert_eq!(count("toast", OpName::Stop, 61), Some(1001));
        assert_eq!(count("toast", OpName::Stop, 62), None);
    }
}
