//! Entries of identity chains count each token and second once, each failure, and nothing that an agent could
//! decide alone.

use super::PATROL;
use super::identities::{chain, kinds, used};
use crate::actors::records::identities::{self, Begun, Ended};
use crate::actors::sagas::{closing, rejection};
use crate::domain::asker::Asker;
use crate::domain::attempt::Outcome;
use crate::domain::cause::Cause;
use crate::domain::ids::Incarnation;
use crate::domain::merge::MergeOutcome;
use crate::domain::relic::Hook;
use crate::ports::relics::Txn;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

async fn hook(city: &TestCity) -> Hook {
    city.store(|txn| txn.hooks(None)).await.pop().unwrap()
}

async fn ends(city: &TestCity, hook: &Hook, outcome: Outcome) {
    let hook = hook.clone();
    let end = move |txn: &mut dyn Txn| identities::end(txn, &Ended::of_hook(&hook, outcome));
    city.store(end).await;
}

/// A landing that changes nothing would be the easiest success.
#[tokio::test(start_paused = true)]
async fn landing_of_nothing_is_neither_success_nor_failure() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    city.parts.repo.script_merge(MergeOutcome::Nothing);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let chain = chain(&city, "script").await;
    assert_eq!(kinds(&chain), ["no_change"]);
    assert_ne!(chain[0].data["mr"], serde_json::Value::Null);
    assert_eq!(Outcome::NoChange.succeeded(None), None);
}

#[tokio::test(start_paused = true)]
async fn later_result_counts_what_no_earlier_one_has() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let hook = hook(&city).await;
    let row = used(&charged, 10);
    city.store(move |txn| txn.add_usage(&row)).await;
    city.pass(PATROL).await;
    ends(&city, &hook, Outcome::Quarantined).await;
    let row = used(&charged, 5);
    city.store(move |txn| txn.add_usage(&row)).await;
    city.pass(PATROL * 2).await;
    // A result that is there already counts nothing.
    ends(&city, &hook, Outcome::Quarantined).await;
    ends(&city, &hook, Outcome::Deferred).await;
    let chain = chain(&city, "script").await;
    assert_eq!(kinds(&chain), ["quarantined", "deferred"]);
    let of = |n: usize, key: &str| chain[n].data[key].clone();
    assert_eq!(of(0, "tokens")["input"], 10);
    assert_eq!(of(1, "tokens")["input"], 5);
    assert_eq!(of(1, "usd_micros"), 500_000);
    let seconds = [of(0, "duration_s"), of(1, "duration_s")].map(|at| at.as_u64().unwrap());
    assert!((31..62).contains(&seconds[0]), "{seconds:?}");
    assert!((62..93).contains(&seconds[1]), "{seconds:?}");
}

/// The result of the first attempt comes when the second one is at work, in the same slot.
#[tokio::test(start_paused = true)]
async fn tokens_of_a_later_incarnation_are_not_those_of_an_earlier_one() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let first = hook(&city).await;
    let row = used(&charged, 10);
    city.store(move |txn| txn.add_usage(&row)).await;
    let mut second = first.clone();
    second.incarnation = Incarnation(first.incarnation.0 + 1);
    let again = second.clone();
    let begin = move |txn: &mut dyn Txn| {
        let relic = txn.relic(&again.relic)?;
        let begun = Begun {
            hook: &again,
            identity: "script".into(),
            cause: Cause::Config,
            by: None,
            assignee: None,
            choice: None,
            began: None,
        };
        identities::begin(txn, &relic, begun)
    };
    city.store(begin).await;
    let row = used(&charged, 7);
    city.store(move |txn| txn.add_usage(&row)).await;
    ends(&city, &first, Outcome::Escalated).await;
    ends(&city, &second, Outcome::Escalated).await;
    let chain = chain(&city, "script").await;
    let tokens = [0, 1].map(|n| chain[n].data["tokens"]["input"].as_u64().unwrap());
    assert_eq!(tokens, [10, 7]);
}

/// An agent may edit relics: it does not choose the label for which it is known.
#[tokio::test(start_paused = true)]
async fn labels_are_those_of_the_charge() {
    let city = Scenario::new().start().await;
    let mut row = city.relic_now(&city.relic("a").await).await;
    row.labels = vec!["ui".into()];
    let id = row.id.clone();
    city.store(move |txn| txn.put_relic(&row)).await;
    let charged = city.charge(&id).await.unwrap();
    city.parts.repo.commit(&charged.raider.name);
    let mut row = city.relic_now(&id).await;
    row.labels = vec!["kernel".into()];
    city.store(move |txn| txn.put_relic(&row)).await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let chain = chain(&city, "script").await;
    assert_eq!(chain[0].data["labels"], serde_json::json!(["ui"]));
}

#[tokio::test(start_paused = true)]
async fn rejection_is_a_failure_only_by_a_person() {
    let cases = [
        (Asker::person(), "by_person"),
        (Asker::agent("mayor"), "by_agent"),
    ];
    for (asker, word) in cases {
        let city = Scenario::new().rig(|rig| rig.forge.review_human = true);
        let city = city.start().await;
        let charged = city.worker("a").await;
        city.completed(&charged.raider).await.unwrap();
        city.settle().await;
        let id = city.mr(&charged.relic).await.unwrap().id;
        let rejected = rejection::reject(&city.world, id, "no".into(), asker);
        rejected.await.unwrap();
        let chain = chain(&city, "script").await;
        assert_eq!(kinds(&chain), ["rejected"]);
        assert_eq!(chain[0].data["failure"], word);
    }
}

#[tokio::test(start_paused = true)]
async fn work_whose_relic_is_closed_has_an_entry() {
    let city = Scenario::new().start().await;
    // In the queue: the forge cannot land it now.
    let queued = city.worker("queued").await;
    let at_work = city.charged("at work").await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("fetch_target", away);
    city.completed(&queued.raider).await.unwrap();
    city.settle().await;
    for relic in [queued.relic, at_work.relic.clone()] {
        let close = move |txn: &mut dyn Txn| {
            let relic = txn.relic(&relic)?;
            closing::close(txn, relic, None, Cause::Operator)
        };
        city.store(close).await;
    }
    city.nuke(&at_work.raider, true).await.unwrap();
    city.pass(PATROL).await;
    let chain = chain(&city, "script").await;
    assert!(
        kinds(&chain).iter().all(|kind| *kind == "abandoned"),
        "{chain:?}"
    );
    let mut works: Vec<_> = chain
        .iter()
        .map(|entry| entry.data["work"].clone())
        .collect();
    works.dedup();
    assert_eq!((works.len(), chain.len()), (2, 2), "{chain:?}");
}
