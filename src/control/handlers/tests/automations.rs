//! `auto.list`: what runs, and what waits.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask};
use crate::domain::automation::{Action, Automation};
use crate::domain::gates::Gate;
use crate::domain::gates::event::Pattern;
use crate::testing::world::{Scenario, TestCity};

async fn listed(city: &TestCity) -> [Value; 3] {
    let listed = ask(city, "auto.list", json!({})).await.unwrap();
    ["running", "waits_for_place", "waiting_events"].map(|key| listed[0][key].clone())
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_an_automation_are_counted() {
    let on = Pattern::parse("relic.created").unwrap();
    let tidy = Automation {
        id: "tidy".parse().unwrap(),
        description: String::new(),
        action: Action::Exec("tidy".to_owned()),
        gate: Gate::Event { on },
        timeout: Duration::from_secs(3600),
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    };
    let city = Scenario::new().with(move |city| city.automations = vec![tidy]);
    let city = city.start().await;
    city.parts.runner.let_go("tidy", PATROL * 10, 0);
    for title in ["a", "b", "c"] {
        let made = json!({ "title": title, "body": "" });
        ask(&city, "relic.create", made).await.unwrap();
    }
    city.pass(PATROL).await;
    assert_eq!(listed(&city).await, [json!(true), json!(false), json!(2)]);
    city.pass(PATROL * 10).await;
    assert_eq!(listed(&city).await, [json!(true), json!(false), json!(1)]);
    city.pass(PATROL * 20).await;
    assert_eq!(listed(&city).await, [json!(false), json!(false), json!(0)]);
}
