//! Automations under disturbance: crashes, reloads, and events that no gate waits for.

use super::*;
use crate::actors::records::automations;

/// `contract.md`, 2.2: `catch_up = "last"` makes up for missed slots, also when the supervisor was
/// killed during a run.
#[tokio::test(start_paused = true)]
async fn slots_missed_after_a_crash_during_a_run_are_made_up_for() {
    let mut hourly = automation("hourly", cron("0 * * * *", CatchUp::Last));
    hourly.timeout = secs(5 * 3600);
    let all = [hourly];
    let town = start(&all).await;
    town.parts.runner.let_go("hourly", secs(4 * 3600), 0);
    town.pass(secs(3601)).await;
    assert_eq!(count(&town, "hourly"), 1);
    let town = restart(town, &all, secs(2 * 3600)).await;
    // The clock does not wait for the store's thread: each read of the store does.
    let mut waited = 0;
    while count(&town, "hourly") < 2 {
        waited += 1;
        assert!(waited < 60, "it is not made up for");
        town.store(|txn| txn.get("nothing")).await;
        town.pass(secs(5)).await;
    }
    town.settle().await;
    assert_eq!(causes(&town, EventType::AutomationFailed).await, ["crash"]);
    assert_eq!(town.events(EventType::AutomationSkipped).await, []);
}

/// A rig's automations come and go with its branches.
#[tokio::test(start_paused = true)]
async fn disabled_automation_is_disabled_when_it_is_configured_again() {
    let all = [automation("often", cooldown(60))];
    let town = start(&all).await;
    assert_eq!(count(&town, "often"), 1);
    let often = all[0].clone();
    town.store(move |txn| automations::switch(txn, &often, false))
        .await;
    let town = restart(town, &[], secs(5)).await;
    town.pass(secs(60)).await;
    let town = restart(town, &all, secs(5)).await;
    town.pass(secs(300)).await;
    assert_eq!(count(&town, "often"), 1);
}

#[tokio::test(start_paused = true)]
async fn condition_that_holds_too_late_does_not_run_a_removed_automation() {
    let town = start(&[]).await;
    town.parts.runner.let_go("check", secs(8), 0);
    town.reload(|city| city.automations = vec![automation("act", condition(60))])
        .await;
    town.world.directory.tell_dispatcher(DispatcherMsg::Look);
    town.pass(secs(2)).await;
    assert_eq!(count(&town, "check"), 1, "it is asked");
    town.reload(|city| city.automations.clear()).await;
    town.pass(secs(30)).await;
    assert_eq!(count(&town, "act"), 0);
}

/// The journal is not read again and again from where an event was last waited for.
#[tokio::test(start_paused = true)]
async fn events_without_a_matching_gate_are_skipped_for_good() {
    let mut all = [automation("tell", event("relic.closed"))];
    all[0].exec = "tell".into();
    let town = start(&all).await;
    for relic in 0..1100 {
        made(&town, &format!("gt-{relic}")).await;
    }
    town.world.directory.tell_dispatcher(DispatcherMsg::Look);
    town.settle().await;
    let id = all[0].id.clone();
    let (mark, newest) = town
        .store(move |txn| Ok((txn.mark(&id)?, txn.last_seq()?)))
        .await;
    assert!(newest - mark.unwrap().cursor <= 1000);
    let closed = NewEvent::new(EventType::RelicClosed, "gt-7", Cause::Operator);
    town.store(move |txn| txn.record(&closed).map(drop)).await;
    town.pass(secs(5)).await;
    assert_eq!(count(&town, "tell"), 1);
}
