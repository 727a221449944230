//! A rig that is held: one cause, and one call of a person, which is that of the ground.

use std::sync::{Arc, OnceLock};

use super::{GROWN, PATROL, close};
use crate::actors::mail::Charged;
use crate::actors::refusal::LASTING;
use crate::domain::relic::{Completion, DoneIntent, RelicStatus};
use crate::domain::saga::FaultPoint;
use crate::ports::repo::RepoError;
use crate::testing::fake_repo::FakeRepo;
use crate::testing::tier::sampled;
use crate::testing::world::{Scenario, TestCity};

const MISSING: Option<&str> = Some("its repository is missing");

fn away() -> RepoError {
    RepoError::Remote("no route".into())
}

/// Makes the work of the raider over: only its sandbox is left.
async fn end_work(city: &TestCity, charged: &Charged) {
    let mut hook = city.hook(&charged.raider).await.unwrap();
    city.store(move |txn| {
        hook.done = Some(DoneIntent {
            exit: Completion::Deferred,
            head: hook.base.clone(),
            cleanup_status: None,
            mismatch: None,
            no_change: false,
            wants_review: false,
            until: None,
            reason: None,
            at: txn.now(),
        });
        txn.put_hook(&hook)
    })
    .await;
}

/// Its sandboxes cannot be listed, either: that was a second call.
#[tokio::test(start_paused = true)]
async fn held_rig_calls_no_person_for_its_sandboxes() {
    let city = Scenario::new().start().await;
    city.parts.repo.hold(MISSING);
    city.pass(PATROL * 16).await;
    assert_eq!(city.escalations().await, []);
}

#[tokio::test(start_paused = true)]
async fn held_rig_calls_no_person_for_work_that_waits_for_it() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.break_op("push_branch", away());
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    city.parts.repo.hold(MISSING);
    city.parts.repo.mend("push_branch");
    city.pass_hours(LASTING * 3).await;
    assert_eq!(city.escalations().await, []);
    city.parts.repo.hold(None);
    city.pass(PATROL * 3).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.escalations().await, []);
}

/// They could not be read, which was told as work at risk in a broken sandbox.
#[tokio::test(start_paused = true)]
async fn held_rig_calls_no_person_for_sandboxes_that_wait_for_their_removal() {
    for is_over in [true, false] {
        let city = Scenario::new().start().await;
        let charged = city.charged("a").await;
        city.parts.repo.hold(MISSING);
        match is_over {
            true => end_work(&city, &charged).await,
            false => close(&city, &charged).await,
        }
        city.pass(PATROL * 16).await;
        assert_eq!(city.escalations().await, [], "{is_over}");
        for salvage in [true, false] {
            let refused = city.nuke(&charged.raider, salvage).await.unwrap_err();
            assert!(refused.is_passing(), "{refused:?}");
            assert!(refused.message.contains("missing"), "{refused:?}");
        }
        city.parts.repo.hold(None);
        city.pass(PATROL * 3).await;
        assert!(city.parts.repo.names().is_empty(), "{is_over}");
        assert_eq!(city.escalations().await, [], "{is_over}");
    }
}

/// It was closed without salvage, and called a person with it.
#[tokio::test(start_paused = true)]
async fn nuke_that_is_under_way_waits_for_its_held_rig() {
    for salvage in [true, false] {
        let repo: Arc<OnceLock<Arc<FakeRepo>>> = Arc::default();
        let own = Arc::clone(&repo);
        let scenario = Scenario::new().fault(Arc::new(move |point| {
            if point == FaultPoint::NukeIntentAfter {
                own.get().unwrap().hold(MISSING);
            }
        }));
        let city = scenario.start().await;
        assert!(repo.set(Arc::clone(&city.parts.repo)).is_ok(), "once");
        let charged = city.charged("a").await;
        if salvage {
            city.parts.repo.dirty(&charged.raider.name, "wip.txt");
        }
        let refused = city.nuke(&charged.raider, salvage).await.unwrap_err();
        assert!(refused.is_passing(), "{refused:?}");
        city.pass(PATROL * 16).await;
        assert_eq!(city.sagas().await, 1, "{salvage}");
        assert_eq!(city.escalations().await, [], "{salvage}");
        // The first failure after the hold is the first of all.
        city.parts.repo.fail("discard_sandbox", away());
        city.parts.repo.hold(None);
        city.pass(PATROL * 5).await;
        assert_eq!(city.sagas().await, 0, "{salvage}");
        assert!(city.parts.repo.names().is_empty());
        assert_eq!(city.escalations().await, [], "{salvage}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_of_a_hold_is_no_time_of_failure() {
    let failing = [
        ("push_branch", LASTING),
        ("landed", LASTING),
        ("sandboxes", GROWN),
    ];
    for (op, lasting) in sampled(failing, 3) {
        let (city, charged) = Scenario::at_work().await;
        city.parts.repo.break_op(op, away());
        if op != "sandboxes" {
            city.completed(&charged.raider).await.unwrap();
        }
        city.pass(PATROL * 2).await;
        city.parts.repo.hold(MISSING);
        city.pass(LASTING * 2).await;
        city.parts.repo.hold(None);
        city.pass(PATROL * 3).await;
        assert_eq!(city.escalations().await, [], "{op}");
        city.pass(lasting + PATROL * 3).await;
        let calls = city.escalations().await;
        assert_eq!(calls.len(), 1, "{op}: {calls:?}");
        assert!(calls[0].body.contains("no route"), "{op}: {calls:?}");
    }
}
