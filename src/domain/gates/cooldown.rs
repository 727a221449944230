//! The gate `cooldown`: counted from the start of the last run; an automation that never ran is due.

use std::time::Duration;

use jiff::Timestamp;

use super::{When, after};

/// Returns when it opens.
#[must_use]
pub fn when(interval: Duration, last_start: Option<Timestamp>, now: Timestamp) -> When {
    match after(last_start, interval, now) {
        Some(time) => When::at(time, now),
        None => When::Now,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{at, times};
    use super::*;

    const TEN: Duration = Duration::from_secs(600);

    #[test]
    fn it_opens_an_interval_after_the_start_of_the_last_run() {
        let now = at("2026-03-01T12:00:00Z");
        let cases = [
            (None, When::Now),
            (Some("2026-03-01T11:50:00Z"), When::Now),
            (
                Some("2026-03-01T11:50:00.001Z"),
                When::At(at("2026-03-01T12:00:00.001Z")),
            ),
            (
                Some("2026-03-01T12:00:00Z"),
                When::At(at("2026-03-01T12:10:00Z")),
            ),
            // The clock was set back: that start is no reason to wait for a day.
            (Some("2026-03-02T12:00:00Z"), When::Now),
        ];
        for (last, expected) in cases {
            assert_eq!(when(TEN, last.map(at), now), expected, "{last:?}");
        }
    }

    proptest! {
        #[test]
        fn two_runs_that_it_let_pass_are_an_interval_apart(
            last in times(),
            now in times(),
            seconds in 1_u64..1_000_000,
        ) {
            let interval = Duration::from_secs(seconds);
            match when(interval, Some(last), now) {
                When::Now => prop_assert!(last > now || last + interval <= now),
                When::At(time) => {
                    prop_assert_eq!(time, last + interval);
                    prop_assert_eq!(when(interval, Some(last), time), When::Now);
                }
                When::Never => prop_assert!(false),
            }
        }
    }
}
