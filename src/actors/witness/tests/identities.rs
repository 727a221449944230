//! Identity chains (`raider-lifecycle.md`, identity): each result of work is one entry of the identity that did it, with
//! facts that the supervisor measured.

use serde_json::Value;

use super::PATROL;
use super::zombies::fragile;
use crate::actors::mail::{Charged, ChildState};
use crate::domain::cv::{CvEntry, verify};
use crate::domain::identity::{Identities, Pattern};
use crate::domain::ids::{ChildId, HarnessName, IdentityName};
use crate::domain::merge::MergeOutcome;
use crate::domain::relic::Completion;
use crate::domain::usage::Tokens;
use crate::domain::usage::ledger::{Owner, Row};
use crate::ports::relics::ChainOf;
use crate::testing::world::{Scenario, TestCity, completion};

/// Returns the chain of an identity, which verifies.
pub(super) async fn chain(city: &TestCity, name: &'static str) -> Vec<CvEntry> {
    let read = city.store(move |txn| txn.chain_entries(&ChainOf::Own, name, 0, 99));
    let chain: Vec<CvEntry> = read.await.into_iter().map(|one| one.entry).collect();
    verify(name, &chain).unwrap();
    chain
}

pub(super) fn kinds(chain: &[CvEntry]) -> Vec<&str> {
    chain.iter().map(|entry| entry.kind.as_str()).collect()
}

/// Returns a row of the ledger with this number of tokens.
pub(super) fn used(charged: &Charged, input: u64) -> Row {
    Row {
        day: "2026-01-31".into(),
        owner: Owner {
            session: charged.session.to_string(),
            rig: "horde".into(),
            child: charged.raider.to_string(),
            relic: charged.relic.to_string(),
            harness: "script".into(),
        },
        model: "m-1".into(),
        tokens: Tokens {
            input,
            ..Tokens::default()
        },
        usd: 0.5,
        unpriced: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn landed_work_is_an_entry_with_what_was_measured() {
    let city = Scenario::new().start().await;
    let mut row = city.relic_now(&city.relic("a").await).await;
    row.labels = vec!["ui".into()];
    let id = row.id.clone();
    city.store(move |txn| txn.put_relic(&row)).await;
    let charged = city.charge(&id).await.unwrap();
    city.parts.repo.commit(&charged.raider.name);
    let used = used(&charged, 7);
    city.store(move |txn| txn.add_usage(&used)).await;
    city.pass(PATROL * 2).await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let chain = chain(&city, "script").await;
    assert_eq!(kinds(&chain), ["merged"]);
    let data = &chain[0].data;
    let wanted = serde_json::json!({
        "work": format!("{}#1", charged.raider), "rig": "horde", "relic": id, "harness": "script",
        "models": ["m-1"], "labels": ["ui"], "first_pass": true, "usd_micros": 500_000, "failure": null,
    });
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(&data[key], value, "{key} of {data}");
    }
    assert_eq!(data["tokens"]["input"], 7);
    assert_eq!(data["charged_by"]["kind"], "person");
    assert!(data["duration_s"].as_u64().unwrap() >= 62, "{data}");
    assert!(data["files"].is_object(), "{data}");
}

#[tokio::test(start_paused = true)]
async fn failed_landing_is_an_entry_and_the_next_attempt_is_no_first_pass() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let files = vec!["src/a.rs".to_owned()];
    city.parts.repo.script_merge(MergeOutcome::Conflict(files));
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let second = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
    city.parts.repo.commit(&second.raider.name);
    city.completed(&second.raider).await.unwrap();
    city.pass(PATROL).await;
    let chain = chain(&city, "script").await;
    assert_eq!(kinds(&chain), ["merge_failed", "merged"]);
    assert_eq!(chain[0].data["failure"], "conflict");
    assert_eq!(chain[0].data["first_pass"], Value::Null);
    assert_eq!(chain[1].data["first_pass"], false);
    assert_eq!(chain[1].data["charged_by"]["kind"], "supervisor");
}

#[tokio::test(start_paused = true)]
async fn every_other_end_is_an_entry() {
    let city = Scenario::new().start().await;
    let stuck = city.worker("stuck").await;
    let mut request = completion(&stuck.raider);
    (request.exit, request.reason) = (Completion::Escalated, Some("no key".into()));
    city.done(request).await.unwrap();
    city.pass(PATROL).await;
    let same = city.charged("nothing to do").await;
    let mut request = completion(&same.raider);
    (request.no_change, request.reason) = (true, Some("it was fixed before".into()));
    city.done(request).await.unwrap();
    city.pass(PATROL).await;
    let later = city.worker("later").await;
    let mut request = completion(&later.raider);
    request.exit = Completion::Deferred;
    city.done(request).await.unwrap();
    city.pass(PATROL).await;
    let gone = city.charged("gone").await;
    city.nuke(&gone.raider, true).await.unwrap();
    city.pass(PATROL).await;
    let chain = chain(&city, "script").await;
    assert_eq!(
        kinds(&chain),
        ["escalated", "no_change", "deferred", "abandoned"]
    );
    assert_eq!(chain[3].data["failure"], "operator");
    // The reason in the agent's own words is not in a chain.
    assert!(!serde_json::to_string(&chain).unwrap().contains("no key"));
}

#[tokio::test(start_paused = true)]
async fn sessions_that_die_too_often_are_one_failure() {
    let city = fragile().start().await;
    let charged = city.charged("a").await;
    let child = ChildId::Raider(charged.raider.clone());
    while city.state(&child).await != Some(ChildState::Quarantined) {
        city.parts.sessions.crash(&charged.session, 9);
        city.pass(std::time::Duration::from_secs(5)).await;
    }
    city.settle().await;
    city.pass(PATROL * 3).await;
    assert_eq!(kinds(&chain(&city, "script").await), ["quarantined"]);
}

/// The identity is that of the charge: a later name is for later work.
#[tokio::test(start_paused = true)]
async fn identity_is_named_by_the_configuration_when_the_work_is_charged() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let named = |city: &mut crate::domain::city::City| {
        let pattern = Pattern {
            harness: HarnessName::new("script").unwrap(),
            model: None,
        };
        let name = IdentityName::new("builder").unwrap();
        city.identities = Identities([(name, pattern)].into());
    };
    city.reload(named).await;
    let later = city.worker("b").await;
    for raider in [&charged.raider, &later.raider] {
        city.completed(raider).await.unwrap();
        city.pass(PATROL).await;
    }
    assert_eq!(kinds(&chain(&city, "script").await), ["merged"]);
    assert_eq!(kinds(&chain(&city, "builder").await), ["merged"]);
}
