//! The pace of followers: a share of the processor, whatever the size of the city and the number of events.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::restart::Mono;

/// The shortest time between two snapshots for followers.
const SHORTEST: Duration = Duration::from_millis(100);

/// After a snapshot followers rest for this multiple of what it took to take and to show it: 0.5 % of a core.
/// With the counts of git that they ask for (`glances`) that is less than the 2 % that watching may cost.
const REST: u32 = 200;

/// The longest rest: a moment in which the machine was busy with other work must not slow followers down for long.
const LONGEST: Duration = Duration::from_secs(5);

/// The cost of the last snapshot.
#[derive(Default)]
pub(super) struct Pace(Mutex<Cost>);

#[derive(Default)]
struct Cost {
    ended: Mono,
    took: Duration,
    shown: Duration,
}

impl Pace {
    fn cost(&self) -> MutexGuard<'_, Cost> {
        // Every change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a snapshot was taken.
    pub(super) fn took(&self, took: Duration, ended: Mono) {
        let mut cost = self.cost();
        (cost.took, cost.ended) = (took, ended);
    }

    /// Notes what it took to show one.
    pub(super) fn shown(&self, took: Duration) {
        self.cost().shown = took;
    }

    /// Returns how long a follower still waits.
    pub(super) fn rest(&self, now: Mono) -> Duration {
        let cost = self.cost();
        let rest = (cost.took + cost.shown) * REST;
        let rest = rest.clamp(SHORTEST, LONGEST);
        rest.saturating_sub(now.saturating_sub(cost.ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_rest_in_proportion_to_the_cost_of_a_snapshot() {
        let pace = Pace::default();
        let at = |ms| Mono::default() + Duration::from_millis(ms);
        pace.took(Duration::from_micros(200), at(1000));
        assert_eq!(pace.rest(at(1000)), SHORTEST);
        assert_eq!(pace.rest(at(1070)), Duration::from_millis(30));
        assert_eq!(pace.rest(at(5000)), Duration::ZERO, "at once after a pause");
        pace.took(Duration::from_millis(10), at(6000));
        pace.shown(Duration::from_millis(5));
        assert_eq!(pace.rest(at(6000)), Duration::from_secs(3));
        pace.took(Duration::from_secs(9), at(9000));
        assert_eq!(pace.rest(at(9000)), LONGEST);
    }
}
