//! `auto.list`: what runs, and what waits. `auto.enable` and `auto.disable`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask};
use crate::domain::automation::{Action, Automation};
use crate::domain::event::EventType;
use crate::domain::gates::Gate;
use crate::domain::gates::event::Pattern;
use crate::testing::world::{Scenario, TestCity};

async fn listed(city: &TestCity) -> [Value; 3] {
    let listed = ask(city, "auto.list", json!({})).await.unwrap();
    ["running", "waits_for_place", "waiting_events"].map(|key| listed[0][key].clone())
}

async fn with_tidy() -> TestCity {
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
    city.start().await
}

#[tokio::test(start_paused = true)]
async fn events_of_disabling_and_enabling_name_the_caller_once() {
    let city = with_tidy().await;
    let tidy = json!({ "name": "tidy" });
    for op in ["auto.disable", "auto.disable", "auto.enable", "auto.enable"] {
        ask(&city, op, tidy.clone()).await.unwrap();
    }
    for kind in [EventType::AutomationDisabled, EventType::AutomationEnabled] {
        let told = city.events(kind).await;
        assert_eq!(told.len(), 1, "{told:?}");
        let told = (
            told[0].subject.as_str(),
            &told[0].cause,
            &told[0].data["by"],
        );
        assert_eq!(told, ("tidy", &"operator".to_owned(), &json!("operator")));
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_an_automation_are_counted() {
    let city = with_tidy().await;
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
