//! Waits that are no branch's fault: targets that move, checkouts in use, work that the target has already.

use std::path::PathBuf;

use super::*;
use crate::domain::merge::{CheckoutBusy, MergeOutcome};

fn busy() -> RepoError {
    RepoError::CheckoutBusy {
        path: PathBuf::from("/home/ada/project"),
        why: CheckoutBusy::Underway("a rebase".into()),
    }
}

/// A push that fails again and again is one hold: its first event is enough.
#[tokio::test(start_paused = true)]
async fn hold_of_a_push_that_is_retried_is_journalled_once() {
    let city = Scenario::new().start().await;
    let away = RepoError::Remote("the remote is away".into());
    city.parts.repo.break_op("land", away);
    let relic = submitted(&city).await;
    city.pass(SECOND * 3600).await;
    assert!(city.parts.repo.count("land") > 3);
    assert_eq!(city.events(EventType::MrHeld).await.len(), 1);
    city.parts.repo.mend("land");
    city.pass(SECOND * 3600).await;
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!((mr.state, mr.hold), (MrState::Merged, None));
}

/// A target that is reset after each push, or that others push to faster than the gate runs.
/// Case B4 of an adversary: a target that is always busier than the gate.
/// Case B5 of an adversary: a target that is reset after each push.
#[tokio::test(start_paused = true)]
async fn target_that_moves_at_every_attempt_is_followed_slowly_and_calls_a_person() {
    let city = Scenario::new().gate("test").start().await;
    let repo = city.parts.repo.clone();
    city.parts
        .repo
        .interlude("land", move || drop(repo.advance_target()));
    let relic = submitted(&city).await;
    city.pass(SECOND * 20).await;
    let runs = city.parts.repo.count("run_gate");
    assert!((4..=9).contains(&runs), "{runs} runs in 20 s");
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(
        (mr.state, mr.attempts),
        (MrState::Queued, 0),
        "it is no attempt of its own"
    );
    assert!(mr.not_before.is_some());
    let note = mr.note.unwrap();
    assert!(note.starts_with("main moved "), "{note}");
    let held = city.events(EventType::MrHeld).await;
    assert!(!held.is_empty());
    assert!(
        held[0].data["note"]
            .as_str()
            .unwrap()
            .starts_with("main moved 4 times")
    );
    city.pass(SECOND * 60).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1, "a person is called, once");
    assert!(escalations[0].title.contains("main keeps moving"));
    // Others are not held up by it, and it lands when the target rests.
    city.parts.repo.interlude("land", || {});
    city.pass(SECOND * 301).await;
    lands(&city, &relic).await;
    let id = city.mr(&relic).await.unwrap().id;
    let left = city.store(move |txn| txn.get(&format!("chase/{id}"))).await;
    assert_eq!(left, None, "nothing is left of the chase");
}

/// No gate runs for a checkout that cannot move; the landing follows soon after it can.
#[tokio::test(start_paused = true)]
async fn checkout_that_a_person_works_in_is_waited_for_without_testing() {
    let city = Scenario::new().gate("test").start().await;
    city.parts.repo.break_op("checkout_free", busy());
    let relic = submitted(&city).await;
    city.pass(SECOND * 600).await;
    assert_eq!(city.parts.repo.count("run_gate"), 0);
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.needs_person());
    let note = mr.note.unwrap();
    assert!(note.contains("in the middle of a rebase"), "{note}");
    assert_eq!(
        city.events(EventType::MrHeld).await.len(),
        1,
        "it is said once"
    );
    assert_eq!(city.events(EventType::MrTesting).await.len(), 0);
    assert_eq!(city.escalations().await.len(), 1);
    city.parts.repo.mend("checkout_free");
    city.pass(SECOND * 61).await;
    lands(&city, &relic).await;
}

/// The start may be too early to take an interrupted landing back, and no merge request need follow.
#[tokio::test(start_paused = true)]
async fn interrupted_landing_is_taken_back_without_another_merge_request() {
    let city = Scenario::new().start().await;
    city.parts.repo.break_op("recover_landing", busy());
    city.pass(SECOND * 100).await;
    assert!(city.parts.repo.count("recover_landing") > 2);
}

/// The checkout was free before the gates and is not after them.
#[tokio::test(start_paused = true)]
async fn checkout_that_is_taken_up_during_the_gates_is_waited_for() {
    let city = Scenario::new().gate("test").start().await;
    city.parts.repo.fail("land", busy());
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.needs_person());
    assert_eq!(city.sagas().await, 0, "it can be taken out of the queue");
    city.pass(SECOND * 11).await;
    lands(&city, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn commits_that_a_no_op_did_not_land_are_kept_as_salvage() {
    let (city, charged) = Scenario::at_work().await;
    for _ in 0..2 {
        city.parts.repo.script_merge(MergeOutcome::Nothing);
    }
    let saving = RepoError::Failed("no room".into());
    city.parts.repo.fail("salvage_head", saving);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(
        mr.state,
        MrState::Queued,
        "before they are kept it is not over"
    );
    city.pass(SECOND * 31).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Merged);
    assert_eq!(
        city.events(EventType::RaiderMerged).await[0].data["noop"],
        true
    );
    let salvages = city.store(|txn| txn.salvages()).await;
    assert_eq!(salvages.len(), 1);
    assert!(salvages[0].refs[0].ends_with(mr.head.as_str()));
    let calls = city.parts.repo.calls();
    let at = |op| calls.iter().position(|(name, _)| *name == op).unwrap();
    assert!(at("salvage_head") < at("delete_branch"));
}

/// Neither a retry nor a fresh raider gives it a common history.
#[tokio::test(start_paused = true)]
async fn unrelated_history_goes_to_a_person() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.script_merge(MergeOutcome::Unrelated);
    city.completed(&charged.raider).await.unwrap();
    city.pass(SECOND * 31).await;
    let now = city.relic_now(&charged.relic).await;
    assert_eq!((now.status, now.reworks), (RelicStatus::Blocked, 0));
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("shares no history"));
    assert_eq!(
        city.mr(&charged.relic).await.unwrap().state,
        MrState::Failed
    );
}

/// The work tree of the gate had another tree: nothing was tested, and nothing lands.
#[tokio::test(start_paused = true)]
async fn tree_that_was_not_tested_does_not_land() {
    let city = Scenario::new().gate("test").start().await;
    let other = crate::domain::ids::Oid::new("f".repeat(40)).unwrap();
    for _ in 0..4 {
        let mut run = gate_run(Some(0));
        run.tree = Some(other.clone());
        city.parts.repo.script_gate("test", run);
    }
    let relic = submitted(&city).await;
    assert_eq!(city.parts.repo.landings(), 0);
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("another tree was checked out"));
    city.pass(SECOND * 11).await;
    lands(&city, &relic).await;
}
