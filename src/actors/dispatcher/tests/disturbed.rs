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
    let city = start(&all).await;
    city.parts.runner.let_go("hourly", secs(4 * 3600), 0);
    city.pass(secs(3601)).await;
    assert_eq!(count(&city, "hourly"), 1);
    let city = restart(city, &all, secs(2 * 3600)).await;
    // The clock does not wait for the store's thread: each read of the store does.
    let mut waited = 0;
    while count(&city, "hourly") < 2 {
        waited += 1;
        assert!(waited < 60, "it is not made up for");
        city.store(|txn| txn.get("nothing")).await;
        city.pass(secs(5)).await;
    }
    city.settle().await;
    assert_eq!(causes(&city, EventType::AutomationFailed).await, ["crash"]);
    assert_eq!(city.events(EventType::AutomationSkipped).await, []);
}

/// A rig's automations come and go with its branches.
#[tokio::test(start_paused = true)]
async fn disabled_automation_is_disabled_when_it_is_configured_again() {
    let all = [automation("often", cooldown(60))];
    let city = start(&all).await;
    assert_eq!(count(&city, "often"), 1);
    let often = all[0].clone();
    city.store(move |txn| automations::switch(txn, &often, false, &Asker::person()))
        .await;
    let city = restart(city, &[], secs(5)).await;
    city.pass(secs(60)).await;
    let city = restart(city, &all, secs(5)).await;
    city.pass(secs(300)).await;
    assert_eq!(count(&city, "often"), 1);
}

#[tokio::test(start_paused = true)]
async fn condition_that_holds_too_late_does_not_run_a_removed_automation() {
    let city = start(&[]).await;
    city.parts.runner.let_go("check", secs(8), 0);
    city.reload(|city| city.automations = vec![automation("act", condition(60))])
        .await;
    city.world.directory.tell_dispatcher(DispatcherMsg::Look);
    city.pass(secs(2)).await;
    assert_eq!(count(&city, "check"), 1, "it is asked");
    city.reload(|city| city.automations.clear()).await;
    city.pass(secs(30)).await;
    assert_eq!(count(&city, "act"), 0);
}

/// The journal is not read again and again from where an event was last waited for.
#[tokio::test(start_paused = true)]
async fn events_without_a_matching_gate_are_skipped_for_good() {
    let mut all = [automation("tell", event("relic.closed"))];
    all[0].action = Action::Exec("tell".into());
    let city = start(&all).await;
    for relic in 0..1100 {
        made(&city, &format!("gt-{relic}")).await;
    }
    city.world.directory.tell_dispatcher(DispatcherMsg::Look);
    city.settle().await;
    let id = all[0].id.clone();
    let (mark, newest) = city
        .store(move |txn| Ok((txn.mark(&id)?, txn.last_seq()?)))
        .await;
    assert!(newest - mark.unwrap().cursor <= 1000);
    let closed = NewEvent::new(EventType::RelicClosed, "gt-7", Cause::Operator);
    city.store(move |txn| txn.record(&closed).map(drop)).await;
    city.pass(secs(5)).await;
    assert_eq!(count(&city, "tell"), 1);
}
