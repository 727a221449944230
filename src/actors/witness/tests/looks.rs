//! A look that fails, panics or hangs is not the last one, or is escalated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use super::PATROL;
use crate::actors::mail::WitnessMsg;
use crate::actors::store::StoreHandle;
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::hang::Hang;
use crate::testing::poll;
use crate::testing::tripwire::Tripwire;
use crate::testing::world::{Parts, Scenario, TestCity, rig, start_clock};

/// A log line of the look itself.
const HERE: &str = "the rig's sandboxes cannot be listed; wisps of sandboxes without hook stay until the next look";

fn patrol(city: &TestCity) {
    let witness = city.world.directory.witness(&rig()).unwrap();
    witness.cast(WitnessMsg::Patrol).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_look_that_panics_itself_is_not_the_last_one() {
    let (city, charged) = Scenario::at_work().await;
    let wire = Tripwire::at(HERE);
    let away = RepoError::Failed("input/output error".into());
    city.parts.repo.fail("sandboxes", away);
    patrol(&city);
    city.pass(PATROL).await;
    assert!(wire.is_torn());
    let seen = city.parts.repo.count("sandboxes");
    city.pass(PATROL).await;
    assert!(city.parts.repo.count("sandboxes") > seen);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// The displayed last patrol is one that observed the rig.
#[tokio::test(start_paused = true)]
async fn a_look_that_saw_nothing_and_one_that_an_event_asked_for_are_no_patrols() {
    let city = Scenario::new().start().await;
    city.pass(PATROL).await;
    let last = || city.world.directory.last_patrol(&rig());
    let seen = last();
    assert!(seen.is_some());
    city.worker("a").await;
    city.settle().await;
    assert_eq!(last(), seen, "events");
    let away = RepoError::Failed("input/output error".into());
    city.parts.repo.break_op("sandboxes", away);
    city.pass(PATROL * 3).await;
    assert_eq!(last(), seen, "it saw nothing");
    city.parts.repo.mend("sandboxes");
    city.pass(PATROL).await;
    assert!(last() > seen);
}

/// Starts with a look that hangs until it is released, and lets the time pass after which it is given up and a person is
/// called.
async fn hung() -> (TestCity, mpsc::Sender<()>) {
    let city = Scenario::new().start().await;
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(Some(wait));
    city.parts.repo.interlude("sandboxes", move || {
        if let Some(wait) = wait.lock().unwrap().take() {
            wait.recv().unwrap();
        }
    });
    let before = city.parts.repo.count("sandboxes");
    patrol(&city);
    let begun = || city.parts.repo.count("sandboxes") > before;
    city.until("a look", begun).await;
    // Paused time stored still while this task waits, and is advanced by hand.
    let mut seen = 0;
    for _ in 0..11 {
        assert_eq!(city.escalations().await, []);
        seen = city.parts.repo.count("sandboxes");
        tokio::time::advance(PATROL - Duration::from_secs(1)).await;
        patrol(&city);
        city.world.nudge(message::SHAMAN);
    }
    let another = || city.parts.repo.count("sandboxes") > seen;
    city.until("another look, which hangs too", another).await;
    let mut said = city.escalations().await;
    for _ in 0..1000 {
        if !said.is_empty() {
            break;
        }
        tokio::task::spawn_blocking(|| poll::pass(Duration::from_millis(5)))
            .await
            .unwrap();
        said = city.escalations().await;
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].title.contains("hangs"), "{said:?}");
    (city, go)
}

/// The escalation cannot be stored, and its task panics: the next look follows in any case.
#[tokio::test(start_paused = true)]
async fn look_that_hangs_is_not_the_last_one_when_the_call_about_it_panics() {
    const CALL: &str =
        "the escalation about a hanging look could not be stored; no person is called";
    let clock = start_clock();
    let (mut parts, full) = (Parts::new(&clock), Arc::<AtomicBool>::default());
    parts.store = StoreHandle::full_while(&clock, &full);
    let city = Scenario::new().start_on(parts, clock).await;
    let (hang, wire) = (Hang::default(), Tripwire::at(CALL));
    let (door, hangs) = (hang.door(), Arc::new(AtomicBool::new(true)));
    let is_hung = Arc::clone(&hangs);
    city.parts.repo.interlude("sandboxes", move || {
        if is_hung.load(Ordering::SeqCst) {
            door.enter();
        }
    });
    patrol(&city);
    city.until("a look hangs", || hang.entered() > 0).await;
    full.store(true, Ordering::SeqCst);
    tokio::time::advance(PATROL * 10).await;
    city.until("the call panics", || wire.is_torn()).await;
    full.store(false, Ordering::SeqCst);
    hangs.store(false, Ordering::SeqCst);
    hang.release();
    let last = || city.world.directory.last_patrol(&rig());
    let before = last();
    city.pass(PATROL * 2).await;
    assert!(last() > before);
}

async fn all_is_over(city: &TestCity) -> bool {
    let escalations = city.escalations().await;
    escalations.len() == 1 && escalations[0].status == RelicStatus::Closed
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_is_given_up_and_escalated_until_a_later_one_ends() {
    let (city, go) = hung().await;
    city.reword().await;
    go.send(()).unwrap();
    city.pass(PATROL * 2).await;
    assert!(all_is_over(&city).await);
}

/// The witness that called is gone by then.
#[tokio::test(start_paused = true)]
async fn escalation_of_a_hanging_look_is_closed_by_the_patrol_of_a_successor() {
    let (city, go) = hung().await;
    assert_eq!(city.kill_actors::<WitnessMsg>(), 1);
    go.send(()).unwrap();
    city.pass(PATROL * 2).await;
    assert!(all_is_over(&city).await);
}

/// Sandboxes without owner are neither seen nor removed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_witness_that_cannot_see_its_rig_for_long_calls_a_person_until_it_can() {
    let city = Scenario::new().start().await;
    let away = RepoError::Failed("input/output error".into());
    city.parts.repo.break_op("sandboxes", away);
    city.pass(PATROL * 8).await;
    assert_eq!(city.escalations().await, []);
    city.pass(PATROL * 8).await;
    let escalations = city.escalations().await;
    assert_eq!(escalations.len(), 1, "{escalations:?}");
    assert!(
        escalations[0].title.contains("cannot be listed"),
        "{escalations:?}"
    );
    assert!(
        escalations[0].body.contains("input/output error"),
        "{escalations:?}"
    );
    city.reword().await;
    city.parts.repo.mend("sandboxes");
    city.pass(PATROL * 2).await;
    assert!(all_is_over(&city).await);
}
