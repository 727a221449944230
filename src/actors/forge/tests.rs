//! The merge queue on fakes, under the paused clock.

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
use crate::ports::repo::RepoError;
use crate::testing::fake_repo::gate_run;
use crate::testing::world::{MOMENT, Scenario, Town, rig};

const SECOND: Duration = Duration::from_secs(1);

/// Completes the work of one raider; its merge request is being landed.
async fn submitted(town: &Town) -> crate::domain::ids::RelicId {
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    charged.relic
}

async fn lands(town: &Town, relic: &crate::domain::ids::RelicId) {
    let now = town.relic_now(relic).await;
    assert_eq!(now.status, RelicStatus::Closed);
    assert_eq!(now.reworks, 0, "nobody was blamed");
    assert_eq!(town.parts.repo.landings(), 1);
}

#[tokio::test(start_paused = true)]
async fn gate_that_cannot_run_parks_with_doubling_delays_and_blames_no_raider() {
    let town = Scenario::new().gate("test").start().await;
    // It cannot run, is confirmed, and cannot run on the target either: four runs an attempt.
    for _ in 0..4 * 3 {
        town.parts.repo.script_gate("test", gate_run(Some(127)));
    }
    let relic = submitted(&town).await;
    for (attempts, wait) in [(1, 10), (2, 20), (3, 40)] {
        let mr = town.mr(&relic).await.unwrap();
        assert_eq!((mr.state, mr.attempts), (MrState::Queued, attempts));
        town.pass(SECOND * wait - MOMENT * 200).await;
        assert_eq!(town.mr(&relic).await.unwrap().attempts, attempts, "early");
        town.pass(MOMENT * 260).await;
    }
    lands(&town, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_red_gate_is_the_branchs_fault_unless_the_target_is_red_too() {
    let town = Scenario::new().gate("test").start().await;
    town.parts.repo.script_gate("test", gate_run(Some(1)));
    let relic = submitted(&town).await;
    assert_eq!(town.relic_now(&relic).await.reworks, 1);
    let town = Scenario::new().gate("test").start().await;
    for _ in 0..2 {
        town.parts.repo.script_gate("test", gate_run(Some(1)));
    }
    let relic = submitted(&town).await;
    assert_eq!(town.events(EventType::ForgeRed).await.len(), 1);
    assert_eq!(town.mr(&relic).await.unwrap().state, MrState::Queued);
    town.pass(SECOND * 11).await;
    lands(&town, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_moved_is_tried_again_at_once_without_blame() {
    let town = Scenario::new().start().await;
    let (repo, moves) = (town.parts.repo.clone(), AtomicUsize::new(0));
    town.parts.repo.interlude("land", move || {
        if moves.fetch_add(1, Ordering::SeqCst) < 3 {
            repo.advance_target();
        }
    });
    let relic = submitted(&town).await;
    lands(&town, &relic).await;
    assert_eq!(town.parts.repo.count("land"), 4);
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!(mr.attempts, 1, "what is nobody's fault is not counted");
    assert!(town.events(EventType::MrHeld).await.is_empty());
}

/// A suspension is journalled once, when the landing under way is over; a gate `on = "forge.paused"` waits for it.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_suspended_says_so_once() {
    let town = Scenario::new().start().await;
    town.settle().await;
    for times in 1..=2 {
        town.reload(|city| city.rigs[0].suspended = true).await;
        town.pass(SECOND * 100).await;
        let told = town.events(EventType::ForgePaused).await;
        assert_eq!((told.len(), told[0].subject.as_str()), (times, "horde"));
        town.reload(|city| city.rigs[0].suspended = false).await;
        town.pass(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_builds_says_that_it_could_not_be_built() {
    for (gate, kind) in [
        ("build", "build"),
        ("cargo-build", "build"),
        ("test", "tests"),
    ] {
        let town = Scenario::new().gate(gate).start().await;
        town.parts.repo.script_gate(gate, gate_run(Some(1)));
        submitted(&town).await;
        let sent = town.events(EventType::MessageSent).await;
        let failed = sent
            .iter()
            .find(|event| event.data["type"] == "MERGE_FAILED");
        assert_eq!(failed.unwrap().data["failure_type"], kind, "{gate}");
    }
}

/// No rework could make a protected branch move: a person is called, and no raider is charged.
#[tokio::test(start_paused = true)]
async fn a_push_that_is_refused_blocks_the_relic_and_calls_a_person() {
    let town = Scenario::new().start().await;
    let refused = RepoError::Rejected("protected branch".into());
    town.parts.repo.fail("land", refused);
    let relic = submitted(&town).await;
    town.pass(SECOND * 31).await;
    let now = town.relic_now(&relic).await;
    assert_eq!((now.status, now.reworks), (RelicStatus::Blocked, 0));
    assert_eq!(town.events(EventType::RaiderCharged).await.len(), 1);
    let escalations = town.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("protected branch"));
    // The work is still there.
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Failed);
    assert_eq!(town.parts.repo.pins(), std::slice::from_ref(&mr.id));
    assert_eq!(town.parts.repo.remote(&mr.branch), Some(mr.head));
}

#[tokio::test(start_paused = true)]
async fn a_push_that_fails_is_parked() {
    let town = Scenario::new().start().await;
    town.parts
        .repo
        .fail("land", RepoError::Remote("away".into()));
    let relic = submitted(&town).await;
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("away"));
    town.pass(SECOND * 11).await;
    lands(&town, &relic).await;
}

/// `git gc --prune=now` of a person took the tested commit between its journal entry and its push.
#[tokio::test(start_paused = true)]
async fn landing_whose_tested_commit_is_gone_is_merged_and_tested_again() {
    let town = Scenario::new().start().await;
    let gone = || RepoError::NotFound("fatal: Not a valid commit name".into());
    town.parts.repo.fail("land", gone());
    let relic = submitted(&town).await;
    assert_eq!(town.mr(&relic).await.unwrap().state, MrState::Queued);
    assert_eq!(town.sagas().await, 0, "nothing insists on that commit");
    let merges = town.parts.repo.count("merge");
    town.pass(SECOND * 11).await;
    lands(&town, &relic).await;
    assert_eq!(town.parts.repo.count("merge"), merges + 1);
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
        let town = Scenario::new().fault(Arc::new(move |at| {
            if at == point && once.fetch_add(1, Ordering::SeqCst) == 0 {
                panic!("at {at:?}");
            }
        }));
        let town = town.start().await;
        let relic = submitted(&town).await;
        town.pass(SECOND * 31).await;
        lands(&town, &relic).await;
        assert_eq!(town.sagas().await, 0, "{point:?}");
    }
}

#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn merge_request_held_past_its_time_does_not_wake_the_forge() {
    let town = Scenario::new().start().await;
    town.parts
        .repo
        .fail("fetch_target", RepoError::Remote("away".into()));
    // The first fetch is the charge's.
    let relic = town.relic("a").await;
    town.charge(&relic).await.unwrap_err();
    let charged = town.worker("b").await;
    let error = RepoError::Remote("away".into());
    town.parts.repo.break_op("fetch_target", error);
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    let id = town.mr(&charged.relic).await.unwrap().id;
    town.store(move |txn| {
        let mut mr = txn.mr(&id)?;
        assert!(mr.not_before.is_some());
        mr.state = MrState::Held;
        txn.put_mr(&mr)
    })
    .await;
    let begun = std::time::Instant::now();
    let looks = town.parts.repo.count("fetch_target");
    town.pass(SECOND * 3600).await;
    assert_eq!(town.parts.repo.count("fetch_target"), looks);
    // Waking every 10 ms of an hour would take minutes.
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// MERGED names the landed commit, however late the landing became known.
#[tokio::test(start_paused = true)]
async fn a_push_that_went_through_unheard_is_recorded_with_its_own_commit() {
    let town = Scenario::new().start().await;
    town.parts.repo.lose_answer_of_landing();
    let relic = submitted(&town).await;
    let commit = town.parts.repo.tip();
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("took longer"));
    town.parts.repo.advance_target();
    town.pass(SECOND * 11).await;
    lands(&town, &relic).await;
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!((mr.state, mr.merge_commit), (MrState::Merged, Some(commit)));
    let merged = town.events(EventType::RaiderMerged).await;
    assert_eq!(merged[0].data["noop"], false);
    assert_eq!(town.sagas().await, 0);
}

/// A merge request that waits because the remote was away when its turn came.
async fn parked(town: &Town) -> crate::domain::ids::RelicId {
    let charged = town.worker("parked").await;
    let away = RepoError::Remote("away".into());
    town.parts.repo.break_op("fetch_target", away);
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    town.parts.repo.mend("fetch_target");
    let mr = town.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    charged.relic
}

#[tokio::test(start_paused = true)]
async fn a_landing_that_cannot_be_read_is_parked_and_holds_up_no_other() {
    let town = Scenario::new().start().await;
    let first = parked(&town).await;
    let second = town.worker("b").await;
    let mut mr = town.mr(&first).await.unwrap();
    town.store(move |txn| {
        mr.state = MrState::Merging;
        mr.not_before = None;
        txn.put_mr(&mr)?;
        let nonsense = serde_json::json!({ "plan": "of another version" });
        txn.open_saga(SagaKind::Land, &mr.rig, mr.id.as_str(), "intent", &nonsense)
    })
    .await;
    town.completed(&second.raider).await.unwrap();
    town.settle().await;
    assert_eq!(town.mr(&second.relic).await.unwrap().state, MrState::Merged);
    let mr = town.mr(&first).await.unwrap();
    assert_eq!(mr.state, MrState::Queued);
    assert!(mr.note.unwrap().contains("cannot be read"));
    town.pass(SECOND * 31).await;
    assert_eq!(town.mr(&first).await.unwrap().state, MrState::Merged);
    assert_eq!(town.sagas().await, 0);
}

#[tokio::test(start_paused = true)]
async fn landing_that_panics_is_retried_with_back_off_and_escalated() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let town = Scenario::new().fault(Arc::new(move |at| {
        if at == FaultPoint::LandIntentBefore && counted.fetch_add(1, Ordering::SeqCst) < 5 {
            panic!("at {at:?}");
        }
    }));
    let town = town.start().await;
    let relic = submitted(&town).await;
    // 10 + 20 + 40 + 80 s.
    town.pass(SECOND * 149).await;
    assert_eq!(tries.load(Ordering::SeqCst), 4);
    assert!(town.escalations().await.is_empty());
    town.pass(SECOND * 2).await;
    assert_eq!(tries.load(Ordering::SeqCst), 5);
    let escalations = town.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].title.contains("in 5 attempts"));
    town.pass(SECOND * 161).await;
    lands(&town, &relic).await;
}

/// Closed in a way that did not tell the queue: it looks for itself.
#[tokio::test(start_paused = true)]
async fn work_whose_relic_is_closed_does_not_land() {
    let town = Scenario::new().start().await;
    let relic = parked(&town).await;
    let mut closed = town.relic_now(&relic).await;
    closed.status = RelicStatus::Closed;
    town.store(move |txn| txn.put_relic(&closed)).await;
    town.pass(SECOND * 31).await;
    let mr = town.mr(&relic).await.unwrap();
    assert_eq!(mr.state, MrState::Rejected);
    assert_eq!(town.parts.repo.landings(), 0);
    assert_eq!(town.parts.repo.pins(), [mr.id]);
}

/// `rules.md`, gates: one baseline run per state of the target.
#[tokio::test(start_paused = true)]
async fn the_target_is_tested_once_per_state() {
    let town = Scenario::new().gate("test").start().await;
    let runs = || town.parts.repo.count("run_gate");
    town.parts.repo.script_gate("test", gate_run(Some(1)));
    let relic = submitted(&town).await;
    assert_eq!(runs(), 2, "the branch, and the target");
    for (advance, more) in [(false, 1), (true, 2)] {
        if advance {
            town.parts.repo.advance_target();
        }
        let before = runs();
        let hook = town.store(|txn| txn.hooks(None)).await.pop().unwrap();
        town.parts.repo.commit(&hook.raider.name);
        town.parts.repo.script_gate("test", gate_run(Some(1)));
        town.completed(&hook.raider).await.unwrap();
        town.pass(SECOND * 31).await;
        assert_eq!(runs() - before, more);
    }
    assert_eq!(town.relic_now(&relic).await.reworks, 3);
}

/// Work that was refused before the queue took it is not held by it.
#[tokio::test(start_paused = true)]
async fn a_rejected_merge_request_is_not_pinned() {
    let town = Scenario::new()
        .rig(|rig| rig.forge.review_human = true)
        .start()
        .await;
    let relic = submitted(&town).await;
    let mut mr = town.mr(&relic).await.unwrap();
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
    town.store(move |txn| {
        txn.put_mr(&mr)?;
        txn.send("test", "horde/forge", Body::MergeReady(ready.clone()))
    })
    .await;
    town.pass(SECOND * 31).await;
    let inbox = |txn: &mut dyn Txn| txn.inbox("horde/forge");
    assert!(town.store(inbox).await.is_empty());
    assert!(town.parts.repo.pins().is_empty());
}

/// MERGE_READY is tracked until it is answered: whatever step of sending or taking it the daemon dies at, the next
/// daemon delivers it, and it is queued and landed once.
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
        let town = Scenario::new().fault(Arc::new(move |point| {
            // A dead daemon passes no further point.
            if point == at || reached.load(Ordering::SeqCst) {
                reached.store(true, Ordering::SeqCst);
                std::panic::resume_unwind(Box::new("dead"));
            }
        }));
        let town = town.start().await;
        let charged = town.worker("a").await;
        town.completed(&charged.raider).await.unwrap();
        town.pass(SECOND).await;
        assert!(dead.load(Ordering::SeqCst), "{at:?} is not reached");
        let open = town.store(|txn| txn.inbox("horde/forge")).await;
        let unanswered = [FaultPoint::WitnessReadyAfter, FaultPoint::LandPinBefore];
        assert_eq!(open.len(), usize::from(unanswered.contains(&at)), "{at:?}");
        let clock = town.world.clock.clone();
        let town = Scenario::new().start_on(town.crash().await, clock).await;
        town.pass(SECOND * 31).await;
        lands(&town, &charged.relic).await;
        assert_eq!(town.events(EventType::MrQueued).await.len(), 1, "{at:?}");
        let open = town.store(|txn| txn.inbox("horde/forge")).await;
        assert!(open.is_empty(), "{at:?}");
        assert!(town.parts.repo.pins().is_empty(), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn merge_request_rejected_meanwhile_is_not_restored() {
    let town = Scenario::new().start().await;
    let relic = parked(&town).await;
    let mut mr = town.mr(&relic).await.unwrap();
    let id = mr.id.clone();
    mr.state = MrState::Rejected;
    town.store(move |txn| txn.put_mr(&mr)).await;
    land::restore(&town.world, vec![id]).await.unwrap();
    assert_eq!(town.mr(&relic).await.unwrap().state, MrState::Rejected);
}

/// A single timer waits for a held lane, however many hints come.
#[tokio::test(start_paused = true)]
async fn a_lane_that_is_held_is_looked_at_once_a_second() {
    let (town, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("away".into());
    town.parts.repo.break_op("pin", away);
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    let lane = town.world.claims.claim(ClaimKey::Lane(rig())).unwrap();
    for _ in 0..20 {
        town.world.nudge("horde/forge");
        town.settle().await;
    }
    let before = town.parts.repo.count("pin");
    town.pass(SECOND * 10).await;
    let looks = town.parts.repo.count("pin") - before;
    assert!((9..=12).contains(&looks), "{looks}");
    drop(lane);
    town.parts.repo.mend("pin");
    town.pass(SECOND * 2).await;
    lands(&town, &charged.relic).await;
}
