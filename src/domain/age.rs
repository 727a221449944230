//! The age of a record whose time stamp comes from the wall clock, when that clock may jump.
//!
//! ```text
//!  first seen     as old as the wall clock says
//!  stamp same     as old as then, and what has passed since on a clock that does not jump
//!  stamp changed  no older than the time since the last look, whatever the wall clock says
//! ```
//!
//! So a jump makes no record old before its time and keeps none young, except for records that a supervisor finds at
//! its start: of those it only knows the time stamps.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::restart::Mono;

/// Entries that were not queried for this long are dropped.
const FORGET: Duration = Duration::from_secs(24 * 3600);

/// The difference of two clocks between two looks from which on the wall clock has jumped.
const JUMP: Duration = Duration::from_secs(10);

/// The forward jumps of the wall clock that looks have noticed.
#[derive(Debug, Clone, Default)]
pub struct Jumps {
    last: Option<(Timestamp, Mono)>,
    seen: Vec<(Mono, Duration)>,
}

impl Jumps {
    /// Notes a jump since the last look. Jumps that are older than `longest` are dropped.
    pub fn look(&mut self, wall: Timestamp, mono: Mono, longest: Duration) {
        if let Some((then, since)) = self.last.replace((wall, mono)) {
            let by_wall = Duration::try_from(wall.duration_since(then)).unwrap_or_default();
            let jump = by_wall.saturating_sub(mono.saturating_sub(since));
            if jump >= JUMP {
                self.seen.push((mono, jump));
            }
        }
        self.seen
            .retain(|(at, _)| mono.saturating_sub(*at) <= longest);
    }

    /// Returns the time before which objects are of that age. For as long as that age after a jump, the jump makes nothing
    /// old: objects from before it have stamps of the clock before.
    #[must_use]
    pub fn before(&self, age: Duration, wall: Timestamp, mono: Mono) -> Timestamp {
        let recent = self.seen.iter();
        let recent = recent.filter(|(at, _)| mono.saturating_sub(*at) <= age);
        let jumped = recent.fold(age, |sum, (_, jump)| sum.saturating_add(*jump));
        wall.checked_sub(jumped).unwrap_or(Timestamp::MIN)
    }
}

/// Ages of records, by key.
#[derive(Debug, Clone, Default)]
pub struct Ages(BTreeMap<String, TrackedAge>);

#[derive(Debug, Clone)]
struct TrackedAge {
    stamp: Timestamp,
    /// Its age at `since`.
    was: Duration,
    since: Mono,
    /// When it was last queried.
    seen: Mono,
}

impl Ages {
    /// Returns the present age of the record with this key and stamp.
    pub fn of(&mut self, key: &str, stamp: Timestamp, wall: Timestamp, mono: Mono) -> Duration {
        let by_wall = Duration::try_from(wall.duration_since(stamp)).unwrap_or_default();
        let most = match self.0.get_mut(key) {
            Some(known) if known.stamp == stamp => {
                known.seen = mono;
                return known.was + mono.saturating_sub(known.since);
            }
            Some(known) => mono.saturating_sub(known.seen),
            None => Duration::MAX,
        };
        let known = TrackedAge {
            stamp,
            was: by_wall.min(most),
            since: mono,
            seen: mono,
        };
        let age = known.was;
        self.0.insert(key.to_owned(), known);
        age
    }

    /// Drops entries that were not queried for long.
    pub fn prune(&mut self, mono: Mono) {
        let recent = |_: &String, known: &mut TrackedAge| mono.saturating_sub(known.seen) < FORGET;
        self.0.retain(recent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    /// Ages at looks; each look gives a stamp and the seconds of both clocks.
    fn ages(looks: &[(i64, i64, u64)]) -> Vec<u64> {
        let mut ages = Ages::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let age = |(stamp, wall, mono): &(i64, i64, u64)| {
            ages.of(
                "it",
                at(*stamp),
                at(*wall),
                SECOND * u32::try_from(*mono).unwrap(),
            )
        };
        looks.iter().map(age).map(|age| age.as_secs()).collect()
    }

    #[test]
    fn without_a_jump_an_age_follows_the_wall_clock() {
        assert_eq!(
            ages(&[(100, 130, 0), (100, 160, 30), (150, 190, 60)]),
            [30, 60, 30]
        );
    }

    #[test]
    fn a_jump_makes_nothing_old_and_keeps_nothing_young() {
        // An hour forward, an hour back; a later change has its true age.
        assert_eq!(ages(&[(9_000, 9_010, 0), (9_000, 12_640, 40)]), [10, 50]);
        assert_eq!(ages(&[(9_000, 9_010, 0), (9_000, 5_440, 40)]), [10, 50]);
        // Written before the jump, and first seen after it: no older than the last look.
        assert_eq!(ages(&[(9_000, 9_010, 0), (9_020, 12_640, 30)]), [10, 30]);
        assert_eq!(ages(&[(9_000, 9_010, 0), (12_630, 12_640, 30)]), [10, 10]);
        assert_eq!(ages(&[(9_000, 9_010, 0), (9_030, 5_440, 30)]), [10, 0]);
    }

    #[test]
    fn jump_makes_no_object_older_for_as_long_as_its_age() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let of = |second| Duration::from_secs(second);
        let mut jumps = Jumps::default();
        let mut before = |wall, mono, age| {
            jumps.look(at(wall), of(mono), of(1_000));
            let before = jumps.before(of(age), at(wall), of(mono));
            before.as_second()
        };
        assert_eq!(before(5_000, 0, 100), 4_900);
        // Time passes, and a clock that is set by little or back is no jump.
        assert_eq!(before(5_035, 30, 100), 4_935);
        assert_eq!(before(2_000, 60, 100), 1_900);
        // The clock is set forward by 7,000 s: an object of the second before is not old.
        assert_eq!(before(9_030, 90, 100), 1_930);
        assert_eq!(before(9_060, 120, 1_000), 1_060);
        // What is younger than the jump has true stamps, and is old in time.
        assert_eq!(before(9_131, 191, 100), 9_031);
        // Two jumps count together.
        assert_eq!(before(9_431, 391, 1_000), 9_431 - 1_000 - 7_000 - 100);
        assert_eq!(before(10_132, 1_092, 1_000), 10_132 - 1_000 - 100);
        assert_eq!(jumps.seen.len(), 1);
    }

    #[test]
    fn unused_ages_are_forgotten() {
        let mut ages = Ages::default();
        let stamp = Timestamp::UNIX_EPOCH;
        ages.of("old", stamp, stamp, Duration::ZERO);
        ages.of("new", stamp, stamp, HOUR * 25);
        ages.prune(HOUR * 25);
        assert_eq!(ages.0.len(), 1);
    }
}
