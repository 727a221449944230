//! The cases of a provider that refuses: a limit, or invalid credentials.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp, ToSpan, Unit};
use serde_json::Value;

use super::{FIRST, LAND_LIMIT, SECOND, works};
use crate::control::protocol::args::{Charge, Send, Status};
use crate::control::protocol::{ErrorKind, Op};
use crate::kit::bench::{Bench, Raider, Wait};
use crate::kit::kit_dir::LOGGED_OUT;
use crate::kit::model::{Given, Step};
use crate::kit::outcome::Ended;

/// Programs themselves wait out a limit that ends sooner.
const AT_LEAST: Duration = Duration::from_secs(60);
/// A park that ends by mistake does so within this time after the event,
const STAYS: Duration = Duration::from_secs(4);
/// and in a short trial within this time.
const STAYS_SHORT: Duration = Duration::from_secs(1);
/// Timeout for another request to the model.
const ASKS_AGAIN: Duration = Duration::from_secs(10);
/// The tolerance for the end of a limit: programs show it without seconds.
const CLOSE: SignedDuration = SignedDuration::from_secs(90);

pub(super) fn limit(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-limit";
    let now = Timestamp::now();
    // Programs show the time without seconds.
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
    parks(bench, &raider, None)?;
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
        // The end is guessed, and later. A person may declare it.
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
        Some(off) => Some(format!("its end was reported {off:#} off")),
        None => Some(
            "it does not show when the limit ends: the end is guessed (15 minutes) unless `hd harness \
             resume` is said, as here"
                .to_owned(),
        ),
    })
}

/// Handles a program that waits silently, and goes on when the limit is over.
fn waits_by_itself(bench: &Bench, raider: &Raider) -> Result<Option<String>, Ended> {
    let screen = bench.screen(raider);
    bench.model.release(&raider.marker);
    match bench.wait_landed(raider, LAND_LIMIT) {
        Ok(()) => Ok(Some(
            "it waits without any output: the limit is not shown".to_owned(),
        )),
        Err(_) => Err(Ended::Failed {
            why: "it is not shown as `rate_limited`, and does not continue automatically"
                .to_owned(),
            screen,
            late: false,
        }),
    }
}

pub(super) fn login(bench: &Bench) -> Result<Option<String>, Ended> {
    let marker = "kit-login";
    if bench.says_logged_out {
        let raider = bench.begin_logged_out(SECOND, "kit-no-login")?;
        condition(bench, &raider, "auth")?;
        parks(bench, &raider, Some(LOGGED_OUT))?;
    }
    let mut steps = vec![Step::Unauthorised];
    steps.extend(works(bench, FIRST, marker));
    let raider = bench.begin(FIRST, marker, steps)?;
    condition(bench, &raider, "auth")?;
    bench.record(&raider, "login", "")?;
    // Events are stored a moment after they are shown.
    let wait = Wait {
        what: "a notice is sent (`raider.auth`)",
        within: bench.limit,
        of: &[&raider],
        besides: "auth",
    };
    bench.wait(wait, || {
        let events = bench.events("raider.auth", &raider)?;
        Ok((!events.is_empty()).then_some(()))
    })?;
    parks(bench, &raider, None)?;
    asks_again(bench, &raider)?;
    parks(bench, &raider, None)?;
    Ok(None)
}

/// Checks that the account is parked and stays so, that no text is typed into its session, and that no work is charged
/// to it.
fn parks(bench: &Bench, raider: &Raider, harness: Option<&str>) -> Result<(), Ended> {
    let is_parked = || {
        let status = bench.ask(&Op::Status(Status::default()))?;
        let mut parked = status["accounts"].as_array().into_iter().flatten();
        Ok(parked.any(|account| {
            let is_other = account["harness"] == LOGGED_OUT;
            is_other == (harness == Some(LOGGED_OUT))
        }))
    };
    let wait = Wait {
        what: "its account is parked",
        within: bench.limit,
        of: &[],
        besides: "",
    };
    bench.wait(wait, || Ok(is_parked()?.then_some(())))?;
    let time = match bench.short {
        true => STAYS_SHORT,
        false => STAYS,
    };
    let until = Instant::now() + time;
    let stays = Wait {
        what: "its account stays parked",
        within: STAYS * 2,
        ..wait
    };
    bench.wait(stays, || match is_parked()? {
        true => Ok((Instant::now() >= until).then_some(())),
        false => Err(bench.failed(
            raider,
            "its account is no longer parked, although nothing has changed",
        )),
    })?;
    let refused = |what: &str, op: &Op| match bench.call(op) {
        Err(error) if error.kind == ErrorKind::Parked => Ok(()),
        Err(error) => Err(bench.failed(raider, format!("{what}: {}", error.message))),
        Ok(_) => Err(bench.failed(raider, format!("its account is parked, and {what}"))),
    };
    let send = Op::Send(Send {
        name: raider.name.clone(),
        text: Some("Go on.".to_owned()),
        keys: None,
        force: false,
    });
    refused("`hd send` types a text", &send)?;
    let charge = Op::Charge(Charge {
        relic: bench.relic("kit-parked", "Nothing.")?,
        rig: None,
        harness: harness.map(ToOwned::to_owned),
        name: None,
        target: None,
    });
    refused("work is charged", &charge)
}

/// Has the program send another request to its model, as if a person typed something; the model refuses again.
fn asks_again(bench: &Bench, raider: &Raider) -> Result<(), Ended> {
    let refusals = || {
        let heard = bench.heard(&raider.marker);
        heard
            .iter()
            .filter(|heard| matches!(heard.given, Given::Refused(_)))
            .count()
    };
    let before = refusals();
    let typed = bench.call(&Op::Send(Send {
        name: raider.name.clone(),
        text: None,
        keys: Some("g o Enter".to_owned()),
        force: false,
    }));
    if typed.is_err() {
        // The program has ended.
        return Ok(());
    }
    let wait = Wait {
        what: "it asks its model again",
        within: ASKS_AGAIN,
        of: &[],
        besides: "",
    };
    match bench.wait(wait, || Ok((refusals() > before).then_some(()))) {
        // The typed text went into a dialog.
        Err(Ended::Failed { late: true, .. }) => Ok(()),
        asked => asked,
    }
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
