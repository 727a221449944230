//! The daemon is killed at random moments. The seed is printed; `HORDE_SEED` repeats it.

use std::thread;
use std::time::Duration;

use horde_supervisor::control::protocol::ErrorKind;
use horde_supervisor::testing::poll::pass;
use horde_supervisor::testing::tier::by_tier;

use nix::sys::signal::Signal;

use super::{does, plan};
use crate::support::chance::Chance;
use crate::support::live::City;
use crate::support::processes;

const RAIDERS: usize = 6;

#[test]
fn a_daemon_killed_at_random_moments_loses_nothing() {
    let mut moments = Chance::seeded();
    for round in 0..by_tier(1, 20) {
        let mut city = plan().set("raiders", "max", &RAIDERS.to_string()).start();
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
                let relic = city.script(&name, &script);
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
                processes::signal(city.pid(), Signal::SIGKILL);
            });
            city.kill();
            city.start();
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
    let args = serde_json::json!({ "relic": relic, "rig": "horde" });
    if let Err(error) = city.ask("charge", args) {
        let expected = [ErrorKind::Conflict, ErrorKind::Unavailable];
        assert!(expected.contains(&error.kind), "{error:?}");
    }
}
