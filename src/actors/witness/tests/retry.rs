//! Failed work is retried, with back-off, at a bounded rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::actors::ask;
use crate::actors::mail::raider_spec;
use crate::actors::refusal::LASTING;
use crate::actors::sagas::repair;
use crate::domain::cause::Cause;
use crate::domain::relic::{Relic, RelicStatus};
use crate::domain::saga::FaultPoint;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity, completion, raider};

const PATROL: Duration = Duration::from_secs(31);

/// Three raiders whose sessions do not end: the rate of attempts stays low.
#[tokio::test(start_paused = true)]
async fn sagas_that_cannot_go_on_are_not_hammered() {
    let city = Scenario::new().start().await;
    let mut workers = Vec::new();
    for title in ["a", "b", "c"] {
        let charged = city.worker(title).await;
        city.parts.sessions.hide(&charged.session, Some("deaf"));
        city.done(completion(&charged.raider)).await.unwrap();
        workers.push(charged);
    }
    city.pass(Duration::from_secs(600)).await;
    let looks = || city.parts.sessions.looks(&workers[0].session);
    let before = looks();
    city.pass(Duration::from_secs(600)).await;
    let attempts = looks() - before;
    // Ten minutes: at most every 16 s, and every patrol; each attempt looks twice.
    assert!(attempts <= 2 * (600 / 16 + 600 / 30 + 2), "{attempts}");
    assert!(attempts > 10, "it is not given up");
    assert_eq!(city.escalations().await.len(), 3, "each is told once");
    for charged in &workers {
        city.parts.sessions.hide(&charged.session, None);
    }
    city.pass(Duration::from_secs(31)).await;
    for charged in &workers {
        assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    }
}

/// A panic in the task of a look must not be the last look.
#[tokio::test(start_paused = true)]
async fn a_look_that_panics_is_not_the_last_one() {
    let panics = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&panics);
    let fault = move |point| {
        if point == FaultPoint::NukeIntentBefore && seen.fetch_add(1, Ordering::SeqCst) < 2 {
            panic!("at {point:?}");
        }
    };
    let city = Scenario::new().fault(Arc::new(fault)).start().await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(Duration::from_secs(95)).await;
    assert!(panics.load(Ordering::SeqCst) >= 2);
    assert!(city.parts.repo.names().is_empty(), "it was tried again");
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_handled_holds_up_no_other() {
    let city = Scenario::new().start().await;
    let (first, second) = (city.worker("a").await, city.worker("b").await);
    // The first raider's head can never be pinned.
    let error = RepoError::Failed("bad object".into());
    for _ in 0..100 {
        city.parts.repo.fail("pin", error.clone());
    }
    city.completed(&first.raider).await.unwrap();
    city.settle().await;
    let tried = city.parts.repo.count("pin");
    assert!(tried >= 1);
    let blocked = city.mr(&first.relic).await.unwrap().id;
    city.parts.repo.forget_failures("pin");
    city.parts.repo.fail_for("pin", blocked.as_str(), error);
    city.completed(&second.raider).await.unwrap();
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(city.status(&second.relic).await, RelicStatus::Closed);
    assert_eq!(city.status(&first.relic).await, RelicStatus::Hooked);
}

/// Returns the open escalations.
async fn calls(city: &TestCity) -> Vec<Relic> {
    let mut all = city.escalations().await;
    all.retain(|relic| relic.status != RelicStatus::Closed);
    all
}

/// A permanent failure is retried at each patrol only, and a person is told.
#[tokio::test(start_paused = true)]
async fn permanent_failure_is_escalated_once_and_retried_at_patrols_only() {
    let (city, charged) = Scenario::at_work().await;
    let gone = RepoError::NotFound("branch main".into());
    city.parts.repo.break_op("landed", gone);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL * 10).await;
    let escalations = calls(&city).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(escalations[0].body.contains("branch main"));
    let tried = city.parts.repo.count("landed");
    assert!((3..=15).contains(&tried), "{tried}");
    city.parts.repo.mend("landed");
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    city.pass(PATROL).await;
    assert_eq!(calls(&city).await.len(), 0, "it is over");
}

/// A transient failure escalates only after `LASTING`.
#[tokio::test(start_paused = true)]
async fn lasting_transient_failure_is_escalated() {
    let (city, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("authentication failed".into());
    city.parts.repo.break_op("landed", away);
    city.completed(&charged.raider).await.unwrap();
    city.pass(LASTING - PATROL * 2).await;
    assert_eq!(calls(&city).await.len(), 0);
    city.pass(PATROL * 6).await;
    let escalations = calls(&city).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(escalations[0].body.contains("authentication failed"));
    city.reword().await;
    city.parts.repo.mend("landed");
    city.pass(PATROL * 3).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(calls(&city).await.len(), 0, "it is over");
}

/// The work has landed, and the sandbox is gone; only the remote branch cannot be deleted.
#[tokio::test(start_paused = true)]
async fn a_call_about_landed_work_is_one_call_until_it_is_dealt_with() {
    let city = Scenario::new().start().await;
    let away = RepoError::Remote("authentication failed".into());
    city.parts.repo.break_op("delete_branch", away);
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.pass(LASTING * 2).await;
    assert_eq!(
        city.status(&charged.relic).await,
        RelicStatus::Closed,
        "it has landed"
    );
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert_eq!(calls(&city).await.len(), 1);
    let of = format!("{} of {}", charged.relic, charged.raider);
    assert!(
        escalations[0].title.contains(&of),
        "{}",
        escalations[0].title
    );
    city.reword().await;
    city.parts.repo.mend("delete_branch");
    city.pass(PATROL * 2).await;
    assert_eq!(calls(&city).await.len(), 0, "it is over");
}

/// Nothing is charged while the rig cannot be read; the escalation is closed when something is.
#[tokio::test(start_paused = true)]
async fn a_call_about_waiting_work_is_over_when_it_is_charged() {
    let city = Scenario::new()
        .rig(|rig| rig.raiders.auto_charge = true)
        .start()
        .await;
    city.settle().await;
    let broken = RepoError::Failed("no such repository".into());
    city.parts.repo.break_op("sandboxes", broken);
    let relic = city.relic("a").await;
    city.pass(PATROL * 2).await;
    let escalations = calls(&city).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    city.parts.repo.mend("sandboxes");
    city.pass(PATROL * 2).await;
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Hooked);
    assert_eq!(calls(&city).await.len(), 0, "it is over");
}

/// A caller that wants a session may have looked before the repair began.
#[tokio::test(start_paused = true)]
async fn no_session_comes_into_a_sandbox_that_is_being_rebuilt() {
    let (city, charged) = Scenario::at_work().await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    city.parts.repo.interlude("repair_sandbox", move || {
        wait.lock().unwrap().recv().unwrap();
    });
    let (world, raider) = (Arc::clone(&city.world), charged.raider.clone());
    let repair = tokio::spawn(async move { repair::run(&world, raider).await });
    let begun = || city.parts.repo.count("repair_sandbox") == 1;
    city.until("the repair", begun).await;
    let hook = city.hook(&charged.raider).await.unwrap();
    let spec = raider_spec(&city.world.city, hook, None);
    let wanted = ask::want(&city.world, spec, Cause::OutcomeFile).await;
    let refused = wanted.unwrap_err().message;
    assert!(refused.contains("is being rebuilt"), "{refused}");
    assert_eq!(city.starts(&charged.session), 1);
    go.send(()).unwrap();
    repair.await.unwrap().unwrap();
    assert_eq!(city.starts(&charged.session), 2);
}

/// A charge whose sandbox git cannot judge keeps it; `repair` makes its unwinding possible.
#[tokio::test(start_paused = true)]
async fn a_charge_that_cannot_be_taken_back_is_told_and_can_be_repaired() {
    let (city, relic) = Scenario::whose_set_up_fails().await;
    let broken = RepoError::Failed("index is damaged".into());
    city.parts.repo.break_op("measure", broken);
    city.charge(&relic).await.unwrap_err();
    city.pass(PATROL * 5).await;
    assert_eq!(city.sagas().await, 1);
    let escalations = calls(&city).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(escalations[0].body.contains("hd raider repair"));
    let repo = Arc::clone(&city.parts.repo);
    let mends = move || repo.mend("measure");
    city.parts.repo.interlude("repair_sandbox", mends);
    let repaired = repair::run(&city.world, raider("Toast")).await.unwrap();
    assert_eq!(repaired.was.unwrap(), "index is damaged");
    city.settle().await;
    assert_eq!(city.sagas().await, 0);
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Open);
}
