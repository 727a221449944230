//! A forge whose predecessor panicked.

use std::sync::Arc;

use crate::actors::mail::ForgeMsg;
use crate::actors::sagas::closing;
use crate::domain::cause::Cause;
use crate::domain::ids::RelicId;
use crate::domain::message;
use crate::testing::hang::Hang;
use crate::testing::world::{MOMENT, Scenario, TestCity, rig};

/// The landing outlives the forge that began it, and so does the knowledge of its merge request.
#[tokio::test(start_paused = true)]
async fn successor_of_a_forge_ends_the_gate_of_withdrawn_work() {
    let city = Scenario::new().gate("test").start().await;
    let hang = Hang::default();
    let (gate, repo) = (hang.door(), Arc::clone(&city.parts.repo));
    repo.interlude("run_gate", move || gate.enter());
    let relic = tested(&city, &hang).await;
    let former = city.world.directory.forge(&rig()).unwrap().get_id();
    assert_eq!(city.kill_actors::<ForgeMsg>(), 1);
    let present = || {
        city.world
            .directory
            .forge(&rig())
            .map(|forge| forge.get_id())
    };
    for _ in 0..1000 {
        if present().is_some_and(|id| id != former) {
            break;
        }
        tokio::time::advance(MOMENT * 10).await;
    }
    assert_ne!(present(), Some(former), "another forge");
    let stopped = || city.parts.repo.count("stop_gate");
    assert_eq!(stopped(), 0);
    city.store(move |txn| {
        let relic = txn.relic(&relic)?;
        closing::close(txn, relic, None, Cause::Operator).map(drop)
    })
    .await;
    city.world.nudge(&message::forge(&rig()));
    city.until("the gate is stopped", || stopped() == 1).await;
    hang.release();
}

/// Completes the work of one raider, and waits until its gate hangs.
async fn tested(city: &TestCity, hang: &Hang) -> RelicId {
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.until("the gate runs", || hang.entered() == 1).await;
    charged.relic
}
