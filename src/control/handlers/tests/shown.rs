//! What is shown of those who do not get on, and why.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask;
use crate::testing::world::{Scenario, Town};

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
