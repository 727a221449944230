//! A provider that refuses: a limit, credentials that are not valid.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, ToSpan, Unit};
use serde_json::Value;

use super::{FIRST, LAND_LIMIT, works};
use crate::kit::bench::{Bench, Raider, Wait};
use crate::kit::model::Step;
use crate::kit::outcome::Ended;

/// A limit that is over sooner would be one that programs wait for by themselves.
const AT_LEAST: Duration = Duration::from_secs(60);
/// How far the end of a limit may be off: programs tell it without seconds.
const CLOSE: SignedDuration = SignedDuration::from_secs(90);

pub(super) fn limit(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-limit";
    let now = Timestamp::now();
    // Programs tell the time without seconds.
    let resets_at = now
        .checked_add(AT_LEAST)
        .and_then(|soon| soon.checked_add(1.minute()))
        .and_then(|soon| soon.round(Unit::Minute))
        .map_err(|error| Ended::failed(error.to_string()))?;
    let left = Duration::try_from(resets_at.duration_since(now)).unwrap_or(AT_LEAST);
    let mut steps = vec![Step::Limit {
        retry_after: left,
        resets_at: Some(resets_at),
    }];
    steps.extend(works(bench, FIRST, marker));
    let raider = bench.begin(FIRST, marker, steps)?;
    match condition(bench, &raider, "rate_limited") {
        Ok(_) => {}
        Err(Ended::Failed { late: true, .. }) => return waits_by_itself(bench, &raider),
        Err(ended) => return Err(ended),
    }
    bench.record(&raider, "limit", "")?;
    let until = bench.end_of_limit()?;
    let wait = Wait {
        what: "the limit is over",
        within: left + bench.limit,
        of: &[&raider],
        besides: "rate_limited",
    };
    if !bench.short {
        bench.wait(wait, || Ok((Timestamp::now() >= resets_at).then_some(())))?;
    }
    bench.model.release(marker);
    if until.is_none() || bench.short {
        // The end is guessed, and later. A person may say that it is there.
        bench.resume_accounts()?;
    }
    let wait = Wait {
        what: "the work lands after the limit",
        within: LAND_LIMIT,
        of: &[&raider],
        besides: "rate_limited",
    };
    bench.wait_landing(&raider, wait)?;
    let off = until.map(|until| until.duration_since(resets_at).abs());
    Ok(match off {
        Some(off) if off <= CLOSE => None,
        Some(off) => Some(format!("its end was taken to be {off:#} off")),
        None => Some(
            "it does not show when the limit ends: the end is guessed (15 minutes) unless `hd harness \
             resume` is said, as here"
                .to_owned(),
        ),
    })
}

/// A program may wait without a word, and go on when the limit is over.
fn waits_by_itself(bench: &Bench, raider: &Raider) -> Result<Option<String>, Ended> {
    let screen = bench.screen(raider);
    bench.model.release(&raider.marker);
    match bench.wait_landed(raider, LAND_LIMIT) {
        Ok(()) => Ok(Some(
            "it waits by itself without a word: the limit is not shown".to_owned(),
        )),
        Err(_) => Err(Ended::Failed {
            why: "it is not shown as `rate_limited`, and does not go on by itself".to_owned(),
            screen,
            late: false,
        }),
    }
}

pub(super) fn login(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-login";
    let mut steps = vec![Step::Unauthorised];
    steps.extend(works(bench, FIRST, marker));
    let raider = bench.begin(FIRST, marker, steps)?;
    condition(bench, &raider, "auth")?;
    bench.record(&raider, "login", "")?;
    // Events are stored a moment after they are shown.
    let wait = Wait {
        what: "people are told of it (`raider.auth`)",
        within: bench.limit,
        of: &[&raider],
        besides: "auth",
    };
    bench.wait(wait, || {
        let told = bench.events("raider.auth", &raider)?;
        Ok((!told.is_empty()).then_some(()))
    })?;
    Ok(None)
}

/// Waits until the raider is shown in this condition.
fn condition(bench: &Bench, raider: &Raider, condition: &str) -> Result<Value, Ended> {
    let what = format!("it is shown as `{condition}`");
    let wait = Wait {
        what: &what,
        within: bench.limit,
        of: &[raider],
        besides: condition,
    };
    bench.wait(wait, || {
        let shown = bench.shown(raider)?;
        Ok(shown.filter(|shown| shown["condition"] == condition))
    })
}
