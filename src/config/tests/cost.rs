//! Budgets and prices.

use super::SampleDir;
use crate::domain::budget::{Budget, OnExceed};

fn load(text: &str) -> Result<crate::domain::city::City, String> {
    let place = SampleDir::new();
    let rig = "[[rigs]]\nname = \"horde\"\npath = \"repo\"\n";
    let loaded = place.load(&format!("workspace.name = \"c\"\n{text}\n{rig}"));
    loaded
        .map(|loaded| loaded.city)
        .map_err(|errors| errors.render(false))
}

#[test]
fn no_limit_applies_without_a_budget() {
    let city = load("").unwrap();
    assert_eq!(city.budget, None);
    assert_eq!(city.rigs[0].raiders.budget, None);
    assert!(city.harnesses.values().all(|one| one.budget.is_none()));
    let city = load("workspace.budget = { usd_per_day = 20 }").unwrap();
    let expected = Budget {
        usd_per_day: 20.0,
        on_exceed: OnExceed::Park,
    };
    assert_eq!(city.budget, Some(expected));
    let city = load("harness.pi.budget = { usd_per_day = 0.5, on_exceed = \"warn\" }").unwrap();
    let budget = city.harnesses[&"pi".parse().unwrap()].budget.unwrap();
    assert_eq!(budget.on_exceed, OnExceed::Warn);
}

#[test]
fn prices_are_added_to_those_of_the_preset() {
    let own =
        "harness.claude.prices = { \"mine\" = { input = 1, output = 2.5, cache_read = 0.1 } }";
    let city = load(own).unwrap();
    let prices = &city.harnesses[&"claude".parse().unwrap()].prices;
    let mine = prices.of("mine").unwrap();
    assert_eq!((mine.output, mine.cache_read), (2.5, 0.1));
    assert!((mine.cache_write - 1.0).abs() < 1e-9, "as input");
    let preset = prices.of("claude-sonnet-4-5-20250929").unwrap();
    assert!((preset.output - 15.0).abs() < 1e-9);
    assert_eq!(prices.of("claude-sonnet-5"), None, "not known");
}

#[test]
fn budget_or_price_that_is_wrong_is_told() {
    for (text, says) in [
        ("workspace.budget = { on_exceed = \"park\" }", "usd_per_day"),
        ("workspace.budget = { usd_per_day = -1 }", "is not between"),
        (
            "workspace.budget = { usd_per_day = 1, on_exceed = \"stop\" }",
            "park",
        ),
        (
            "workspace.budget = { usd_per_days = 1 }",
            "did you mean `usd_per_day`?",
        ),
        ("workspace.budget = 20", "expected a table"),
        ("harness.pi.prices = { m = { input = 1 } }", "output"),
        ("harness.pi.prices = { m = 1 }", "expected a table"),
    ] {
        let errors = load(text).unwrap_err();
        assert!(errors.contains(says), "{text}: {errors}");
    }
}
