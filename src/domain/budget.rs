//! Budgets: a limit in dollars a day for the city, a rig or a harness. A spent budget parks new work until the day is
//! over, or only calls a person. Work in progress goes on. Tokens without a price count as 0: they never spend a budget
//! that covers such a harness or model, and a person is told.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::city::City;
use super::ids::{HarnessName, RigName};
use super::problem::{Problem, ProblemKind};
use super::usage::ledger::Row;
use super::usage::{Format, transcript_dirs};

/// A budget that does not see the costs of a harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blind {
    /// The scope of the budget.
    pub scope: Scope,
    /// The harness.
    pub harness: HarnessName,
    /// Set when its tokens, at least, are known.
    pub counted: bool,
}

impl Blind {
    /// Returns the message for a person.
    #[must_use]
    pub fn says(&self) -> String {
        let Self { scope, harness, .. } = self;
        let why = match self.counted {
            true => "its models have no price",
            false => "its program reports no token usage",
        };
        format!("the budget of {scope} does not count the use of harness {harness}: {why}")
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        let harness = &self.harness;
        match self.counted {
            true => format!("set the prices of its models in `[harness.{harness}] prices`"),
            false => "use a harness whose tokens are known, or limit its account at the provider"
                .to_owned(),
        }
    }
}

/// Returns the budgets that do not see the costs of a harness in their scope.
#[must_use]
pub fn blind(city: &City) -> Vec<Blind> {
    let rigs = || city.rigs.iter();
    let raiders = rigs().map(|rig| &rig.raiders.harness);
    let agents = city
        .agents
        .iter()
        .filter_map(|agent| agent.harness.as_ref());
    let used: BTreeSet<&HarnessName> = raiders.chain(agents).collect();
    let mut covered: Vec<(Scope, &HarnessName)> = Vec::new();
    if city.budget.is_some() {
        covered.extend(used.iter().map(|name| (Scope::City, *name)));
    }
    let own = rigs().filter(|rig| rig.raiders.budget.is_some());
    covered.extend(own.map(|rig| (Scope::Rig(rig.name.clone()), &rig.raiders.harness)));
    let own = city.harnesses.values().filter(|one| one.budget.is_some());
    covered.extend(own.map(|one| (Scope::Harness(one.name.clone()), &one.name)));
    let blind = covered.into_iter().filter_map(|(scope, name)| {
        let harness = city.harnesses.get(name)?;
        let program = harness.command.first().map_or("", String::as_str);
        let format = transcript_dirs::format(harness.hooks, program);
        let priced = format.is_some_and(Format::tells_money) || !harness.prices.0.is_empty();
        (format.is_none() || !priced).then(|| Blind {
            scope,
            harness: name.clone(),
            counted: format.is_some(),
        })
    });
    blind.collect()
}

/// Returns the problem that a person is called for when tokens without a price are used under a budget.
#[must_use]
pub fn unpriced(scope: &Scope) -> Problem {
    ProblemKind::BudgetUnpriced.in_words(format!(
        "the budget of {scope} is incomplete: some of the used tokens have no price"
    ))
}

/// A budget as configured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// US dollars from midnight to midnight.
    pub usd_per_day: f64,
    /// The effect of a spent budget.
    pub on_exceed: OnExceed,
}

/// The effect of a spent budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExceed {
    /// No new work is charged, and a person is called.
    Park,
    /// A person is called.
    Warn,
}

/// The scope of a budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole city.
    City,
    /// The raiders of a rig.
    Rig(RigName),
    /// Sessions of a harness.
    Harness(HarnessName),
}

impl Scope {
    /// Returns true when a budget of this scope counts the row.
    #[must_use]
    pub fn covers(&self, row: &Row) -> bool {
        match self {
            Self::City => true,
            Self::Rig(rig) => row.owner.rig == rig.as_str(),
            Self::Harness(harness) => row.owner.harness == harness.as_str(),
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::City => f.write_str("the city"),
            Self::Rig(rig) => write!(f, "rig {rig}"),
            Self::Harness(harness) => write!(f, "harness {harness}"),
        }
    }
}

/// A spent budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    /// Its scope.
    pub scope: Scope,
    /// The budget.
    pub budget: Budget,
    /// The costs of the day so far.
    pub spent: f64,
}

impl Over {
    /// Returns the problem that a person is called for.
    #[must_use]
    pub fn problem(&self) -> Problem {
        ProblemKind::BudgetSpent.in_words(self.says())
    }

    /// Returns the message for a person.
    #[must_use]
    pub fn says(&self) -> String {
        let (scope, most) = (&self.scope, self.budget.usd_per_day);
        format!(
            "the budget of {scope} is spent: {:.2} of {most:.2} USD today",
            self.spent
        )
    }
}

/// Returns the spent budgets among those that concern new work.
#[must_use]
pub fn spent(budgets: &[(Scope, Option<Budget>)], today: impl Fn(&Scope) -> f64) -> Vec<Over> {
    let over = budgets.iter().filter_map(|(scope, budget)| {
        let budget = (*budget)?;
        let spent = today(scope);
        (spent >= budget.usd_per_day).then(|| Over {
            scope: scope.clone(),
            budget,
            spent,
        })
    });
    over.collect()
}

/// Returns the calendar day of a time in this zone.
#[must_use]
pub fn day(at: Timestamp, zone: &TimeZone) -> Date {
    at.to_zoned(zone.clone()).date()
}

/// Returns the midnight that ends the day of a time.
#[must_use]
pub fn midnight(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    let tomorrow = day(at, zone).tomorrow().ok()?;
    tomorrow.to_zoned(zone.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::harness::hooks::Hooks;
    use crate::domain::usage::price::Prices;

    fn budget(usd_per_day: f64, on_exceed: OnExceed) -> Option<Budget> {
        Some(Budget {
            usd_per_day,
            on_exceed,
        })
    }

    #[test]
    fn budget_is_spent_when_the_day_has_cost_as_much() {
        let rig = Scope::Rig(RigName::new("horde").unwrap());
        let harness = Scope::Harness(HarnessName::new("claude").unwrap());
        let budgets = [
            (Scope::City, budget(10.0, OnExceed::Park)),
            (rig.clone(), budget(5.0, OnExceed::Warn)),
            (harness, None),
        ];
        let spent = |today: f64| {
            let over = super::spent(&budgets, |_| today);
            over.into_iter().map(|over| over.scope).collect::<Vec<_>>()
        };
        assert_eq!(spent(4.99), []);
        assert_eq!(spent(5.0), std::slice::from_ref(&rig));
        assert_eq!(spent(12.0), [Scope::City, rig]);
        let nothing = [(Scope::City, budget(0.0, OnExceed::Park))];
        assert_eq!(
            super::spent(&nothing, |_| 0.0).len(),
            1,
            "0 a day is none at all"
        );
        let over = super::spent(&budgets, |_| 12.345).remove(0);
        assert_eq!(
            over.says(),
            "the budget of the city is spent: 12.35 of 10.00 USD today"
        );
    }

    /// Claude has prices; codex reports only tokens, pi only dollars, aider neither.
    #[test]
    fn budget_that_covers_a_harness_without_prices_is_blind() {
        let mut city = crate::testing::world::Scenario::new().city;
        let one = city.harnesses.values().next().unwrap().clone();
        let price = crate::domain::usage::price::Price {
            input: 1.0,
            output: 1.0,
            cache_read: 1.0,
            cache_write: 1.0,
        };
        let prices = Prices([("m*".to_owned(), price)].into());
        for (name, hooks, prices) in [
            ("claude", Hooks::Claude, prices),
            ("codex", Hooks::Codex, Prices::default()),
            ("pi", Hooks::Pi, Prices::default()),
            ("aider", Hooks::None, Prices::default()),
        ] {
            let name = HarnessName::new(name).unwrap();
            let harness = crate::domain::city::Harness {
                name: name.clone(),
                hooks,
                prices,
                command: vec![name.to_string()],
                ..one.clone()
            };
            city.harnesses.insert(name, harness);
        }
        let said = |city: &City| {
            let blind = blind(city).into_iter();
            blind.map(|one| one.says()).collect::<Vec<_>>()
        };
        for (name, says) in [
            ("claude", None),
            ("codex", Some("its models have no price")),
            ("pi", None),
            ("aider", Some("its program reports no token usage")),
        ] {
            city.rigs[0].raiders.harness = HarnessName::new(name).unwrap();
            assert_eq!(said(&city), Vec::<String>::new(), "{name}: no budget");
            city.budget = budget(5.0, OnExceed::Park);
            city.rigs[0].raiders.budget = budget(5.0, OnExceed::Warn);
            let told = said(&city);
            assert_eq!(told.len(), if says.is_some() { 2 } else { 0 }, "{told:?}");
            for (told, scope) in told.iter().zip(["the city", "rig horde"]) {
                assert!(
                    told.contains(scope) && told.ends_with(says.unwrap()),
                    "{told}"
                );
            }
            (city.budget, city.rigs[0].raiders.budget) = (None, None);
        }
        let codex = city.harnesses.get_mut(&HarnessName::new("codex").unwrap());
        codex.unwrap().budget = budget(5.0, OnExceed::Park);
        assert_eq!(said(&city).len(), 1, "of a harness that no rig names");
    }

    #[test]
    fn day_ends_at_midnight_of_the_zone_also_when_a_clock_is_changed() {
        let zone = TimeZone::get("Europe/Oslo").unwrap();
        for (at, day, ends) in [
            ("2026-03-28T22:59:00Z", "2026-03-28", "2026-03-28T23:00:00Z"),
            ("2026-03-28T23:00:00Z", "2026-03-29", "2026-03-29T22:00:00Z"),
        ] {
            let at: Timestamp = at.parse().unwrap();
            assert_eq!(super::day(at, &zone).to_string(), day);
            let midnight = super::midnight(at, &zone).unwrap();
            assert_eq!(midnight.timestamp(), ends.parse().unwrap());
        }
    }
}
