//! What is shown of those who do not get on, and why.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask;
use crate::domain::question::Pattern;
use crate::testing::world::{Scenario, Town};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn toast(town: &Town) -> Value {
    let toast = json!({ "name": "Toast" });
    ask(town, "raider.show", toast).await.unwrap()
}

/// What was done about the session before it is remembered, and is nothing that it has done.
#[tokio::test(start_paused = true)]
async fn a_fresh_session_is_not_stalled_before_its_time() {
    let scenario = Scenario::new().rig(|rig| rig.raiders.stall_after = Some(10 * MINUTE));
    let town = scenario.start().await;
    let charged = town.worker("a").await;
    town.pass(12 * MINUTE).await;
    assert_eq!(toast(&town).await["state"], "stalled");
    while town.starts(&charged.session) < 2 {
        town.pass(MINUTE).await;
    }
    assert_eq!(toast(&town).await["state"], "working");
    town.pass(12 * MINUTE).await;
    assert_eq!(toast(&town).await["state"], "stalled");
}

#[tokio::test(start_paused = true)]
async fn a_raider_in_its_back_off_says_when_it_is_tried_again() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    assert_eq!(toast(&town).await["retry_at"], Value::Null);
    for _ in 0..2 {
        town.parts.sessions.exit(&charged.session, 3);
        town.settle().await;
    }
    let shown = toast(&town).await;
    let now = town.world.clock.now().to_string();
    let at = shown["retry_at"].as_str();
    assert!(at.is_some_and(|at| at > now.as_str()), "{shown}");
    town.pass(MINUTE).await;
    assert_eq!(toast(&town).await["retry_at"], Value::Null);
}

/// Several sessions go on one after another: none shows a limit that ended before now.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_over_is_shown_as_a_turn_that_is_waited_for_and_then_not_at_all() {
    let looks = |city: &mut crate::domain::city::City| {
        let pattern = r"at your limit(?: until (?P<until>\S+))?";
        for harness in city.harnesses.values_mut() {
            harness.looks.limit = Pattern::new(pattern).into_iter().collect();
            harness.looks.input = Pattern::new("^> ").into_iter().collect();
        }
    };
    let town = Scenario::new().with(looks).start().await;
    let first = town.worker("one").await;
    // The older work has the first turn.
    town.pass(SECOND).await;
    let second = town.worker("two").await;
    let ends = town.world.clock.now() + 10 * MINUTE;
    for session in [&first.session, &second.session] {
        let screen = format!("at your limit until {ends}\n> ");
        town.parts.sessions.show(session, Some(&screen));
        let now = town.world.clock.now();
        town.parts.sessions.set_last_activity(session, Some(now));
    }
    town.pass(MINUTE).await;
    let shown = async |name: &str| {
        let args = json!({ "name": name });
        ask(&town, "raider.show", args).await.unwrap()
    };
    assert_eq!(shown("Toast").await["condition"], "rate_limited");
    let left = ends.duration_since(town.world.clock.now()).unsigned_abs();
    town.pass(left + SECOND).await;
    assert_eq!(
        shown("Toast").await["condition"],
        Value::Null,
        "within a second"
    );
    let waits = shown("Shadow").await;
    assert_eq!(waits["condition"], "rate_limited");
    let turn = (ends + 5 * SECOND).to_string();
    let (until, detail) = (waits["until"].as_str(), waits["detail"].as_str());
    assert!(until.unwrap() >= turn.as_str(), "{waits}");
    assert!(detail.unwrap().contains("in its turn"), "{waits}");
    town.pass(5 * SECOND).await;
    assert_eq!(shown("Shadow").await["condition"], Value::Null);
}
