//! The daemon is killed at moments that nobody chose. The seed is printed; `HORDE_SEED` repeats it.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::city::{City, Plan, does};

const RAIDERS: usize = 6;

/// A small generator of numbers (xorshift); good enough to choose moments.
struct Moments(u64);

impl Moments {
    fn seeded() -> Self {
        let seed = std::env::var("HORDE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let seed = seed.unwrap_or(now.as_nanos() as u64 | 1);
        eprintln!("HORDE_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

#[test]
fn a_daemon_killed_at_random_moments_loses_nothing() {
    let mut moments = Moments::seeded();
    let rounds = if std::env::var("HORDE_SWEEP").is_ok_and(|how| how == "long") {
        20
    } else {
        2
    };
    for round in 0..rounds {
        let plan = Plan {
            raiders: format!("max = {RAIDERS}"),
            ..Plan::default()
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
                let after = Duration::from_millis(moments.below(2000));
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

/// Charges a relic; refused when it is charged already, unanswered when the daemon dies of it.
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

/// Lets a time pass: here the moment itself is the condition.
fn pass(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}
