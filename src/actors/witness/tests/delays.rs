//! Slow or broken work delays nothing but itself.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::actors::sagas::land;
use crate::actors::world::World;
use crate::domain::event::EventType;
use crate::domain::queue::Step;
use crate::domain::relic::{Completion, RelicStatus};
use crate::domain::saga::{FaultPoint, SagaKind};
use crate::ports::repo::RepoError;
use crate::testing::fake_repo::FakeRepo;
use crate::testing::world::{Scenario, TestCity, completion, raider, rig};

const PATROL: Duration = Duration::from_secs(31);

/// Makes the first call of the operation hang until the sender is dropped.
fn hang_once(repo: &FakeRepo, op: &'static str) -> Sender<()> {
    let (release, hanging) = channel::<()>();
    let first = Mutex::new(Some(hanging));
    repo.interlude(op, move || {
        let first = first.lock().unwrap().take();
        // The sender never sends: it is dropped.
        let _released = first.map(|hanging| hanging.recv());
    });
    release
}

async fn closed(city: &TestCity, relic: &crate::domain::ids::RelicId) -> bool {
    city.relic_now(relic).await.status == RelicStatus::Closed
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_remote_hangs_holds_up_no_other_raider() {
    let city = Scenario::new();
    let city = city.rig(|rig| rig.raiders.max = 2).start().await;
    let repo = Arc::clone(&city.parts.repo);
    let (slow, quick) = (city.worker("a").await, city.worker("b").await);
    city.reload(|city| city.rigs[0].raiders.auto_charge = true)
        .await;
    let waiting = city.relic("c").await;
    let release = hang_once(&repo, "remote_head");
    city.completed(&slow.raider).await.unwrap();
    let asks = || repo.count("remote_head") == 1;
    city.until("the remote hangs", asks).await;
    let done = city.completed(&quick.raider).await.unwrap();
    let landed = || repo.has_landed(&done.head);
    city.until("the other's work landed", landed).await;
    let charged = || repo.count("make_sandbox") == 3;
    city.until("waiting work has the free slot", charged).await;
    drop(release);
    city.settle().await;
    assert!(closed(&city, &slow.relic).await);
    assert!(closed(&city, &quick.relic).await);
    assert_eq!(city.status(&waiting).await, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_goes_slowly_holds_up_no_other() {
    let city = Scenario::new().start().await;
    let repo = Arc::clone(&city.parts.repo);
    let (slow, quick) = (city.worker("a").await, city.worker("b").await);
    let release = hang_once(&repo, "discard_sandbox");
    city.completed(&slow.raider).await.unwrap();
    let asks = || repo.count("discard_sandbox") == 1;
    city.until("a sandbox is being removed", asks).await;
    city.completed(&quick.raider).await.unwrap();
    let gone = || repo.discarded() == [quick.raider.clone()];
    city.until("the other is gone", gone).await;
    drop(release);
    city.settle().await;
    assert!(closed(&city, &slow.relic).await);
    assert!(closed(&city, &quick.relic).await);
    assert!(repo.names().is_empty());
}

/// An approval right after the submission counts at once, not at the next patrol.
#[tokio::test(start_paused = true)]
async fn approval_at_the_moment_of_the_submission_is_not_missed() {
    let world: Arc<OnceLock<Arc<World>>> = Arc::default();
    let own = Arc::clone(&world);
    let fault = move |at: FaultPoint| {
        let Some(world) = own
            .get()
            .cloned()
            .filter(|_| at == FaultPoint::DoneSubmitAfter)
        else {
            return;
        };
        tokio::spawn(async move {
            let approve = world.store.run(move |txn| {
                let mut mr = txn.mrs(None, true)?.remove(0);
                let note = "approved".to_owned();
                land::take(txn, &mut mr, &Step::Approved { note }).map(drop)
            });
            approve.await.unwrap();
            world.nudge(&crate::domain::message::witness(&rig()));
        });
    };
    let city = Scenario::new().fault(Arc::new(fault)).start().await;
    let _first = world.set(Arc::clone(&city.world));
    let charged = city.worker("a").await;
    let mut request = completion(&charged.raider);
    request.wants_review = true;
    city.done(request).await.unwrap();
    city.settle().await;
    assert!(closed(&city, &charged.relic).await);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_measured_after_done_is_escalated_once() {
    let (city, charged) = Scenario::at_work().await;
    let repo = Arc::clone(&city.parts.repo);
    let broken = RepoError::Failed("index is damaged".into());
    let breaks = Arc::clone(&repo);
    repo.interlude("push_branch", move || {
        breaks.break_op("measure", broken.clone());
    });
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let tried = repo.count("measure");
    city.pass(PATROL * 10).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("index is damaged"));
    let again = repo.count("measure") - tried;
    assert!(again <= 12, "at patrols, not {again} times");
    assert!(again > 5, "it is not given up");
    repo.interlude("push_branch", || {});
    repo.mend("measure");
    city.pass(PATROL).await;
    assert!(closed(&city, &charged.relic).await);
}

#[tokio::test(start_paused = true)]
async fn work_that_cannot_be_pinned_is_escalated_once() {
    let (city, charged) = Scenario::at_work().await;
    let error = RepoError::Failed("bad object".into());
    city.parts.repo.break_op("pin", error);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 5).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1);
    assert!(escalations[0].body.contains("bad object"));
    city.parts.repo.mend("pin");
    city.pass(PATROL).await;
    assert!(closed(&city, &charged.relic).await);
}

/// A remote that is away will be back: no person is called.
#[tokio::test(start_paused = true)]
async fn transient_failure_of_the_remote_is_not_escalated() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("no route".into());
    for op in ["remote_head", "pin"] {
        city.parts.repo.break_op(op, away.clone());
    }
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 3).await;
    city.parts.repo.mend("remote_head");
    city.pass(PATROL * 3).await;
    city.parts.repo.mend("pin");
    city.pass(PATROL).await;
    assert!(closed(&city, &charged.relic).await);
    let calls = city.escalations().await;
    assert!(calls.is_empty(), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn relic_closed_by_a_person_meanwhile_stays_closed() {
    for exit in [Completion::Escalated, Completion::Deferred] {
        let (city, charged) = Scenario::at_work().await;
        city.closes_during("remote_head", &charged.relic);
        let mut request = completion(&charged.raider);
        request.exit = exit;
        city.done(request).await.unwrap();
        city.pass(PATROL).await;
        assert!(closed(&city, &charged.relic).await, "{exit:?}");
        assert!(city.escalations().await.is_empty());
        assert!(city.parts.repo.names().is_empty(), "pushed and clean");
    }
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_cannot_be_read_is_escalated_once_and_kept() {
    for kind in [SagaKind::Charge, SagaKind::Done, SagaKind::Nuke] {
        let city = Scenario::new().start().await;
        let subject = raider("Ash").to_string();
        city.store(move |txn| {
            let data = serde_json::json!({ "of": "another version" });
            txn.open_saga(kind, &rig(), &subject, "intent", &data)
        })
        .await;
        city.pass(PATROL * 5).await;
        assert_eq!(city.sagas().await, 1, "{kind:?}");
        assert_eq!(city.escalations().await.len(), 1, "{kind:?}");
        let charged = city.worker("a").await;
        city.completed(&charged.raider).await.unwrap();
        city.settle().await;
        assert!(closed(&city, &charged.relic).await, "others go on");
    }
}

/// No task can continue the saga, and the session that should end does not: told once.
#[tokio::test(start_paused = true)]
async fn a_raider_stuck_in_done_is_said_so_once() {
    let (city, charged) = Scenario::at_work().await;
    let subject = charged.raider.to_string();
    city.parts.sessions.refuse_stop(&charged.session);
    city.store(move |txn| txn.open_saga(SagaKind::Done, &rig(), &subject, "intent", &().into()))
        .await;
    city.pass(PATROL * 10).await;
    let tried = city.parts.sessions.stops().len();
    assert!(tried > 3, "it is not given up: {tried}");
    let events = city.events(EventType::RaiderZombie).await;
    assert_eq!(events.len(), 1);
}
