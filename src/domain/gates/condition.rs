//! The gate `condition`: a check runs until it succeeds. While it keeps succeeding, it opens the gate at most once per
//! interval, and does not run within that interval.

use std::time::Duration;

use jiff::Timestamp;

use super::{When, after};

/// Timeout of a check.
pub const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// Returns when its check is due.
#[must_use]
pub fn when(
    interval: Duration,
    every: Duration,
    last_start: Option<Timestamp>,
    last_check: Option<Timestamp>,
    now: Timestamp,
) -> When {
    let run = after(last_start, interval, now);
    let check = after(last_check, every, now);
    match run.max(check) {
        Some(time) => When::at(time, now),
        None => When::Now,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{at, times};
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const HALF: Duration = Duration::from_secs(30);

    #[test]
    fn it_is_asked_now_and_then_and_not_again_within_the_interval_of_a_run() {
        let now = at("2026-03-01T12:00:00Z");
        let cases = [
            (None, None, When::Now),
            (
                None,
                Some("2026-03-01T11:59:59Z"),
                When::At(at("2026-03-01T12:00:29Z")),
            ),
            (None, Some("2026-03-01T11:59:30Z"), When::Now),
            (
                Some("2026-03-01T11:30:00Z"),
                Some("2026-03-01T11:30:00Z"),
                When::At(at("2026-03-01T12:30:00Z")),
            ),
            (
                Some("2026-03-01T11:00:01Z"),
                Some("2026-03-01T11:59:59Z"),
                When::At(at("2026-03-01T12:00:29Z")),
            ),
            (Some("2026-03-01T11:00:00Z"), None, When::Now),
            // The clock was set back.
            (
                Some("2027-03-01T11:00:00Z"),
                Some("2027-03-01T11:00:00Z"),
                When::Now,
            ),
        ];
        for (run, check, expected) in cases {
            let found = when(HOUR, HALF, run.map(at), check.map(at), now);
            assert_eq!(found, expected, "{run:?} {check:?}");
        }
    }

    proptest! {
        #[test]
        fn wait_until_the_returned_time_needs_no_further_wait(
            run in proptest::option::of(times()),
            check in proptest::option::of(times()),
            now in times(),
        ) {
            match when(HOUR, HALF, run, check, now) {
                When::Now => {
                    for (earlier, wait) in [(run, HOUR), (check, HALF)] {
                        prop_assert!(earlier.is_none_or(|at| at > now || at + wait <= now));
                    }
                }
                When::At(time) => {
                    prop_assert!(time > now);
                    // A time in the future of `now` may be in the past of `time`.
                    let known = |at: &Timestamp| *at <= now;
                    let again = when(HOUR, HALF, run.filter(known), check.filter(known), time);
                    prop_assert_eq!(again, When::Now);
                }
                When::Never => prop_assert!(false),
            }
        }
    }
}
