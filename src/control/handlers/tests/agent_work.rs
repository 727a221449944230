//! The work of standing agents and members of pools in the chain of their identity.

use serde_json::{Value, json};

use super::agent_hooks::{SECOND, assigned, hooked, own, pool};
use super::ask;
use crate::domain::cv::{CvEntry, verify};
use crate::domain::ids::HarnessName;
use crate::domain::usage::Tokens;
use crate::domain::usage::ledger::{Owner, Row};
use crate::ports::relics::ChainOf;
use crate::testing::world::{Scenario, TestCity};

/// Returns agents that the harness of the raiders drives.
fn driven(min: u32) -> Scenario {
    pool(min).with(|city| {
        for agent in &mut city.agents {
            agent.harness = Some(HarnessName::new("script").unwrap());
        }
    })
}

async fn chain(city: &TestCity) -> Vec<CvEntry> {
    let read = city.store(|txn| txn.chain_entries(&ChainOf::Own, "script", 0, 99));
    let chain: Vec<CvEntry> = read.await.into_iter().map(|one| one.entry).collect();
    verify("script", &chain).unwrap();
    chain
}

fn kinds(chain: &[CvEntry]) -> Vec<&str> {
    chain.iter().map(|entry| entry.kind.as_str()).collect()
}

async fn used(city: &TestCity, child: &str, model: &str, input: u64) {
    let row = Row {
        day: "2026-01-31".into(),
        owner: Owner {
            session: format!("city-{child}"),
            rig: String::new(),
            child: child.into(),
            relic: String::new(),
            harness: "script".into(),
        },
        model: model.into(),
        tokens: Tokens {
            input,
            ..Tokens::default()
        },
        usd: 0.5,
        unpriced: 0,
    };
    city.store(move |txn| txn.add_usage(&row)).await;
}

#[tokio::test(start_paused = true)]
async fn work_of_a_pools_member_is_an_entry_with_what_was_measured() {
    let city = driven(1).start().await;
    used(&city, "worker-1", "m-0", 100).await;
    let relic = assigned(&city, "shared", "worker").await;
    let label = json!({ "relic": relic, "label": ["ui"] });
    ask(&city, "relic.edit", label).await.unwrap();
    hooked(&city, "worker-1").await;
    used(&city, "worker-1", "m-1", 10).await;
    used(&city, "mayor", "m-2", 1000).await;
    city.pass(SECOND * 60).await;
    // Asking again begins nothing anew.
    hooked(&city, "worker-1").await;
    own(&city, "worker-1", "done", json!({})).await.unwrap();
    let chain = chain(&city).await;
    assert_eq!(kinds(&chain), ["closed"]);
    let data = &chain[0].data;
    let of = |key: &str| data[key].clone();
    assert_eq!(
        (of("agent"), of("relic"), of("rig"), of("harness")),
        (
            json!("worker-1"),
            json!(relic),
            json!("horde"),
            json!("script")
        )
    );
    assert_eq!(
        (of("models"), of("labels")),
        (json!(["m-1"]), json!(["ui"]))
    );
    assert_eq!(data["tokens"]["input"], 10);
    assert_eq!(of("usd_micros"), 500_000);
    let seconds = of("duration_s").as_u64().unwrap();
    assert!((60..90).contains(&seconds), "{seconds}");
    assert_eq!(data["charged_by"]["kind"], "supervisor");
    // No one but the agent says that it is done: no success, and no attempt for the choice of a harness.
    let told = ask(&city, "cv", json!({ "identity": "script" })).await;
    let record = told.unwrap()["chains"][0]["record"].clone();
    assert_eq!(
        (&record["entries"], &record["all"]["results"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn every_other_end_of_an_agents_work_is_an_entry_too() {
    let city = driven(1).start().await;
    for status in ["escalated", "deferred"] {
        assigned(&city, status, "mayor").await;
        hooked(&city, "mayor").await;
        let mut args = json!({ "status": status, "reason": "no key" });
        if status == "deferred" {
            args["until"] = json!("2026-02-01T00:00:00Z");
        }
        own(&city, "mayor", "done", args).await.unwrap();
    }
    let relic = assigned(&city, "closed by a person", "mayor").await;
    hooked(&city, "mayor").await;
    let close = json!({ "relic": relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    let all = chain(&city).await;
    assert_eq!(kinds(&all), ["escalated", "deferred", "abandoned"]);
    assert_eq!(all[2].data["failure"], "relic_closed");
    // Reopened for the same agent, it is another piece of work.
    ask(&city, "relic.reopen", json!({ "relic": relic }))
        .await
        .unwrap();
    city.pass(SECOND).await;
    assert_eq!(hooked(&city, "mayor").await, relic.as_str());
    own(&city, "mayor", "done", json!({})).await.unwrap();
    let all = chain(&city).await;
    assert_eq!(kinds(&all[3..]), ["closed"]);
    assert_ne!(all[2].data["work"], all[3].data["work"]);
    let told = ask(&city, "cv", json!({})).await.unwrap();
    assert_eq!(told["chains"][0]["record"]["all"]["results"], 0, "{told}");
}

/// A plain command is no work of a harness or model.
#[tokio::test(start_paused = true)]
async fn agent_without_a_harness_has_no_identity() {
    let city = pool(1).start().await;
    assigned(&city, "shared", "worker").await;
    hooked(&city, "worker-1").await;
    own(&city, "worker-1", "done", json!({})).await.unwrap();
    let told = ask(&city, "cv", json!({})).await.unwrap();
    assert_eq!(told["chains"], Value::Array(Vec::new()), "{told}");
}
