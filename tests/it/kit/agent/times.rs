//! The times in a recording of a limit, as the programs spell them.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use regex::{Captures, Regex};

/// `2026-11-23T17:57:00.303Z`, `5:52pm`, `5:52 PM`, `1m 48s`.
const SPELLED: &str = r"(?P<stamp>\d{4}-\d\d-\d\dT[\d:.]+Z)|(?P<clock>\d{1,2}:\d\d(?P<half> ?[ap]m| ?[AP]M)\b)|(?P<left>\d+m(?P<gap> ?)\d+s\b)";

/// Returns the recording with another end of the limit, spelled in the same way.
pub fn moved(recording: &str, until: Timestamp) -> String {
    let now = Timestamp::now();
    let spelled = Regex::new(SPELLED).unwrap();
    let moved = spelled.replace_all(recording, |found: &Captures<'_>| spell(found, until, now));
    moved.into_owned()
}

fn spell(found: &Captures<'_>, until: Timestamp, now: Timestamp) -> String {
    let local = until.to_zoned(TimeZone::UTC);
    let Some(half) = found.name("half") else {
        let Some(gap) = found.name("gap") else {
            return until.to_string();
        };
        let left = until.duration_since(now).as_secs().max(0);
        return format!("{}m{}{}s", left / 60, gap.as_str(), left % 60);
    };
    let clock = local.round(Unit::Minute).unwrap();
    let form = match half.as_str() {
        "am" | "pm" => "%-I:%M%P",
        " am" | " pm" => "%-I:%M %P",
        "AM" | "PM" => "%-I:%M%p",
        _ => "%-I:%M %p",
    };
    clock.strftime(form).to_string()
}

#[test]
fn times_are_moved_in_the_spelling_of_each_program() {
    let until = Timestamp::now().checked_add(jiff::SignedDuration::from_secs(90));
    let until = until.unwrap().round(Unit::Minute).unwrap();
    let clock = |form: &str| until.to_zoned(TimeZone::UTC).strftime(form).to_string();
    for (recorded, expected) in [
        (
            "until 2026-11-23T17:57:00.303Z: a",
            format!("until {until}: a"),
        ),
        (
            "resets 5:52pm (UTC)",
            format!("resets {} (UTC)", clock("%-I:%M%P")),
        ),
        (
            "again at 5:52 PM.",
            format!("again at {}.", clock("%-I:%M %p")),
        ),
        ("after 233ms", "after 233ms".to_owned()),
    ] {
        assert_eq!(moved(recorded, until), expected);
    }
    let left = moved("[retrying in 9m 48s attempt #1]", until);
    assert!(
        Regex::new(r"^\[retrying in [0-2]m \d+s attempt #1\]$")
            .unwrap()
            .is_match(&left),
        "{left}"
    );
}
