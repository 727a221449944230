//! MERGED and MERGE_FAILED: what is believed, what follows, and how often.

use std::time::Duration;

use crate::actors::sagas::charge::Charged;
use crate::domain::event::EventType;
use crate::domain::ids::Oid;
use crate::domain::merge::{FailureType, MergeOutcome, MrState};
use crate::domain::message::{self, Body, MergeFailed, MergeReady, Merged};
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, Town, rig};

const PATROL: Duration = Duration::from_secs(31);

fn merged(charged: &Charged, mr: &str, commit: Oid) -> Merged {
    Merged {
        mr: mr.parse().unwrap(),
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        branch: charged.branch.clone(),
        head: Oid::new("b".repeat(40)).unwrap(),
        target: "main".into(),
        merge_commit: commit,
        merged_at: jiff::Timestamp::UNIX_EPOCH,
        noop: false,
    }
}

fn failed(charged: &Charged, mr: &str) -> MergeFailed {
    MergeFailed {
        mr: mr.parse().unwrap(),
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        branch: charged.branch.clone(),
        head: Oid::new("b".repeat(40)).unwrap(),
        target: "main".into(),
        failure_type: FailureType::Tests,
        error: "red".into(),
        conflict_files: Vec::new(),
    }
}

async fn send(town: &Town, to: String, body: Body) {
    town.store(move |txn| txn.send("test", &to, body.clone()))
        .await;
    town.pass(PATROL).await;
}

#[tokio::test(start_paused = true)]
async fn merged_is_not_believed_of_a_commit_that_is_not_on_the_target() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let lie = merged(&charged, "gt-99", Oid::new("c".repeat(40)).unwrap());
    send(&town, message::witness(&rig()), Body::Merged(lie)).await;
    let asked = town.parts.repo.count("landed");
    town.pass(PATROL * 10).await;
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Hooked);
    assert!(town.runs(&charged.session));
    assert_eq!(town.escalations().await.len(), 1, "a person is told, once");
    let again = town.parts.repo.count("landed") - asked;
    assert!(again <= 11, "once per patrol, not {again} times");
}

#[tokio::test(start_paused = true)]
async fn a_remote_that_is_away_when_merged_comes_delays_and_loses_nothing() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    town.parts
        .repo
        .break_op("landed", RepoError::Remote("away".into()));
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL).await;
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Hooked);
    town.parts.repo.mend("landed");
    town.pass(PATROL).await;
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_goes_to_fresh_raiders_and_then_to_a_person() {
    let town = Scenario::new().rig(|rig| rig.forge.rework_attempts = 2);
    let town = town.start().await;
    let relic = town.relic("a").await;
    town.charge(&relic).await.unwrap();
    for attempt in 0..3 {
        let hook = town.store(|txn| txn.hooks(None)).await.pop().unwrap();
        assert_eq!(hook.incarnation.0, attempt + 1, "a fresh one");
        town.parts.repo.commit(&hook.raider.name);
        let files = vec!["src/a.rs".to_owned()];
        town.parts.repo.script_merge(MergeOutcome::Conflict(files));
        town.completed(&hook.raider).await.unwrap();
        town.pass(PATROL).await;
        let now = town.relic_now(&relic).await;
        let context = now.context.unwrap();
        assert!(context.contains("src/a.rs"), "{context}");
        let mr = town.mr(&relic).await.unwrap();
        assert_eq!(mr.state, MrState::Conflict);
    }
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Blocked);
    assert!(town.store(|txn| txn.hooks(None)).await.is_empty());
    assert_eq!(town.escalations().await.len(), 1);
    assert_eq!(town.events(EventType::RaiderMergeFailed).await.len(), 3);
    let prompts = town.parts.tasks.prompts();
    assert!(prompts[1].contains("src/a.rs"), "the next one is told why");
}

/// Nobody's work goes with the attempt that landed instead: salvage names it before its branch goes.
#[tokio::test(start_paused = true)]
async fn attempts_that_did_not_land_become_salvage_when_another_one_does() {
    let town = Scenario::new().start().await;
    let relic = town.relic("a").await;
    town.charge(&relic).await.unwrap();
    let mut heads = Vec::new();
    for conflicts in [true, false] {
        let hook = town.store(|txn| txn.hooks(None)).await.pop().unwrap();
        heads.push(town.parts.repo.commit(&hook.raider.name));
        if conflicts {
            let files = vec!["src/a.rs".to_owned()];
            town.parts.repo.script_merge(MergeOutcome::Conflict(files));
        }
        town.completed(&hook.raider).await.unwrap();
        town.pass(PATROL).await;
    }
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Closed);
    assert!(town.parts.repo.has_landed(&heads[1]));
    assert!(town.parts.repo.pins().is_empty());
    assert!(town.parts.repo.remote_branches().is_empty());
    let salvages = town.store(|txn| txn.salvages()).await;
    assert_eq!(salvages.len(), 1, "what landed needs none");
    assert_eq!(salvages[0].relic, Some(relic));
    assert_eq!(salvages[0].reason, "superseded");
    assert!(salvages[0].refs[0].ends_with(heads[0].as_str()));
    assert_eq!(town.events(EventType::RaiderSalvaged).await.len(), 1);
    // It was named before anything that named it went.
    let calls = town.parts.repo.calls();
    let at = |op, what: &str| calls.iter().position(|call| *call == (op, what.to_owned()));
    let saved = at("salvage_head", heads[0].as_str()).unwrap();
    let gone = calls.iter().position(|(op, _)| *op == "delete_branch");
    assert!(saved < gone.unwrap());
}

/// What a charge was told, its reworks keep to: work for a release branch never lands on main.
#[tokio::test(start_paused = true)]
async fn a_rework_lands_where_its_charge_said() {
    let town = Scenario::new().start().await;
    let relic = town.relic("a").await;
    let mut asked = town.relic_now(&relic).await;
    asked.target = Some("release".into());
    town.store(move |txn| txn.put_relic(&asked)).await;
    town.charge(&relic).await.unwrap();
    let first = town.store(|txn| txn.hooks(None)).await.pop().unwrap();
    assert_eq!(first.target, "release");
    town.parts.repo.commit(&first.raider.name);
    let files = vec!["src/a.rs".to_owned()];
    town.parts.repo.script_merge(MergeOutcome::Conflict(files));
    town.completed(&first.raider).await.unwrap();
    town.pass(PATROL).await;
    let second = town.store(|txn| txn.hooks(None)).await.pop().unwrap();
    assert_eq!(second.incarnation.0, first.incarnation.0 + 1);
    assert_eq!(second.target, "release");
    assert_eq!(
        town.relic_now(&relic).await.target.as_deref(),
        Some("release")
    );
}

/// The relic was taken up by another raider meanwhile: an old failure is none of its business.
#[tokio::test(start_paused = true)]
async fn a_failure_of_an_earlier_raider_does_not_touch_the_present_one() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let mut old = failed(&charged, "gt-99");
    old.raider = crate::testing::world::raider("Shadow");
    send(&town, message::witness(&rig()), Body::MergeFailed(old)).await;
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Hooked);
    assert_eq!(relic.assignee, Some(charged.raider.to_string()));
    assert_eq!(relic.reworks, 0);
    assert_eq!(town.store(|txn| txn.hooks(None)).await.len(), 1);
}

/// Delivery is at least once: everything said again changes nothing.
#[tokio::test(start_paused = true)]
async fn messages_delivered_twice_come_to_the_same_end() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    let mr = town.mr(&charged.relic).await.unwrap();
    let before = town.store(|txn| txn.cv("horde/raiders/Toast")).await;
    let again = town.worker("b").await;
    let commit = mr.merge_commit.clone().unwrap();
    let ready = MergeReady {
        raider: charged.raider.clone(),
        incarnation: charged.incarnation,
        rig: rig(),
        relic: charged.relic.clone(),
        mr: mr.id.clone(),
        branch: charged.branch.clone(),
        head: mr.head.clone(),
        verified: String::new(),
    };
    let said = merged(&charged, mr.id.as_str(), commit);
    let late = failed(&charged, mr.id.as_str());
    for _ in 0..2 {
        let ready = Body::MergeReady(ready.clone());
        send(&town, message::forge(&rig()), ready).await;
        let said = Body::Merged(said.clone());
        send(&town, message::witness(&rig()), said).await;
        let late = Body::MergeFailed(late.clone());
        send(&town, message::witness(&rig()), late).await;
    }
    assert_eq!(
        town.mr(&charged.relic).await.unwrap().state,
        MrState::Merged
    );
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!((relic.status, relic.reworks), (RelicStatus::Closed, 0));
    assert_eq!(town.parts.repo.landings(), 1);
    assert_eq!(town.events(EventType::RaiderMerged).await.len(), 1);
    assert!(town.parts.repo.pins().is_empty(), "no pin comes back");
    // The slot's next incarnation works on, untouched.
    assert_eq!(again.raider, charged.raider);
    assert!(town.runs(&again.session));
    let hook = town.hook(&again.raider).await.unwrap();
    assert_eq!(hook.incarnation, again.incarnation);
    let after = town.store(|txn| txn.cv("horde/raiders/Toast")).await;
    let merges = |chain: &[crate::domain::cv::CvEntry]| {
        chain.iter().filter(|entry| entry.kind == "merged").count()
    };
    assert_eq!(merges(&after), merges(&before));
}
