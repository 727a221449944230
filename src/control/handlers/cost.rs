//! `cost`: tokens and money.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::to_json;
use crate::actors::usage;
use crate::actors::world::World;
use crate::control::protocol::args::Cost;
use crate::control::protocol::{ControlError, answers};
use crate::domain::budget::{self, Blind};
use crate::domain::usage::ledger::{Row, Sum, together};

/// The period without `since`.
const USUAL: &str = "7d";

pub(super) async fn cost(world: &World, args: Cost) -> Result<Value, ControlError> {
    let since = first_day(world, args.since.as_deref().unwrap_or(USUAL))?;
    usage::collect(world, None).await;
    let day = since.clone();
    let rows = world.store.run(move |txn| txn.usage_since(&day)).await?;
    let by = args.by.unwrap_or_default();
    let sums = together(&rows, by).into_iter();
    let sums = sums.map(|(key, sum)| answers::CostRow {
        key,
        usage: (&sum).into(),
    });
    to_json(&answers::Cost {
        since,
        zone: TimeZone::system().iana_name().map(str::to_owned),
        by,
        rows: sums.collect(),
        total: (&Sum::of(&rows)).into(),
        not_counted: not_counted(world, &rows),
    })
}

/// Returns the budgets that do not count all usage, in words.
fn not_counted(world: &World, rows: &[Row]) -> Vec<String> {
    let mut says: Vec<_> = budget::blind(&world.city).iter().map(Blind::says).collect();
    let budgets = usage::every_budget(world).into_iter();
    let unpriced = budgets.filter(|(scope, budget)| {
        let mut rows = rows.iter();
        budget.is_some() && rows.any(|row| row.unpriced > 0 && scope.covers(row))
    });
    says.extend(unpriced.map(|(scope, _)| budget::unpriced(&scope).text().to_owned()));
    says
}

/// Returns the first day that counts: a named day, or that of so long ago.
fn first_day(world: &World, since: &str) -> Result<String, ControlError> {
    if let Ok(day) = since.parse::<Date>() {
        return Ok(day.to_string());
    }
    let wrong = || {
        let message = format!("since must be a day or a duration, not {since:?}");
        ControlError::bad_request(message).hint("2026-01-31, or 30d")
    };
    let age = humantime::parse_duration(since).map_err(|_| wrong())?;
    let from = world.clock.now().checked_sub(age).map_err(|_| wrong())?;
    Ok(usage::day(from))
}
