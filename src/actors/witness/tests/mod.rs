//! A rig's work from charge to landing, on fakes, under the paused clock.

mod adversary;
mod after_done;
mod broken_sandboxes;
mod changing;
mod charge;
mod charge_restores;
mod delays;
mod deleted_sandboxes;
mod done;
mod done_on_exit;
mod held_rig;
mod identities;
mod identity_results;
mod ignored;
mod intruder;
mod journal;
mod kept_sandboxes;
mod killed_witness;
mod left_branches;
mod live_review;
mod long_reasons;
mod looks;
mod merged;
mod missing_sessions;
mod nuke;
mod nuke_turn;
mod observe;
mod outcomes;
mod push;
mod quarantine;
mod refused;
mod rejected;
mod removal_facts;
mod retry;
mod returned;
mod review;
mod reworded;
mod sandbox_judges;
mod session_age;
mod silence;
mod spinner;
mod stall;
mod sweep;
mod unattended;
mod unremovable;
mod wisps;
mod zombies;

use std::time::Duration;

use crate::actors::mail::Charged;
use crate::domain::event::EventType;
use crate::domain::relic::RelicStatus;
use crate::testing::world::TestCity;

/// A patrol comes within this time.
const PATROL: Duration = Duration::from_secs(31);
/// The grace of a scenario, and the patrol after it.
const GROWN: Duration = Duration::from_secs(300 + 31);

/// Drops the hook; the relic stays as it is.
async fn unhook(city: &TestCity, charged: &Charged) {
    let (raider, incarnation) = (charged.raider.clone(), charged.incarnation);
    let dropped = city.store(move |txn| txn.drop_hook(&raider, incarnation));
    assert!(dropped.await, "it had one");
}

/// Closes the raider's relic.
async fn close(city: &TestCity, charged: &Charged) {
    let id = charged.relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        relic.status = RelicStatus::Closed;
        relic.closed = Some(txn.now());
        txn.put_relic(&relic)
    })
    .await;
}

/// Returns class and incarnation of every zombie that was noted.
async fn zombies(city: &TestCity) -> Vec<(String, u64)> {
    let noted = city.events(EventType::RaiderZombie).await.into_iter();
    let said = noted.map(|event| {
        let class = event.data["class"].as_str().unwrap().to_owned();
        (class, event.data["incarnation"].as_u64().unwrap())
    });
    said.collect()
}

fn session_dead(incarnation: u64) -> Vec<(String, u64)> {
    vec![("session_dead".to_owned(), incarnation)]
}
