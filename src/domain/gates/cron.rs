//! The gate `cron`: slots of a schedule in a time zone.
//!
//! The crate parses patterns and finds the civil times that they match; this module maps those to instants, the same
//! way for every pattern: a slot that daylight saving skips is moved to the next existing instant, and a repeated slot
//! counts at its first occurrence.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::When;

/// A clock that is set back by more than this starts the schedule anew.
const SET_BACK: SignedDuration = SignedDuration::from_hours(3);

/// The treatment of slots that came while the supervisor was down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped.
    None,
    /// A single run makes up for all of them.
    Last,
}

/// A schedule.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: String,
    cron: Box<Cron>,
    zone: TimeZone,
}

/// Text and zone determine the rest.
impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.zone) == (&other.text, &other.zone)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("local time");
        write!(f, "{} ({zone})", self.text)
    }
}

impl Schedule {
    /// Reads a pattern of five fields: minute, hour, day, month, weekday.
    ///
    /// # Errors
    /// The error in the pattern; also when it has no slot at all.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let fields: Vec<_> = text.split_whitespace().collect();
        if fields.len() != 5 {
            let found = fields.len();
            return Err(format!(
                "expected 5 fields (minute, hour, day, month, weekday), found {found}"
            ));
        }
        let text = fields.join(" ");
        // The usual rule: a day field that begins with a star restricts the other one.
        let both = fields[2].starts_with('*') || fields[4].starts_with('*');
        let cron = pattern(&text, both).ok_or_else(|| wrong_field(&fields))?;
        // Starts in a leap year, so that the 29th of February is found.
        let first = date(2024, 1, 1).at(0, 0, 0, 0);
        if cron.find_next_occurrence(&first, true).is_err() {
            return Err("no date matches it".to_owned());
        }
        let cron = Box::new(cron);
        Ok(Self { text, cron, zone })
    }

    /// Returns the first slot after a time.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut civil = self.zone.to_datetime(after);
        loop {
            civil = self.cron.find_next_occurrence(&civil, false).ok()?;
            let slot = self.instant(civil)?;
            // In the second pass of a repeated hour, slots of the first pass are in the past.
            if slot > after {
                return Some(slot);
            }
        }
    }

    fn instant(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        let gap = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        // In a gap, that is a time before it, and the next transition is the end of the gap.
        let earlier = ambiguous.earlier().ok()?;
        if !gap {
            return Some(earlier);
        }
        let mut transitions = self.zone.following(earlier);
        transitions.next().map(|transition| transition.timestamp())
    }
}

/// The fields of a pattern, and the values that each takes.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31"),
    ("month", "1 to 12 or jan to dec"),
    ("weekday", "0 to 7 or sun to sat"),
];

/// Parses a pattern; with `both`, a day has to match both of its fields.
fn pattern(text: &str, both: bool) -> Option<Cron> {
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .dom_and_dow(both)
        .build();
    parser.parse(text).ok()
}

/// Tells which field of a pattern is wrong, and the values that it takes.
fn wrong_field(fields: &[&str]) -> String {
    let alone = |at: usize| {
        let mut all = ["*"; FIELDS.len()];
        all[at] = fields[at];
        pattern(&all.join(" "), false)
    };
    match FIELDS
        .iter()
        .enumerate()
        .find(|(at, _)| alone(*at).is_none())
    {
        Some((at, (name, values))) => {
            let field = fields[at];
            format!(
                "the {name} {field:?} cannot be read: expected {values}, as a number or name, a list (`1,3`), \
                 a range (`1-5`), `*`, or a step of these (`*/2`)"
            )
        }
        None => format!("{:?} cannot be read", fields.join(" ")),
    }
}

/// Returns when the gate opens: at the first slot that is not settled.
#[must_use]
pub fn when(schedule: &Schedule, settled: Timestamp, now: Timestamp) -> When {
    match schedule.next(settled) {
        Some(slot) => When::at(slot, now),
        None => When::Never,
    }
}

/// Returns the time up to which slots are settled. After the clock was set back by much that is now: otherwise all
/// slots would be skipped until the clock has caught up. (A smaller step back repeats no slot.)
#[must_use]
pub fn settled(mark: Timestamp, now: Timestamp) -> Timestamp {
    if mark.duration_since(now) > SET_BACK {
        now
    } else {
        mark
    }
}

/// Returns true when slots came while the supervisor was down and are to be skipped.
#[must_use]
pub fn missed(
    schedule: &Schedule,
    catch_up: CatchUp,
    settled: Timestamp,
    up_since: Timestamp,
) -> bool {
    let slot = || schedule.next(settled).is_some_and(|slot| slot < up_since);
    catch_up == CatchUp::None && settled < up_since && slot()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::at;
    use super::*;

    fn schedule(text: &str, zone: &str) -> Schedule {
        Schedule::parse(text, TimeZone::get(zone).unwrap()).unwrap()
    }

    fn slots(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = schedule(text, zone);
        let mut last = at(after);
        let mut found = Vec::new();
        for _ in 0..count {
            last = schedule.next(last).unwrap();
            found.push(last.to_string());
        }
        found
    }

    #[test]
    fn ranges_steps_lists_and_names() {
        // 2026-03-06 is a Friday.
        let cases: [(&str, &str, &[&str]); 7] = [
            (
                "*/15 3-5 * * mon-fri",
                "2026-03-06T05:20:00Z",
                &[
                    "2026-03-06T05:30:00Z",
                    "2026-03-06T05:45:00Z",
                    "2026-03-09T03:00:00Z",
                ],
            ),
            (
                "5,35 8 * * *",
                "2026-03-06T08:05:00Z",
                &["2026-03-06T08:35:00Z", "2026-03-07T08:05:00Z"],
            ),
            (
                "0 0 1 jan,JUL *",
                "2026-03-06T00:00:00Z",
                &["2026-07-01T00:00:00Z"],
            ),
            (
                "0 12 * * 0",
                "2026-03-06T00:00:00Z",
                &["2026-03-08T12:00:00Z"],
            ),
            (
                "0 12 * * 7",
                "2026-03-06T00:00:00Z",
                &["2026-03-08T12:00:00Z"],
            ),
            (
                "10-20/5 * * * *",
                "2026-03-06T00:16:00Z",
                &["2026-03-06T00:20:00Z", "2026-03-06T01:10:00Z"],
            ),
            (
                "0 0 29 2 *",
                "2026-03-06T00:00:00Z",
                &["2028-02-29T00:00:00Z"],
            ),
        ];
        for (text, after, expected) in cases {
            assert_eq!(
                slots(text, "UTC", after, expected.len()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn error_names_the_field_its_value_and_what_is_expected() {
        for (text, said) in [
            (
                "61 * * * *",
                "the minute \"61\" cannot be read: expected 0 to 59,",
            ),
            (
                "* 99999999999 * * *",
                "the hour \"99999999999\" cannot be read: expected 0 to 23,",
            ),
            (
                "* * 1.5 * *",
                "the day \"1.5\" cannot be read: expected 1 to 31,",
            ),
            (
                "* * * 5-1 *",
                "the month \"5-1\" cannot be read: expected 1 to 12 or jan to dec,",
            ),
            (
                "* * * * foo",
                "the weekday \"foo\" cannot be read: expected 0 to 7 or sun to sat,",
            ),
            ("*/0 * * * *", "the minute \"*/0\" cannot be read"),
        ] {
            let told = Schedule::parse(text, TimeZone::UTC).unwrap_err();
            assert!(told.starts_with(said), "{told}");
        }
    }

    #[test]
    fn day_of_month_and_weekday_together_are_either() {
        let found = slots("0 0 13 * fri", "UTC", "2026-03-10T00:00:00Z", 3);
        let expected = [
            "2026-03-13T00:00:00Z",
            "2026-03-20T00:00:00Z",
            "2026-03-27T00:00:00Z",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_day_field_that_begins_with_a_star_restricts_the_other() {
        let found = slots("0 0 */2 * mon", "UTC", "2026-03-01T00:00:00Z", 3);
        let expected = [
            "2026-03-09T00:00:00Z",
            "2026-03-23T00:00:00Z",
            "2026-04-13T00:00:00Z",
        ];
        assert_eq!(found, expected);
        let found = slots("0 0 1 * */6", "UTC", "2026-03-02T00:00:00Z", 1);
        assert_eq!(found, ["2026-08-01T00:00:00Z"]);
    }

    #[test]
    fn a_clock_that_was_ahead_does_not_silence_a_schedule() {
        let ahead = at("2027-01-01T00:00:00Z");
        let now = at("2026-03-01T10:30:00Z");
        assert_eq!(settled(ahead, now), now);
        // A small step back repeats no slot.
        let ran = at("2026-03-01T10:30:02Z");
        assert_eq!(settled(ran, now), ran);
        assert_eq!(settled(now, ran), now);
    }

    #[test]
    fn invalid_schedule_is_refused() {
        for bad in [
            "",
            "* * * *",
            "* * * * * *",
            "61 * * * *",
            "* * * * someday",
            "0 0 30 2 *",
            "@daily",
            "*/0 * * * *",
            "5-1 * * * *",
        ] {
            assert!(Schedule::parse(bad, TimeZone::UTC).is_err(), "{bad}");
        }
    }

    /// Oslo: 2026-03-29 02:00 is 03:00; 2026-10-25 03:00 is 02:00 again.
    #[test]
    fn a_slot_in_a_gap_is_at_the_next_instant_and_a_repeated_one_comes_once() {
        let gap = "2026-03-29T01:00:00Z";
        let cases: [(&str, &str, &[&str]); 6] = [
            (
                "30 2 * * *",
                "2026-03-28T12:00:00Z",
                &[gap, "2026-03-30T00:30:00Z"],
            ),
            (
                "*/15 2 * * *",
                "2026-03-28T12:00:00Z",
                &[gap, "2026-03-30T00:00:00Z"],
            ),
            (
                "*/30 * * * *",
                "2026-03-29T00:30:00Z",
                &[gap, "2026-03-29T01:30:00Z"],
            ),
            (
                "30 2 * * *",
                "2026-10-24T12:00:00Z",
                &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
            ),
            (
                "0,30 2-3 * * *",
                "2026-10-25T00:00:00Z",
                &["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"],
            ),
            // Asked within the second pass.
            (
                "45 2 * * *",
                "2026-10-25T01:10:00Z",
                &["2026-10-26T01:45:00Z"],
            ),
        ];
        for (text, after, expected) in cases {
            let found = slots(text, "Europe/Oslo", after, expected.len());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn missed_runs_are_skipped_or_made_up_for_once() {
        let hourly = schedule("0 * * * *", "UTC");
        let settled = at("2026-03-06T10:00:00Z");
        let up = at("2026-03-06T13:30:00Z");
        assert!(missed(&hourly, CatchUp::None, settled, up));
        assert!(!missed(&hourly, CatchUp::Last, settled, up));
        assert!(!missed(
            &hourly,
            CatchUp::None,
            settled,
            at("2026-03-06T10:59:00Z")
        ));
        assert_eq!(when(&hourly, settled, up), When::Now);
        assert_eq!(when(&hourly, up, up), When::At(at("2026-03-06T14:00:00Z")));
    }

    proptest! {
        /// In any zone and at any time: the next slot is later, nothing lies between, and its local
        /// time matches unless it stands for times that do not exist.
        #[test]
        fn the_next_slot_is_the_first_one_later(
            minute in 0_i8..60,
            hour in 0_i8..24,
            zone in prop::sample::select(vec![
                "UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia",
            ]),
            start in 1_700_000_000_i64..1_900_000_000,
        ) {
            let schedule = schedule(&format!("{minute} {hour} * * *"), zone);
            let zone = TimeZone::get(zone).unwrap();
            let after = Timestamp::from_second(start).unwrap();
            let slot = schedule.next(after).unwrap();
            prop_assert!(slot > after);
            let hours = slot.duration_since(after).as_hours();
            // A day that is left out altogether (Apia, 2011) lies before this range.
            prop_assert!(hours <= 26, "{} hours", hours);
            let local = zone.to_datetime(slot);
            let exact = (local.hour(), local.minute()) == (hour, minute);
            let wanted = local.date().at(hour, minute, 0, 0);
            let in_gap = matches!(
                zone.to_ambiguous_timestamp(wanted).offset(),
                AmbiguousOffset::Gap { .. }
            );
            prop_assert!(exact || in_gap);
            prop_assert_eq!(schedule.next(slot - jiff::SignedDuration::from_nanos(1)), Some(slot));
        }
    }
}
