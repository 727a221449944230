//! `relic.cancel`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask};
use crate::actors::mail::Charged;
use crate::actors::world::World;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::domain::event::EventType;
use crate::domain::ids::{Oid, RaiderId, RelicId};
use crate::domain::merge::MrState;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::Txn;
use crate::ports::repo::RepoError;
use crate::testing::hang::Hang;
use crate::testing::world::{Scenario, TestCity};
use crate::testing::{poll, records};

#[tokio::test(start_paused = true)]
async fn cancel_stops_the_raider_saves_its_work_and_closes_the_relic() {
    let (city, charged) = Scenario::at_work().await;
    let cancel = json!({ "relic": charged.relic, "reason": "not wanted", "yes": true });
    let told = ask(&city, "relic.cancel", cancel.clone()).await.unwrap();
    assert_eq!(told["status"], "closed");
    assert_eq!(told["nuked"], json!(charged.raider));
    assert!(!city.runs(&charged.session));
    assert!(city.parts.repo.names().is_empty(), "the slot is free");
    let closed = city.events(EventType::RelicClosed).await.pop().unwrap();
    assert_eq!(closed.data["reason"], "not wanted");
    assert!(city.hook(&charged.raider).await.is_none());
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    // Once more is no error.
    let again = ask(&city, "relic.cancel", cancel).await.unwrap();
    assert_eq!(again["nuked"], Value::Null);
}

/// The fake repository cannot measure the sandbox: what it holds is unknown, so nothing is touched.
#[tokio::test(start_paused = true)]
async fn cancel_changes_nothing_where_work_would_be_lost() {
    let (city, charged) = Scenario::at_work().await;
    let broken = RepoError::Failed("unreadable".into());
    city.parts.repo.break_op("measure", broken);
    let cancel = json!({ "relic": charged.relic, "yes": true });
    let refused = ask(&city, "relic.cancel", cancel).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
    assert!(city.runs(&charged.session));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn cancel_drops_queued_work_and_refuses_landed_work() {
    let city = Scenario::new().start().await;
    let landed = super::submitted(&city).await;
    let cancel = |relic: &RelicId| json!({ "relic": relic, "yes": true });
    let refused = ask(&city, "relic.cancel", cancel(&landed))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
    assert!(refused.message.contains("has landed"), "{refused}");
    let charged = city.worker("b").await;
    let broken = RepoError::Failed("no network".into());
    city.parts.repo.break_op("fetch_target", broken);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    let queued = charged.relic;
    let mr = city.mr(&queued).await.unwrap();
    assert!(!mr.is_final());
    let told = ask(&city, "relic.cancel", cancel(&queued)).await.unwrap();
    assert_eq!(
        (&told["status"], &told["withdrawn"]),
        (&json!("closed"), &json!([mr.id]))
    );
    assert_eq!(city.mr(&queued).await.unwrap().state, MrState::Rejected);
    assert_eq!(city.relic_now(&queued).await.branch, Some(mr.branch));
}

/// Returns a city in which the removal of a finished raider hangs.
async fn leaving() -> (TestCity, Charged, Hang) {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let repo = &city.parts.repo;
    repo.break_op("fetch_target", RepoError::Failed("no network".into()));
    let hang = Hang::default();
    let door = hang.door();
    repo.interlude("discard_sandbox", move || door.enter());
    city.completed(&charged.raider).await.unwrap();
    city.until("its sandbox is removed", || hang.entered() == 1)
        .await;
    (city, charged, hang)
}

/// Asks for a cancel while virtual time passes: it does not by itself while an operation hangs.
async fn cancelled(city: &TestCity, relic: &RelicId) -> Result<Value, ControlError> {
    let time = async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            let breath = || poll::pass(Duration::from_millis(1));
            tokio::task::spawn_blocking(breath).await.unwrap();
        }
    };
    let cancel = json!({ "relic": relic, "yes": true });
    tokio::select! {
        told = ask(city, "relic.cancel", cancel) => told,
        () = time => unreachable!("time goes on"),
    }
}

/// It was refused at once, with words about a nuke that no person had asked for.
#[tokio::test(start_paused = true)]
async fn cancel_waits_for_a_raider_that_is_just_being_removed() {
    let (city, charged, hang) = leaving().await;
    let begun = city.world.clock.mono();
    let refused = cancelled(&city, &charged.relic).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(
        refused.message.contains("is still being removed"),
        "{refused}"
    );
    assert!(city.world.clock.mono() - begun >= Duration::from_secs(10));
    hang.release();
    let told = cancelled(&city, &charged.relic).await.unwrap();
    assert_eq!(told["status"], "closed");
    assert!(city.parts.repo.names().is_empty());
}

/// Declares the work of a raider done, in the store alone.
fn declare(world: &World, raider: &RaiderId, head: &Oid) {
    let (raider, head) = (raider.clone(), head.clone());
    let declared = move |txn: &mut dyn Txn| {
        let mut hook = txn.hook(&raider)?.expect("a hook");
        hook.done.get_or_insert(records::completed(head.clone()));
        txn.put_hook(&hook)
    };
    drop(world.store.begin(declared));
}

/// The agent says `hd done` between the look of the cancel and its removal: it was refused, with "was finished or
/// reopened after this was decided".
#[tokio::test(start_paused = true)]
async fn cancel_beside_a_completion_looks_again() {
    let (city, charged) = Scenario::at_work().await;
    let (world, raider) = (city.world.clone(), charged.raider.clone());
    let head = city.parts.repo.commit(&raider.name);
    city.parts.repo.interlude("measure", move || {
        declare(&world, &raider, &head);
    });
    let cancel = json!({ "relic": charged.relic, "yes": true });
    let told = ask(&city, "relic.cancel", cancel).await.unwrap();
    assert_eq!(told["status"], "closed");
    assert!(city.hook(&charged.raider).await.is_none());
}

/// Charges a relic whose session hangs at its start, and does `during` meanwhile.
async fn during_a_start<T>(during: impl AsyncFnOnce(&TestCity, &RelicId, &Hang) -> T) -> T {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let hang = Hang::default();
    let door = hang.door();
    city.parts.sessions.interlude("start", move || door.enter());
    let act = async {
        city.until("its session starts", || hang.entered() == 1)
            .await;
        let did = during(&city, &relic, &hang).await;
        hang.release();
        did
    };
    let (charged, did) = tokio::join!(city.charge(&relic), act);
    charged.unwrap();
    did
}

/// A charge whose session is being started is waited for, and told when that takes long.
#[tokio::test(start_paused = true)]
async fn cancel_waits_for_a_charge_that_is_at_its_end() {
    let waited = during_a_start(async |city, relic, _| {
        let begun = city.world.clock.mono();
        let refused = cancelled(city, relic).await.unwrap_err();
        assert!(refused.message.contains("charge is running"), "{refused}");
        city.world.clock.mono() - begun
    });
    assert!(waited.await >= Duration::from_secs(10));
    let told = during_a_start(async |city, relic, hang| {
        let patient = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            hang.release();
        };
        let (told, ()) = tokio::join!(cancelled(city, relic), patient);
        told.unwrap()
    });
    assert_eq!(told.await["status"], "closed");
}

/// Each try would end the session and save the work once more.
#[tokio::test(start_paused = true)]
async fn cancel_that_is_refused_at_the_last_moment_is_not_tried_again() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.commit(&charged.raider.name);
    let stale = RepoError::PermitStale("a file came".to_owned());
    city.parts.repo.break_op("discard_sandbox", stale);
    let cancel = json!({ "relic": charged.relic, "yes": true });
    let refused = ask(&city, "relic.cancel", cancel).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
    assert_eq!(city.parts.repo.count("discard_sandbox"), 1);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
}
