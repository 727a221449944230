//! The events that outlive their time, because an automation waits for them.

use std::collections::BTreeMap;

use super::*;
use crate::domain::automation::{Action, Automation, RitualAction};
use crate::domain::gates::Gate;
use crate::domain::gates::event::Pattern;
use crate::domain::ritual::Ritual;

/// An event that an automation has not handled yet is kept, however old it is.
#[tokio::test(start_paused = true)]
async fn an_event_that_an_automation_waits_for_outlives_its_time() {
    let slow = Automation {
        id: "slow".parse().unwrap(),
        description: String::new(),
        action: Action::Exec("slow".into()),
        gate: Gate::Event {
            on: Pattern::parse("relic.created").unwrap(),
        },
        timeout: 90 * DAY,
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    };
    let city = scenario().with(|city| {
        city.retention.events = Some(DAY);
        city.automations = vec![slow];
    });
    let city = city.start().await;
    // The first event's run takes long, and two events wait for it.
    city.parts.runner.let_go("slow", 3 * DAY, 0);
    journal_events(&city, 3).await;
    city.pass(2 * DAY).await;
    let kept = city.events(EventType::RelicCreated).await;
    assert_eq!(kept.len(), 2, "the one that is being run for may go");
    city.pass(5 * DAY).await;
    assert_eq!(city.parts.runner.started("slow").len(), 3);
    assert_eq!(city.events(EventType::RelicCreated).await, []);
}

/// Has a ritual made for each relic that is created, by a pool that does not work.
fn swept(city: &mut City) {
    city.retention.events = Some(DAY);
    let ritual = Ritual {
        name: "sweep".parse().unwrap(),
        description: "Sweep".into(),
        file: None,
        vars: BTreeMap::new(),
        steps: Vec::new(),
    };
    city.automations = vec![Automation {
        id: "sweep".parse().unwrap(),
        description: String::new(),
        action: Action::Ritual(RitualAction {
            ritual: ritual.name.clone(),
            rig: rig(),
            pool: Some("crew".parse().unwrap()),
            vars: BTreeMap::new(),
        }),
        gate: Gate::Event {
            on: Pattern::parse("relic.created").unwrap(),
        },
        timeout: MINUTE,
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    }];
    city.rituals.insert(ritual.name.clone(), ritual);
}

/// Work of a ritual that is never finished holds back the events that its automation runs for next, and no others.
#[tokio::test(start_paused = true)]
async fn unfinished_work_of_a_ritual_keeps_a_bounded_number_of_events() {
    let city = scenario().with(swept).start().await;
    let journal = async |kind: EventType, times: usize| {
        let event = NewEvent::new(kind, "gt-999", Cause::Operator);
        let record = move |txn: &mut dyn Txn| {
            (0..times).try_for_each(|_| txn.record(&event).map(drop))?;
            txn.last_seq()
        };
        city.store(record).await
    };
    journal(EventType::RelicCreated, 1).await;
    city.pass(HOUR).await;
    let fired = city.events(EventType::AutomationFired).await;
    assert_eq!(fired.len(), 1, "{fired:?}");
    journal(EventType::RelicCreated, 3).await;
    let newest = journal(EventType::RelicUpdated, 1).await;
    city.pass(2 * DAY).await;
    let kept = city.events(EventType::RelicCreated).await;
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(first(&city).await > newest);
    assert_eq!(city.events(EventType::RelicUpdated).await, []);
    // No more wait than the gate allows, though it opens for none of them.
    journal(EventType::RelicCreated, 1200).await;
    city.pass(2 * HOUR).await;
    let skipped = city.events(EventType::AutomationSkipped).await;
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0].data["events"], 203);
    city.pass(2 * DAY).await;
    assert_eq!(city.events(EventType::RelicCreated).await.len(), 1000);
}

/// A cursor may name a deleted event.
#[tokio::test(start_paused = true)]
async fn cursor_goes_on_behind_pruned_events() {
    let quick = Automation {
        id: "quick".parse().unwrap(),
        description: String::new(),
        action: Action::Exec("quick".into()),
        gate: Gate::Event {
            on: Pattern::parse("relic.created").unwrap(),
        },
        timeout: MINUTE,
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    };
    let city = scenario().with(|city| {
        city.retention.events = Some(DAY);
        city.automations = vec![quick];
    });
    let city = city.start().await;
    journal_events(&city, 1).await;
    city.pass(3 * DAY).await;
    assert_eq!(city.events(EventType::RelicCreated).await, []);
    journal_events(&city, 1).await;
    city.settle().await;
    assert_eq!(city.parts.runner.started("quick").len(), 2);
}
