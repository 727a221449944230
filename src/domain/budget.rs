//! Budgets: how many dollars a day may cost, of the city, of a rig, of a harness. One that is spent parks
//! new work until the day is over, or only calls a person. Work that has begun goes on.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::ids::{HarnessName, RigName};

/// A budget as configured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// US dollars from midnight to midnight.
    pub usd_per_day: f64,
    /// What happens when they are spent.
    pub on_exceed: OnExceed,
}

/// What happens when a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExceed {
    /// No new work is charged, and a person is called.
    Park,
    /// A person is called.
    Warn,
}

/// What a budget is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everything.
    City,
    /// The raiders of a rig.
    Rig(RigName),
    /// Sessions of a harness.
    Harness(HarnessName),
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

/// A budget that is spent.
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    /// Of what.
    pub scope: Scope,
    /// The budget.
    pub budget: Budget,
    /// What the day has cost so far.
    pub spent: f64,
}

impl Over {
    /// Whether these words tell of a budget of this scope, which need not be configured any more.
    #[must_use]
    pub fn is_told(scope: &str, words: &str) -> bool {
        words.starts_with(&format!("the budget of {scope} is spent: "))
    }

    /// What a person is told.
    #[must_use]
    pub fn says(&self) -> String {
        let (scope, most) = (&self.scope, self.budget.usd_per_day);
        format!(
            "the budget of {scope} is spent: {:.2} of {most:.2} USD today",
            self.spent
        )
    }
}

/// The budgets that are spent, of those that concern new work.
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

/// The day of a time, as the clock on the wall has it.
#[must_use]
pub fn day(at: Timestamp, zone: &TimeZone) -> Date {
    at.to_zoned(zone.clone()).date()
}

/// The midnight that ends the day of a time.
#[must_use]
pub fn midnight(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    let tomorrow = day(at, zone).tomorrow().ok()?;
    tomorrow.to_zoned(zone.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
