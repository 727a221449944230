//! The merge queue on fakes, under the paused clock.

mod merged_elsewhere;
mod successor;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::actors::claims::ClaimKey;
use crate::actors::sagas::land;
use crate::domain::event::EventType;
use crate::domain::merge::MrState;
use crate::domain::message::{Body, MergeReady};
use crate::domain::relic::RelicStatus;
use crate::domain::saga::{FaultPoint, SagaKind};
use crate::ports::relics::Txn;
use crate::ports::repo::{Repo, RepoError};
use crate::testing::fake_repo::gate_run;
use crate::testing::world::{MOMENT, Scenario, TestCity, rig};

const SECOND: Duration = Duration::from_secs(1);

/// Completes the work of one raider; its merge request is being landed.
async fn submitted(city: &TestCity) -> crate::domain::ids::RelicId {
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    charged.relic
}

async fn lands(city: &TestCity, relic: &crate::domain::ids::RelicId) {
    let now = city.relic_now(relic).await;
    assert_eq!(now.status, RelicStatus::Closed);
    assert_eq!(now.reworks, 0, "no rework is counted");
    assert_eq!(city.parts.repo.landings(), 1);
}

#[tokio::test(start_paused = true)]
async fn gate_that_cannot_run_parks_with_doubling_delays_and_blames_no_raider() {
    let city = Scenario::new().gate("test").start().await;
    // It cannot run, is confirmed, and cannot run on the target either: four runs an attempt.
    for _ in 0..4 * 3 {
        city.parts.repo.script_gate("test", gate_run(Some(127)));
    }
    let relic = submitted(&city).await;
    for (attempts, wait) in [(1, 10), (2, 20), (3, 40)] {
        let mr = city.mr(&relic).await.unwrap();
        assert_eq!((mr.state, mr.attempts), (MrState::Queued, attempts));
        city.pass(SECOND * wait - MOMENT * 200).await;
        assert_eq!(city.mr(&relic).await.unwrap().attempts, attempts, "early");
        city.pass(MOMENT * 260).await;
    }
    lands(&city, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_red_gate_is_the_branchs_fault_unless_the_target_is_red_too() {
    let city = Scenario::new().gate("test").start().await;
    city.parts.repo.script_gate("test", gate_run(Some(1)));
    let relic = submitted(&city).await;
    assert_eq!(city.relic_now(&relic).await.reworks, 1);
    let city = Scenario::new().gate("test").start().await;
    for _ in 0..2 {
        city.parts.repo.script_gate("test", gate_run(Some(1)));
    }
    let relic = submitted(&city).await;
    assert_eq!(city.events(EventType::ForgeRed).await.len(), 1);
    assert_eq!(city.mr(&relic).await.unwrap().state, MrState::Queued);
    city.pass(SECOND * 11).await;
    lands(&city, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_moved_is_tried_again_at_once_without_blame() {
    let city = Scenario::new().start().await;
    let (repo, moves) = (city.parts.repo.clone(), AtomicUsize::new(0));
    city.parts.repo.interlude("land", move || {
        if moves.fetch_add(1, Ordering::SeqCst) < 3 {
            repo.advance_target();
        }
    });
    let relic = submitted(&city).await;
    lands(&city, &relic).await;
    assert_eq!(city.parts.repo.count("land"), 4);
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(
        mr.attempts, 1,
        "a fault of the infrastructure is not counted"
    );
    assert!(city.events(EventType::MrHeld).await.is_empty());
}

/// A suspension is journalled once, when the landing under way is over; a gate `on = "forge.paused"` waits for it.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_suspended_says_so_once() {
    let city = Scenario::new().start().await;
    city.settle().await;
    for times in 1..=2 {
        city.reload(|city| city.rigs[0].suspended = true).await;
        city.pass(SECOND * 100).await;
        let told = city.events(EventType::ForgePaused).await;
        assert_eq!((told.len(), told[0].subject.as_str()), (times, "horde"));
        city.reload(|city| city.rigs[0].suspended = false).await;
        city.pass(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_builds_says_that_it_could_not_be_built() {
    for (gate, kind) in [
        ("build", "build"),
        ("cargo-build", "build"),
        ("test", "tests"),
    ] {
        let city = Scenario::new().gate(gate).start().await;
        city.parts.repo.script_gate(gate, gate_run(Some(1)));
        submitted(&city).await;
        let sent = city.events(EventType::MessageSent).await;
        let failed = sent
            .iter()
            .find(|event| event.data["type"] == "MERGE_FAILED");
        assert_eq!(failed.unwrap().data["failure_type"], kind, "{gate}");
    }
}

/// No rework could make a protected branch move: a person is called, and no raider is charged.
/// Weakness W7 of an earlier system: work was merged in the user's checkout, and a failed push was ignored.
#[tokio::test(start_paused = true)]
async fn a_push_that_is_refused_blocks_the_relic_and_calls_a_person() {
    let city = Scenario::new().start().await;
    let refused = RepoError::Rejected("protected branch".into());
    city.parts.repo.fail("land", refused);
    let relic = submitted(&city).await;
    city.pass(SECOND * 31).await;
    let now = city.relic_now(&relic).await;
    assert_eq!((now.status, now.reworks), (RelicStatus::Blocked, 0));
    assert_eq!(city.events(EventType::RaiderCharged).await.len(), 1);
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("protected branch"));
    // The work is still there.
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Failed);
    assert_eq!(city.parts.repo.pins(), std::slice::from_ref(&mr.id));
    assert_eq!(city.parts.repo.remote(&mr.branch), Some(mr.head));
}

#[tokio::test(start_paused = true)]
async fn a_push_that_fails_is_parked() {
    let city = Scenario::new().start().await;
    city.parts
        .repo
        .fail("land", RepoError::Remote("away".into()));
    let relic = submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("away"));
    city.pass(SECOND * 11).await;
    lands(&city, &relic).await;
}

/// `git gc --prune=now` of a person took the tested commit between its journal entry and its push.
#[tokio::test(start_paused = true)]
async fn landing_whose_tested_commit_is_gone_is_merged_and_tested_again() {
    let city = Scenario::new().start().await;
    let gone = || RepoError::NotFound("fatal: Not a valid commit name".into());
    city.parts.repo.fail("land", gone());
    let relic = submitted(&city).await;
    assert_eq!(city.mr(&relic).await.unwrap().state, MrState::Queued);
    assert_eq!(city.sagas().await, 0, "nothing insists on that commit");
    let merges = city.parts.repo.count("merge");
    city.pass(SECOND * 11).await;
    lands(&city, &relic).await;
    assert_eq!(city.parts.repo.count("merge"), merges + 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_landing_is_finished_and_not_repeated() {
    for point in [
        FaultPoint::LandIntentBefore,
        FaultPoint::LandIntentAfter,
        FaultPoint::LandPushBefore,
        FaultPoint::LandPushAfter,
    ] {
        let once = AtomicUsize::new(0);
        let city = Scenario::new().fault(Arc::new(move |at| {
            if at == point && once.fetch_add(1, Ordering::SeqCst) == 0 {
                panic!("at {at:?}");
            }
        }));
        let city = city.start().await;
        let relic = submitted(&city).await;
        city.pass(SECOND * 31).await;
        lands(&city, &relic).await;
        assert_eq!(city.sagas().await, 0, "{point:?}");
    }
}

#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn merge_request_held_past_its_time_does_not_wake_the_forge() {
    let city = Scenario::new().start().await;
    city.parts
        .repo
        .fail("fetch_target", RepoError::Remote("away".into()));
    // The first fetch is the charge's.
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap_err();
    let charged = city.worker("b").await;
    let error = RepoError::Remote("away".into());
    city.parts.repo.break_op("fetch_target", error);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let id = city.mr(&charged.relic).await.unwrap().id;
    city.store(move |txn| {
        let mut mr = txn.mr(&id)?;
        assert!(mr.not_before.is_some());
        mr.state = MrState::Held;
        txn.put_mr(&mr)
    })
    .await;
    let begun = std::time::Instant::now();
    let looks = city.parts.repo.count("fetch_target");
    city.pass(SECOND * 3600).await;
    assert_eq!(city.parts.repo.count("fetch_target"), looks);
    // Waking every 10 ms of an hour would take minutes.
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// MERGED names the landed commit, however late the landing became known.
#[tokio::test(start_paused = true)]
async fn a_push_that_went_through_unheard_is_recorded_with_its_own_commit() {
    let city = Scenario::new().start().await;
    city.parts.repo.lose_answer_of_landing();
    let relic = submitted(&city).await;
    let commit = city.parts.repo.tip();
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("took longer"));
    city.parts.repo.advance_target();
    city.pass(SECOND * 11).await;
    lands(&city, &relic).await;
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!((mr.state, mr.merge_commit), (MrState::Merged, Some(commit)));
    let merged = city.events(EventType::RaiderMerged).await;
    assert_eq!(merged[0].data["noop"], false);
    assert_eq!(city.sagas().await, 0);
}

/// Its target is not changed: it was tested and reviewed for that one.
#[tokio::test(start_paused = true)]
async fn merge_request_whose_target_is_gone_is_held_with_the_reason_until_it_exists_again() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let gone = RepoError::NotFound("branch main on origin".into());
    city.parts.repo.break_op("fetch_target", gone);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((mr.state, mr.target.as_str()), (MrState::Queued, "main"));
    assert!(mr.needs_person());
    let note = mr.note.unwrap();
    assert!(note.contains("its target main does not exist"), "{note}");
    assert!(
        note.contains(&format!("hd cancel {}", charged.relic)),
        "{note}"
    );
    assert_eq!(city.events(EventType::MrHeld).await.len(), 1);
    city.parts.repo.mend("fetch_target");
    city.pass(SECOND * 11).await;
    lands(&city, &charged.relic).await;
}

/// A merge request that waits because the remote was away when its turn came.
async fn held(city: &TestCity) -> crate::domain::ids::RelicId {
    let charged = city.worker("held").await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("fetch_target", away);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    city.parts.repo.mend("fetch_target");
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    charged.relic
}

#[tokio::test(start_paused = true)]
async fn a_landing_that_cannot_be_read_is_parked_and_holds_up_no_other() {
    let city = Scenario::new().start().await;
    let first = held(&city).await;
    let second = city.worker("b").await;
    let mut mr = city.mr(&first).await.unwrap();
    city.store(move |txn| {
        mr.state = MrState::Merging;
        mr.not_before = None;
        txn.put_mr(&mr)?;
        let nonsense = serde_json::json!({ "plan": "of another version" });
        txn.open_saga(SagaKind::Land, &mr.rig, mr.id.as_str(), "intent", &nonsense)
    })
    .await;
    city.completed(&second.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.mr(&second.relic).await.unwrap().state, MrState::Merged);
    let mr = city.mr(&first).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("cannot be read"));
    city.pass(SECOND * 31).await;
    assert_eq!(city.mr(&first).await.unwrap().state, MrState::Merged);
    assert_eq!(city.sagas().await, 0);
}

#[tokio::test(start_paused = true)]
async fn landing_that_panics_is_retried_with_back_off_and_escalated() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let city = Scenario::new().fault(Arc::new(move |at| {
        if at == FaultPoint::LandIntentBefore && counted.fetch_add(1, Ordering::SeqCst) < 5 {
            panic!("at {at:?}");
        }
    }));
    let city = city.start().await;
    let relic = submitted(&city).await;
    // 10 + 20 + 40 + 80 s.
    city.pass(SECOND * 149).await;
    assert_eq!(tries.load(Ordering::SeqCst), 4);
    assert!(city.escalations().await.is_empty());
    city.pass(SECOND * 2).await;
    assert_eq!(tries.load(Ordering::SeqCst), 5);
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].title.contains("in 5 attempts"));
    city.pass(SECOND * 161).await;
    lands(&city, &relic).await;
}

/// Closed in a way that did not tell the queue: it looks for itself.
#[tokio::test(start_paused = true)]
async fn work_whose_relic_is_closed_does_not_land() {
    let city = Scenario::new().start().await;
    let relic = held(&city).await;
    let mut closed = city.relic_now(&relic).await;
    closed.status = RelicStatus::Closed;
    city.store(move |txn| txn.put_relic(&closed)).await;
    city.pass(SECOND * 31).await;
    let mr = city.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Rejected);
    assert_eq!(city.parts.repo.landings(), 0);
    assert_eq!(city.parts.repo.pins(), [mr.id]);
}

/// `rules.md`, gates: one baseline run per state of the target.
#[tokio::test(start_paused = true)]
async fn the_target_is_tested_once_per_state() {
    let city = Scenario::new().gate("test").start().await;
    let runs = || city.parts.repo.count("run_gate");
    city.parts.repo.script_gate("test", gate_run(Some(1)));
    let relic = submitted(&city).await;
    assert_eq!(runs(), 2, "the branch, and the target");
    for (advance, more) in [(false, 1), (true, 2)] {
        if advance {
            city.parts.repo.advance_target();
        }
        let before = runs();
        let hook = city.store(|txn| txn.hooks(None)).await.pop().unwrap();
        city.parts.repo.commit(&hook.raider.name);
        city.parts.repo.script_gate("test", gate_run(Some(1)));
        city.completed(&hook.raider).await.unwrap();
        city.pass(SECOND * 31).await;
        assert_eq!(runs() - before, more);
    }
    assert_eq!(city.relic_now(&relic).await.reworks, 3);
}

/// A stop that was meant for an earlier merge request may end the gate of the next one: that gate runs again.
#[tokio::test(start_paused = true)]
async fn gate_that_was_ended_by_mistake_runs_again() {
    let city = Scenario::new().gate("test").start().await;
    let (repo, stopped) = (Arc::clone(&city.parts.repo), AtomicBool::new(false));
    city.parts.repo.interlude("run_gate", move || {
        if !stopped.swap(true, Ordering::Relaxed) {
            repo.stop_gate();
        }
    });
    let relic = submitted(&city).await;
    assert_eq!(city.parts.repo.count("run_gate"), 2);
    assert_eq!(city.mr(&relic).await.unwrap().state, MrState::Merged);
    assert_eq!(city.parts.repo.landings(), 1);
}

/// Work that was refused before the queue took it is not held by it.
#[tokio::test(start_paused = true)]
async fn a_rejected_merge_request_is_not_pinned() {
    let city = Scenario::new()
        .rig(|rig| rig.forge.review_human = true)
        .start()
        .await;
    let relic = submitted(&city).await;
    let mut mr = city.mr(&relic).await.unwrap();
    mr.state = MrState::Rejected;
    let ready = MergeReady {
        raider: mr.raider.clone(),
        incarnation: mr.incarnation,
        rig: mr.rig.clone(),
        relic: mr.relic.clone(),
        mr: mr.id.clone(),
        branch: mr.branch.clone(),
        head: mr.head.clone(),
        verified: String::new(),
    };
    city.store(move |txn| {
        txn.put_mr(&mr)?;
        txn.send("test", "horde/forge", Body::MergeReady(ready.clone()))
    })
    .await;
    city.pass(SECOND * 31).await;
    let inbox = |txn: &mut dyn Txn| txn.inbox("horde/forge");
    assert!(city.store(inbox).await.is_empty());
    assert!(city.parts.repo.pins().is_empty());
}

/// MERGE_READY is tracked until it is answered: whatever step of sending or taking it the daemon dies at, the next
/// daemon delivers it, and it is queued and landed once.
/// Weakness W23 of an earlier system: a control message was deleted before it was carried out, and a crash lost it.
#[tokio::test(start_paused = true)]
async fn unanswered_merge_ready_is_delivered_again_after_a_crash() {
    for at in [
        FaultPoint::WitnessReadyBefore,
        FaultPoint::WitnessReadyAfter,
        FaultPoint::LandPinBefore,
        FaultPoint::LandPinAfter,
    ] {
        let dead = Arc::new(AtomicBool::new(false));
        let reached = Arc::clone(&dead);
        let city = Scenario::new().fault(Arc::new(move |point| {
            // A dead daemon passes no further point.
            if point == at || reached.load(Ordering::SeqCst) {
                reached.store(true, Ordering::SeqCst);
                std::panic::resume_unwind(Box::new("dead"));
            }
        }));
        let city = city.start().await;
        let charged = city.worker("a").await;
        city.completed(&charged.raider).await.unwrap();
        city.pass(SECOND).await;
        assert!(dead.load(Ordering::SeqCst), "{at:?} is not reached");
        let open = city.store(|txn| txn.inbox("horde/forge")).await;
        let unanswered = [FaultPoint::WitnessReadyAfter, FaultPoint::LandPinBefore];
        assert_eq!(open.len(), usize::from(unanswered.contains(&at)), "{at:?}");
        let clock = city.world.clock.clone();
        let city = Scenario::new().start_on(city.crash().await, clock).await;
        city.pass(SECOND * 31).await;
        lands(&city, &charged.relic).await;
        assert_eq!(city.events(EventType::MrQueued).await.len(), 1, "{at:?}");
        let open = city.store(|txn| txn.inbox("horde/forge")).await;
        assert!(open.is_empty(), "{at:?}");
        assert!(city.parts.repo.pins().is_empty(), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn merge_request_rejected_meanwhile_is_not_restored() {
    let city = Scenario::new().start().await;
    let relic = held(&city).await;
    let mut mr = city.mr(&relic).await.unwrap();
    let id = mr.id.clone();
    mr.state = MrState::Rejected;
    city.store(move |txn| txn.put_mr(&mr)).await;
    land::restore(&city.world, vec![id]).await.unwrap();
    assert_eq!(city.mr(&relic).await.unwrap().state, MrState::Rejected);
}

/// A single timer waits for a held lane, however many hints come.
#[tokio::test(start_paused = true)]
async fn a_lane_that_is_held_is_looked_at_once_a_second() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("pin", away);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    let lane = city.world.claims.claim(ClaimKey::Lane(rig())).unwrap();
    for _ in 0..20 {
        city.world.nudge("horde/forge");
        city.settle().await;
    }
    let before = city.parts.repo.count("pin");
    city.pass(SECOND * 10).await;
    let looks = city.parts.repo.count("pin") - before;
    assert!((9..=12).contains(&looks), "{looks}");
    drop(lane);
    city.parts.repo.mend("pin");
    city.pass(SECOND * 2).await;
    lands(&city, &charged.relic).await;
}
