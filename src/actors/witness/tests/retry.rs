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
use crate::testing::world::{Scenario, Town, completion, raider};

const PATROL: Duration = Duration::from_secs(31);

/// Three raiders whose sessions do not end: the rate of attempts stays low.
#[tokio::test(start_paused = true)]
async fn sagas_that_cannot_go_on_are_not_hammered() {
    let town = Scenario::new().start().await;
    let mut workers = Vec::new();
    for title in ["a", "b", "c"] {
        let charged = town.worker(title).await;
        town.parts.sessions.hide(&charged.session, Some("deaf"));
        town.done(completion(&charged.raider)).await.unwrap();
        workers.push(charged);
    }
    town.pass(Duration::from_secs(600)).await;
    let looks = || town.parts.sessions.looks(&workers[0].session);
    let before = looks();
    town.pass(Duration::from_secs(600)).await;
    let attempts = looks() - before;
    // Ten minutes: at most every 16 s, and every patrol; each attempt looks twice.
    assert!(attempts <= 2 * (600 / 16 + 600 / 30 + 2), "{attempts}");
    assert!(attempts > 10, "it is not given up");
    assert_eq!(town.escalations().await.len(), 3, "each is told once");
    for charged in &workers {
        town.parts.sessions.hide(&charged.session, None);
    }
    town.pass(Duration::from_secs(31)).await;
    for charged in &workers {
        assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
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
    let town = Scenario::new().fault(Arc::new(fault)).start().await;
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.pass(Duration::from_secs(95)).await;
    assert!(panics.load(Ordering::SeqCst) >= 2);
    assert!(town.parts.repo.names().is_empty(), "it was tried again");
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_handled_holds_up_no_other() {
    let town = Scenario::new().start().await;
    let (first, second) = (town.worker("a").await, town.worker("b").await);
    // The first raider's head can never be pinned.
    let error = RepoError::Failed("bad object".into());
    for _ in 0..100 {
        town.parts.repo.fail("pin", error.clone());
    }
    town.completed(&first.raider).await.unwrap();
    town.settle().await;
    let tried = town.parts.repo.count("pin");
    assert!(tried >= 1);
    let blocked = town.mr(&first.relic).await.unwrap().id;
    town.parts.repo.forget_failures("pin");
    town.parts.repo.fail_for("pin", blocked.as_str(), error);
    town.completed(&second.raider).await.unwrap();
    town.pass(Duration::from_secs(31)).await;
    assert_eq!(town.status(&second.relic).await, RelicStatus::Closed);
    assert_eq!(town.status(&first.relic).await, RelicStatus::Hooked);
}

/// Returns the open escalations.
async fn calls(town: &Town) -> Vec<Relic> {
    let mut all = town.escalations().await;
    all.retain(|relic| relic.status != RelicStatus::Closed);
    all
}

/// A permanent failure is retried at each patrol only, and a person is told.
#[tokio::test(start_paused = true)]
async fn permanent_failure_is_escalated_once_and_retried_at_patrols_only() {
    let (town, charged) = Scenario::at_work().await;
    let gone = RepoError::NotFound("branch main".into());
    town.parts.repo.break_op("landed", gone);
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL * 10).await;
    let escalations = calls(&town).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(escalations[0].body.contains("branch main"));
    let tried = town.parts.repo.count("landed");
    assert!((3..=15).contains(&tried), "{tried}");
    town.parts.repo.mend("landed");
    town.pass(PATROL).await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    town.pass(PATROL).await;
    assert_eq!(calls(&town).await.len(), 0, "it is over");
}

/// A transient failure escalates only after `LASTING`.
#[tokio::test(start_paused = true)]
async fn lasting_transient_failure_is_escalated() {
    let (town, charged) = Scenario::at_work().await;
    let away = RepoError::Remote("authentication failed".into());
    town.parts.repo.break_op("landed", away);
    town.completed(&charged.raider).await.unwrap();
    town.pass(LASTING - PATROL * 2).await;
    assert_eq!(calls(&town).await.len(), 0);
    town.pass(PATROL * 6).await;
    let escalations = calls(&town).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(escalations[0].body.contains("authentication failed"));
    town.reword().await;
    town.parts.repo.mend("landed");
    town.pass(PATROL * 3).await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(calls(&town).await.len(), 0, "it is over");
}

/// The work has landed, and the sandbox is gone; only the remote branch cannot be deleted.
#[tokio::test(start_paused = true)]
async fn a_call_about_landed_work_is_one_call_until_it_is_dealt_with() {
    let town = Scenario::new().start().await;
    let away = RepoError::Remote("authentication failed".into());
    town.parts.repo.break_op("delete_branch", away);
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.pass(LASTING * 2).await;
    assert_eq!(
        town.status(&charged.relic).await,
        RelicStatus::Closed,
        "it has landed"
    );
    let escalations = town.escalations().await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert_eq!(calls(&town).await.len(), 1);
    let of = format!("{} of {}", charged.relic, charged.raider);
    assert!(
        escalations[0].title.contains(&of),
        "{}",
        escalations[0].title
    );
    town.reword().await;
    town.parts.repo.mend("delete_branch");
    town.pass(PATROL * 2).await;
    assert_eq!(calls(&town).await.len(), 0, "it is over");
}

/// Nothing is charged while the rig cannot be read; the escalation is closed when something is.
#[tokio::test(start_paused = true)]
async fn a_call_about_waiting_work_is_over_when_it_is_charged() {
    let town = Scenario::new()
        .rig(|rig| rig.raiders.auto_charge = true)
        .start()
        .await;
    town.settle().await;
    let broken = RepoError::Failed("no such repository".into());
    town.parts.repo.break_op("sandboxes", broken);
    let relic = town.relic("a").await;
    town.pass(PATROL * 2).await;
    let escalations = calls(&town).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    town.parts.repo.mend("sandboxes");
    town.pass(PATROL * 2).await;
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Hooked);
    assert_eq!(calls(&town).await.len(), 0, "it is over");
}

/// A caller that wants a session may have looked before the repair began.
#[tokio::test(start_paused = true)]
async fn no_session_comes_into_a_sandbox_that_is_being_rebuilt() {
    let (town, charged) = Scenario::at_work().await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    town.parts.repo.interlude("repair_sandbox", move || {
        wait.lock().unwrap().recv().unwrap();
    });
    let (world, raider) = (Arc::clone(&town.world), charged.raider.clone());
    let repair = tokio::spawn(async move { repair::run(&world, raider).await });
    let begun = || town.parts.repo.count("repair_sandbox") == 1;
    town.until("the repair", begun).await;
    let hook = town.hook(&charged.raider).await.unwrap();
    let spec = raider_spec(&town.world.city, hook, None);
    let wanted = ask::want(&town.world, spec, Cause::OutcomeFile).await;
    let refused = wanted.unwrap_err().message;
    assert!(refused.contains("is being rebuilt"), "{refused}");
    assert_eq!(town.starts(&charged.session), 1);
    go.send(()).unwrap();
    repair.await.unwrap().unwrap();
    assert_eq!(town.starts(&charged.session), 2);
}

/// A charge whose sandbox git cannot judge keeps it; `repair` makes its unwinding possible.
#[tokio::test(start_paused = true)]
async fn a_charge_that_cannot_be_taken_back_is_told_and_can_be_repaired() {
    let (town, relic) = Scenario::whose_set_up_fails().await;
    let broken = RepoError::Failed("index is damaged".into());
    town.parts.repo.break_op("measure", broken);
    town.charge(&relic).await.unwrap_err();
    town.pass(PATROL * 5).await;
    assert_eq!(town.sagas().await, 1);
    let escalations = calls(&town).await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(escalations[0].body.contains("hd raider repair"));
    let repo = Arc::clone(&town.parts.repo);
    let mends = move || repo.mend("measure");
    town.parts.repo.interlude("repair_sandbox", mends);
    let repaired = repair::run(&town.world, raider("Toast")).await.unwrap();
    assert_eq!(repaired.was.unwrap(), "index is damaged");
    town.settle().await;
    assert_eq!(town.sagas().await, 0);
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Open);
}
