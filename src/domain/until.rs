//! The time at which a limit ends, as harnesses write it: `7:04am (UTC)`, `7:00 AM`, `in 2h 5m`,
//! `in 1h2m3.5s`, `Nov 24, 3pm`, RFC 3339, unix seconds.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, ToSpan, Zoned};
use regex::{Captures, Regex};

/// A clock text is never further away; a later time is not the end of a limit.
const FURTHEST: Duration = Duration::from_secs(32 * 24 * 3600);

static AMOUNT: LazyLock<Regex> = LazyLock::new(|| {
    // The longest names come first: none of them need end at the end of a word (`1h2m`).
    pattern(r"(?i)(\d+(?:\.\d+)?)\s*(days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)")
});
static ONLY_AMOUNTS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^(?:in\s+|after\s+|~\s*)?(?:\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?:[\s,]+and\s+|[\s,]*))+$",
    )
});
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)
        ^(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+
            (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{4}))?(?:,|\s+at)?\s+)?
        (?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?::\d{2})?\s*(?P<half>[ap])?\.?(?:m\.?)?
        \s*(?:\(?(?P<zone>[A-Za-z]+(?:[/_+\-][A-Za-z0-9_+:\-]+)*)\)?)?\s*\.?$",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is written here and tested")
}

/// Reads the time that a text names, as seen at `now` by a person in this zone. A clock time without a day is the next
/// such time.
#[must_use]
pub fn read(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let text = text.trim();
    let until = exact(text)
        .or_else(|| amounts(text, now))
        .or_else(|| clock(text, now, zone))?;
    let away = Duration::try_from(until.duration_since(now)).unwrap_or_default();
    (away <= FURTHEST).then_some(until)
}

/// Reads the end of a deferral: RFC 3339, seconds since 1970, or a harness's own clock text (`rules.md`, outcomes).
/// The first two may name any time.
#[must_use]
pub fn declared(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let text = text.trim();
    match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => text.parse().ok().or_else(|| read(text, now, zone)),
    }
}

/// RFC 3339, or unix seconds (or milliseconds).
fn exact(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let number: i64 = text.parse().ok().filter(|number| *number > 1_000_000_000)?;
    match number > 100_000_000_000 {
        true => Timestamp::from_millisecond(number).ok(),
        false => Timestamp::from_second(number).ok(),
    }
}

/// `in 2h 5m`, `59 minutes`.
fn amounts(text: &str, now: Timestamp) -> Option<Timestamp> {
    if !ONLY_AMOUNTS.is_match(text) {
        return None;
    }
    let mut seconds = 0.0;
    for found in AMOUNT.captures_iter(text) {
        let number: f64 = found[1].parse().ok()?;
        let unit = match found[2].chars().next()?.to_ascii_lowercase() {
            'd' => 86_400.0,
            'h' => 3_600.0,
            'm' => 60.0,
            _ => 1.0,
        };
        seconds += number * unit;
    }
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    now.checked_add(wait).ok()
}

/// A time of day, with or without a day and a zone.
fn clock(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let found = CLOCK.captures(text)?;
    let named = found.name("zone").map(|zone| zone.as_str());
    let zone = match named {
        Some(name) => named_zone(name, now, zone)?,
        None => zone.clone(),
    };
    let here = now.to_zoned(zone);
    let time = time_of(&found)?;
    let at = |date: Date| {
        date.to_datetime(time)
            .to_zoned(here.time_zone().clone())
            .ok()
    };
    let Some(date) = date_of(&found, &here)? else {
        let today = at(here.date())?;
        let next = match today.timestamp() <= now {
            true => at(here.date().checked_add(1.day()).ok()?)?,
            false => today,
        };
        return Some(next.timestamp());
    };
    Some(at(date)?.timestamp())
}

/// Returns the zone of a name. `here` is the zone of the machine, in which programs write times: its own abbreviations
/// take precedence over the same letters elsewhere (`CST` is Chicago's and Shanghai's).
fn named_zone(name: &str, now: Timestamp, here: &TimeZone) -> Option<TimeZone> {
    let upper = name.to_ascii_uppercase();
    if matches!(upper.as_str(), "UTC" | "GMT" | "Z") {
        return Some(TimeZone::UTC);
    }
    let own = || abbreviated(&upper, now, here);
    let known = || {
        let mut all = ABBREVIATIONS.iter();
        let (_, hours) = all.find(|(name, _)| *name == upper)?;
        fixed_hours(*hours)
    };
    let offset = || {
        let offset = upper.strip_prefix("GMT").or(upper.strip_prefix("UTC"));
        fixed_zone(offset?)
    };
    own()
        .or_else(known)
        .or_else(offset)
        .or_else(|| TimeZone::get(name).ok())
}

/// The abbreviations that programs write for American zones, as JavaScript's `Intl` does in American English, and those
/// of the European Union. Letters with several meanings (`BST`, `IST`) are missing: only the machine's own zone can
/// decide them.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("PST", -8),
    ("PDT", -7),
    ("MST", -7),
    ("MDT", -6),
    ("CST", -6),
    ("CDT", -5),
    ("EST", -5),
    ("EDT", -4),
    ("AKST", -9),
    ("AKDT", -8),
    ("HST", -10),
    ("HDT", -9),
    ("WET", 0),
    ("WEST", 1),
    ("CET", 1),
    ("CEST", 2),
    ("EET", 2),
    ("EEST", 3),
];

/// Returns the offset that this zone gives this abbreviation, now or within a year of now.
fn abbreviated(name: &str, now: Timestamp, zone: &TimeZone) -> Option<TimeZone> {
    let current = zone.to_offset_info(now);
    if current.abbreviation().eq_ignore_ascii_case(name) {
        return Some(TimeZone::fixed(current.offset()));
    }
    let near = zone
        .preceding(now)
        .take(2)
        .chain(zone.following(now).take(2));
    let mut near = near.filter(|change| change.abbreviation().eq_ignore_ascii_case(name));
    near.next().map(|change| TimeZone::fixed(change.offset()))
}

fn fixed_hours(hours: i32) -> Option<TimeZone> {
    Offset::from_seconds(hours * 3600).ok().map(TimeZone::fixed)
}

/// `+9`, `-03:30`.
fn fixed_zone(offset: &str) -> Option<TimeZone> {
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-" | "\u{2212}", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let within = (0..=14).contains(&hours) && (0..60).contains(&minutes);
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
    within.then(|| TimeZone::fixed(offset))
}

fn time_of(found: &Captures<'_>) -> Option<Time> {
    let hour: i8 = found["hour"].parse().ok()?;
    let minute: i8 = found
        .name("minute")
        .map_or(Some(0), |minute| minute.as_str().parse().ok())?;
    let half = found.name("half").map(|half| half.as_str());
    // A bare number is no time of day.
    if half.is_none() && found.name("minute").is_none() {
        return None;
    }
    let hour = match half.map(str::to_ascii_lowercase).as_deref() {
        Some("a") if hour == 12 => 0,
        Some("p") if hour < 12 => hour + 12,
        _ => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

/// Returns the day that is named; none where no day is. Without a year it is the nearest one to come.
#[expect(
    clippy::option_option,
    reason = "a day that cannot be is no missing day"
)]
fn date_of(found: &Captures<'_>, here: &Zoned) -> Option<Option<Date>> {
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let Some(month) = found.name("month") else {
        return Some(None);
    };
    let month = MONTHS.find(&month.as_str().to_ascii_lowercase())? / 3 + 1;
    let (month, day) = (i8::try_from(month).ok()?, found["day"].parse().ok()?);
    let year = match found.name("year") {
        Some(year) => year.as_str().parse().ok()?,
        None => here.year(),
    };
    let date = Date::new(year, month, day).ok()?;
    let year: Span = 1.year();
    Some(Some(
        match found.name("year").is_none() && date < here.date() {
            true => date.checked_add(year).ok()?,
            false => date,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gemini writes the abbreviation of the machine's zone: `Access resets at 7:04 AM PDT.`
    #[test]
    fn abbreviations_of_zones_are_read() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        for (text, here, until) in [
            (
                "7:04 AM PDT.",
                "America/Los_Angeles",
                "2026-07-01T14:04:00Z",
            ),
            // As the supervisor of a container in UTC reads it.
            ("7:04 AM PDT", "UTC", "2026-07-01T14:04:00Z"),
            ("7:04 AM PST", "UTC", "2026-07-01T15:04:00Z"),
            ("7:04 AM MDT", "UTC", "2026-07-01T13:04:00Z"),
            ("7:04 AM MST", "UTC", "2026-07-01T14:04:00Z"),
            ("8:04 AM CDT", "UTC", "2026-07-01T13:04:00Z"),
            ("7:04 AM CST", "UTC", "2026-07-01T13:04:00Z"),
            ("9:04 AM EDT", "UTC", "2026-07-01T13:04:00Z"),
            ("9:04 AM EST", "UTC", "2026-07-01T14:04:00Z"),
            ("7:04 AM AKDT", "UTC", "2026-07-01T15:04:00Z"),
            ("7:04 AM AKST", "UTC", "2026-07-01T16:04:00Z"),
            ("7:04 AM HST", "UTC", "2026-07-01T17:04:00Z"),
            ("7:04 PM CEST", "UTC", "2026-07-01T17:04:00Z"),
            ("7:04 PM CET", "UTC", "2026-07-01T18:04:00Z"),
            // The machine's own zone comes first.
            ("11:00 PM CST", "Asia/Shanghai", "2026-07-01T15:00:00Z"),
            ("9:00 PM BST", "Europe/London", "2026-07-01T20:00:00Z"),
            ("11:00 PM JST", "Asia/Tokyo", "2026-07-01T14:00:00Z"),
            ("9:00 PM IST", "Asia/Kolkata", "2026-07-01T15:30:00Z"),
            ("2:00 AM AEDT", "Australia/Sydney", "2026-07-01T15:00:00Z"),
        ] {
            let here = TimeZone::get(here).unwrap();
            let read = read(text, now, &here).map(|at| at.to_string());
            assert_eq!(read.as_deref(), Some(until), "{text}");
        }
        // Bangladesh's or Britain's: a machine in neither of them cannot tell.
        for text in ["9:00 PM BST", "9:00 PM IST", "9:00 PM QQT"] {
            assert_eq!(read(text, now, &TimeZone::UTC), None, "{text}");
        }
    }

    #[test]
    fn work_is_deferred_until_a_time_a_duration_or_a_harness_phrase() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let told = |text: &str| declared(text, now, &TimeZone::UTC).map(|at| at.to_string());
        for (text, at) in [
            ("2027-02-01T00:00:00Z", "2027-02-01T00:00:00Z"),
            ("1800000000", "2027-01-15T08:00:00Z"),
            ("in 2h 5m", "2026-01-31T14:05:00Z"),
            ("3:30pm", "2026-01-31T15:30:00Z"),
        ] {
            assert_eq!(told(text).as_deref(), Some(at), "{text}");
        }
        assert_eq!(told("soon"), None);
    }

    #[test]
    fn times_are_read_as_harnesses_write_them() {
        let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
        let oslo = TimeZone::get("Europe/Oslo").unwrap();
        for (text, until) in [
            ("7:04am (UTC)", "2026-11-24T07:04:00Z"),
            ("11:30am (UTC)", "2026-11-23T11:30:00Z"),
            ("7:04 AM GMT+9", "2026-11-23T22:04:00Z"),
            ("7:04 AM GMT-3:30", "2026-11-23T10:34:00Z"),
            ("7:04 AM GMT", "2026-11-24T07:04:00Z"),
            ("1:30 PM", "2026-11-23T12:30:00Z"),
            ("3pm", "2026-11-23T14:00:00Z"),
            ("3pm (America/New_York)", "2026-11-23T20:00:00Z"),
            ("14:30", "2026-11-23T13:30:00Z"),
            ("12am", "2026-11-23T23:00:00Z"),
            ("Nov 25, 9am", "2026-11-25T08:00:00Z"),
            ("Nov 24th, 2026 7:00 AM", "2026-11-24T06:00:00Z"),
            ("Dec 1 at 7:00am", "2026-12-01T06:00:00Z"),
            ("in 59m", "2026-11-23T10:59:00Z"),
            ("2 hours and 5 minutes", "2026-11-23T12:05:00Z"),
            ("1d 1h", "2026-11-24T11:00:00Z"),
            ("30s", "2026-11-23T10:00:30Z"),
            ("in 1h2m3.5s", "2026-11-23T11:02:03.5Z"),
            ("6m0s", "2026-11-23T10:06:00Z"),
            ("2026-11-23T12:00:00Z", "2026-11-23T12:00:00Z"),
            ("1795431600", "2026-11-23T11:00:00Z"),
            ("1795431600000", "2026-11-23T11:00:00Z"),
        ] {
            let read = read(text, now, &oslo).map(|at| at.to_string());
            assert_eq!(read.as_deref(), Some(until), "{text}");
        }
        for text in [
            "",
            "soon",
            "7",
            "25:00",
            "2030-01-01T00:00:00Z",
            "9am (Mars/Base)",
            "99d",
            "5 months",
            "500ms",
        ] {
            assert_eq!(read(text, now, &oslo), None, "{text}");
        }
    }
}
