//! A look that fails, panics or hangs is not the last one, or is escalated.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use super::PATROL;
use crate::actors::mail::WitnessMsg;
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::poll;
use crate::testing::tripwire::Tripwire;
use crate::testing::world::{Scenario, Town, rig};

fn patrol(town: &Town) {
    let witness = town.world.directory.witness(&rig()).unwrap();
    witness.cast(WitnessMsg::Patrol).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_look_that_panics_itself_is_not_the_last_one() {
    let (town, charged) = Scenario::at_work().await;
    let wire = Tripwire::at("the rig's sandboxes cannot be listed");
    let away = RepoError::Failed("input/output error".into());
    town.parts.repo.fail("sandboxes", away);
    patrol(&town);
    town.pass(PATROL).await;
    assert!(wire.is_torn());
    let seen = town.parts.repo.count("sandboxes");
    town.pass(PATROL).await;
    assert!(town.parts.repo.count("sandboxes") > seen);
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL).await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
}

/// The displayed last patrol is one that observed the rig.
#[tokio::test(start_paused = true)]
async fn a_look_that_saw_nothing_and_one_that_an_event_asked_for_are_no_patrols() {
    let town = Scenario::new().start().await;
    town.pass(PATROL).await;
    let last = || town.world.directory.last_patrol(&rig());
    let seen = last();
    assert!(seen.is_some());
    town.worker("a").await;
    town.settle().await;
    assert_eq!(last(), seen, "events");
    let away = RepoError::Failed("input/output error".into());
    town.parts.repo.break_op("sandboxes", away);
    town.pass(PATROL * 3).await;
    assert_eq!(last(), seen, "it saw nothing");
    town.parts.repo.mend("sandboxes");
    town.pass(PATROL).await;
    assert!(last() > seen);
}

/// Starts with a look that hangs until it is released, and lets the time pass after which it is given up and a person is
/// called.
async fn hung() -> (Town, mpsc::Sender<()>) {
    let town = Scenario::new().start().await;
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(Some(wait));
    town.parts.repo.interlude("sandboxes", move || {
        if let Some(wait) = wait.lock().unwrap().take() {
            wait.recv().unwrap();
        }
    });
    let before = town.parts.repo.count("sandboxes");
    patrol(&town);
    let begun = || town.parts.repo.count("sandboxes") > before;
    town.until("a look", begun).await;
    // Paused time stands still while this task waits, and is advanced by hand.
    let mut seen = 0;
    for _ in 0..11 {
        assert_eq!(town.escalations().await, []);
        seen = town.parts.repo.count("sandboxes");
        tokio::time::advance(PATROL - Duration::from_secs(1)).await;
        patrol(&town);
        town.world.nudge(message::SHAMAN);
    }
    let another = || town.parts.repo.count("sandboxes") > seen;
    town.until("another look, which hangs too", another).await;
    let mut said = town.escalations().await;
    for _ in 0..1000 {
        if !said.is_empty() {
            break;
        }
        tokio::task::spawn_blocking(|| poll::pass(Duration::from_millis(5)))
            .await
            .unwrap();
        said = town.escalations().await;
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].title.contains("hangs"), "{said:?}");
    (town, go)
}

async fn all_is_over(town: &Town) -> bool {
    let said = town.escalations().await;
    said.len() == 1 && said[0].status == RelicStatus::Closed
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_is_given_up_and_escalated_until_a_later_one_ends() {
    let (town, go) = hung().await;
    town.reword().await;
    go.send(()).unwrap();
    town.pass(PATROL * 2).await;
    assert!(all_is_over(&town).await);
}

/// The witness that called is gone by then.
#[tokio::test(start_paused = true)]
async fn escalation_of_a_hanging_look_is_closed_by_the_patrol_of_a_successor() {
    let (town, go) = hung().await;
    assert_eq!(town.kill_actors::<WitnessMsg>(), 1);
    go.send(()).unwrap();
    town.pass(PATROL * 2).await;
    assert!(all_is_over(&town).await);
}

/// Sandboxes without owner are neither seen nor removed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_witness_that_cannot_see_its_rig_for_long_calls_a_person_until_it_can() {
    let town = Scenario::new().start().await;
    let away = RepoError::Failed("input/output error".into());
    town.parts.repo.break_op("sandboxes", away);
    town.pass(PATROL * 8).await;
    assert_eq!(town.escalations().await, []);
    town.pass(PATROL * 8).await;
    let said = town.escalations().await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].title.contains("cannot be listed"), "{said:?}");
    assert!(said[0].body.contains("input/output error"), "{said:?}");
    town.reword().await;
    town.parts.repo.mend("sandboxes");
    town.pass(PATROL * 2).await;
    assert!(all_is_over(&town).await);
}
