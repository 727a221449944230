//! Budgets: today's usage compared with the limit per day.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use serde_json::json;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::{collect, day};
use crate::actors::records::escalations;
use crate::domain::budget::{self, Budget, OnExceed, Over, Scope};
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::HarnessName;
use crate::domain::message::{self, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::usage::ledger::{Row, Sum};
use crate::ports::relics::{StoreError, Txn};

/// The key prefix of the records when a person was last called about each budget.
const TOLD: &str = "budget/";
/// The key prefix of the records that a person knows that a budget does not count everything.
const UNPRICED: &str = "budget-unpriced/";

/// Calls a person for each budget that is spent, and closes the escalations of those that are not any more.
///
/// # Errors
/// The store's.
pub(super) async fn report_all(world: &World) -> Result<(), StoreError> {
    let budgets = every_budget(world);
    let over = report_spent(world, &budgets).await?;
    let holds = |scope: &Scope| over.iter().any(|over| over.scope == *scope);
    let mut within: Vec<_> = budgets.into_iter().map(|(scope, _)| scope).collect();
    within.retain(|scope| !holds(scope));
    let settled = world.store.run(move |txn| {
        // It may not be configured any more.
        escalations::close_matching(txn, &[ProblemKind::BudgetSpent], |scope, _| {
            over.iter().all(|over| over.scope.to_string() != scope)
        })?;
        for scope in &within {
            // A budget that is spent again calls again.
            let key = format!("{TOLD}{scope}");
            if txn.get(&key)?.is_some() {
                txn.set(&key, None)?;
            }
        }
        Ok(())
    });
    settled.await
}

/// Returns the budgets that are spent now.
///
/// # Errors
/// The store's.
pub async fn spent(world: &World) -> Result<Vec<(Over, String)>, StoreError> {
    let budgets = every_budget(world);
    if budgets.iter().all(|(_, budget)| budget.is_none()) {
        return Ok(Vec::new());
    }
    let today = day(world.clock.now());
    let over = world
        .store
        .run(move |txn| Ok(spent_in(&txn.usage_since(&today)?, &budgets)));
    let until = until(world);
    let over = over.await?.into_iter().map(|over| (over, until.clone()));
    Ok(over.collect())
}

fn spent_in(rows: &[Row], budgets: &[(Scope, Option<Budget>)]) -> Vec<Over> {
    budget::spent(budgets, |scope| {
        Sum::of(rows.iter().filter(|row| scope.covers(row))).usd
    })
}

/// Returns all budgets of the configuration, and the scopes without one.
#[must_use]
pub fn every_budget(world: &World) -> Vec<(Scope, Option<Budget>)> {
    let city = &world.city;
    let rigs = city.rigs.iter();
    let rigs = rigs.map(|rig| (Scope::Rig(rig.name.clone()), rig.raiders.budget));
    let harnesses = city.harnesses.values();
    let harnesses = harnesses.map(|one| (Scope::Harness(one.name.clone()), one.budget));
    let all = [(Scope::City, city.budget)].into_iter();
    all.chain(rigs).chain(harnesses).collect()
}

/// Checks whether new work of a rig may be charged to a harness.
///
/// # Errors
/// [`RefusalKind::Parked`] while a budget is spent that parks new work.
pub async fn afford(world: &World, rig: &Rig, harness: &HarnessName) -> Result<(), Refusal> {
    let own = world.city.harnesses.get(harness);
    let budgets = [
        (Scope::City, world.city.budget),
        (Scope::Rig(rig.name.clone()), rig.raiders.budget),
        (
            Scope::Harness(harness.clone()),
            own.and_then(|own| own.budget),
        ),
    ];
    if budgets.iter().all(|(_, budget)| budget.is_none()) {
        return Ok(());
    }
    collect(world, None).await;
    let over = report_spent(world, &budgets).await?;
    let parks = |over: &&Over| over.budget.on_exceed == OnExceed::Park;
    let Some(over) = over.iter().find(parks) else {
        return Ok(());
    };
    let refusal = Refusal::new(RefusalKind::Parked, over.says());
    Err(refusal.hint(format!("new work is charged {}", until(world))))
}

/// Maximum number of models named in an escalation.
const NAMED: usize = 8;

/// Calls a person, once for each budget under which tokens without a price are used: it cannot limit what it does not
/// count. Returns true when a person was called.
fn report_unpriced(
    txn: &mut dyn Txn,
    budgets: &[(Scope, Option<Budget>)],
    rows: &[Row],
) -> Result<bool, StoreError> {
    let mut called = false;
    for (scope, budget) in budgets {
        let Some(budget) = budget else { continue };
        let unpriced = rows
            .iter()
            .filter(|row| row.unpriced > 0 && scope.covers(row));
        let unpriced: Vec<&Row> = unpriced.collect();
        let (key, now) = (format!("{UNPRICED}{scope}"), budget.usd_per_day.to_string());
        if unpriced.is_empty() || txn.get(&key)?.as_ref() == Some(&now) {
            continue;
        }
        txn.set(&key, Some(&now))?;
        let tokens = Sum::of(unpriced.iter().copied()).unpriced;
        let models = unpriced.iter().map(|row| match row.model.as_str() {
            "" => format!("an unnamed model of {}", row.owner.harness),
            model => format!("{model} ({})", row.owner.harness),
        });
        let models: BTreeSet<_> = models.collect();
        let models: Vec<_> = models.into_iter().take(NAMED).collect();
        let data = json!({ "budget": scope.to_string(), "tokens": tokens, "models": models });
        let event = NewEvent::new(EventType::BudgetUnpriced, scope, Cause::Patrol);
        txn.record(&event.with(data))?;
        let evidence = format!(
            "{tokens} tokens of today have no price (models: {}), so the budget of {:.2} USD \
            a day does not limit them. Set `prices` of the harness; `hd cost --by model` shows the used models.",
            models.join(", "),
            budget.usd_per_day,
        );
        let escalation = Escalation::high(scope, budget::unpriced(scope), evidence).medium();
        escalations::report(txn, "supervisor", &escalation)?;
        called = true;
    }
    Ok(called)
}

/// Returns when a spent budget parks no longer.
fn until(world: &World) -> String {
    let raised = "or when the budget is raised and `hd reload` is run";
    match budget::midnight(world.clock.now(), &TimeZone::system()) {
        Some(midnight) => format!("after {}, {raised}", midnight.strftime("%F %R %Z")),
        None => format!("tomorrow, {raised}"),
    }
}

/// Returns the budgets that are spent; a person is called once a day for each.
async fn report_spent(
    world: &World,
    budgets: &[(Scope, Option<Budget>)],
) -> Result<Vec<Over>, StoreError> {
    if budgets.iter().all(|(_, budget)| budget.is_none()) {
        return Ok(Vec::new());
    }
    let today = day(world.clock.now());
    let (budgets, until) = (budgets.to_vec(), until(world));
    let told = world.store.run(move |txn| {
        let rows = txn.usage_since(&today)?;
        let over = spent_in(&rows, &budgets);
        let mut called = report_unpriced(txn, &budgets, &rows)?;
        for over in &over {
            let key = format!("{TOLD}{}", over.scope);
            let now = format!("{today} {}", over.budget.usd_per_day);
            if txn.get(&key)?.as_ref() == Some(&now) {
                continue;
            }
            txn.set(&key, Some(&now))?;
            let follows = match over.budget.on_exceed {
                OnExceed::Park => {
                    format!("New work is charged {until}. Running sessions continue.")
                }
                OnExceed::Warn => "Nothing is parked.".to_owned(),
            };
            let escalation = Escalation::high(
                &over.scope,
                over.problem(),
                format!("{follows} `hd cost --by raider` shows the usage."),
            )
            .medium();
            escalations::report(txn, "supervisor", &escalation)?;
            called = true;
        }
        Ok((over, called))
    });
    let (over, called) = told.await?;
    if called {
        world.nudge(message::SHAMAN);
    }
    Ok(over)
}
