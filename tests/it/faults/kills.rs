//! The daemon is killed at random moments. The seed is printed; `HORDE_SEED` repeats it.

use std::thread;
use std::time::Duration;

use horde_supervisor::testing::poll::pass;
use horde_supervisor::testing::tier::by_tier;

use super::city::{City, CityPlan, does};
use crate::support::chance::Chance;

const RAIDERS: usize = 6;

#[test]
fn a_daemon_killed_at_random_moments_loses_nothing() {
    let mut moments = Chance::seeded();
    for round in 0..by_tier(1, 20) {
        let plan = CityPlan {
            raiders: format!("max = {RAIDERS}"),
            ..CityPlan::default()
        };
        let city = City::running(&plan);
        let relics: Vec<_> = (1..=RAIDERS)
            .map(|number| {
                let name = format!("w{number}");
                let pause = moments.below(1500);
                let script = format!(
                    "sleep {}.{:03}\n{}",
                    pause / 1000,
                    pause % 1000,
                    does(&name)
                );
                let relic = city.relic(&name, 0, &script);
                (name, relic)
            })
            .collect();
        for kill in 0..4 {
            thread::scope(|scope| {
                for (_, relic) in &relics {
                    scope.spawn(|| charge(&city, relic));
                }
                let after = Duration::from_millis(moments.below(2000) as u64);
                eprintln!("round {round}, kill {kill}: after {after:?}");
                pass(after);
                city.kill();
            });
            city.start(&[]);
        }
        for (_, relic) in &relics {
            charge(&city, relic);
        }
        city.assert_landed(&relics);
        city.assert_no_salvage();
        city.stop();
    }
}

/// Charges a relic. Refused when it is charged already, unanswered when the daemon dies of it.
fn charge(city: &City, relic: &str) {
    let args = serde_json::json!({ "relic": relic, "rig": "rig" });
    if let Err(error) = city.try_ask("charge", &args) {
        let expected = ["conflict", "unreachable"];
        assert!(
            expected.iter().any(|kind| error.starts_with(kind)),
            "{error}"
        );
    }
}
