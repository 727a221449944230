//! Automations that make work instead of running a command.

use std::collections::BTreeMap;

use super::*;
use crate::actors::records::{agent_hooks, escalations};
use crate::domain::asker::Asker;
use crate::domain::automation::{Action, RitualAction, RunState};
use crate::domain::ids::RelicId;
use crate::domain::message::Escalation;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::domain::ritual::{Ritual, RitualStep};
use crate::ports::relics::{RelicFilter, Txn};
use crate::testing::world::raider;

fn tidy(gate: Gate, pool: Option<&str>) -> Automation {
    let mut automation = automation("tidy", gate);
    automation.action = Action::Ritual(RitualAction {
        ritual: "sweep".parse().unwrap(),
        rig: "horde".parse().unwrap(),
        pool: pool.map(|pool| pool.parse().unwrap()),
        vars: BTreeMap::from([("place".to_owned(), "the attic".to_owned())]),
    });
    automation
}

fn scenario(automation: Automation) -> Scenario {
    let ritual = Ritual {
        name: "sweep".parse().unwrap(),
        description: "Sweep the city".into(),
        file: None,
        vars: BTreeMap::from([("place".to_owned(), None)]),
        steps: vec![RitualStep {
            id: "sweep".parse().unwrap(),
            title: "Sweep {{place}}".into(),
            body: String::new(),
            needs: Vec::new(),
            fresh_session: false,
        }],
    };
    city(&[automation]).with(|city| {
        city.rituals.insert(ritual.name.clone(), ritual);
    })
}

async fn tasks(test_city: &TestCity) -> Vec<Relic> {
    let filter = RelicFilter {
        kind: Some(RelicKind::Task),
        ..RelicFilter::default()
    };
    test_city.store(move |txn| txn.relics(&filter)).await
}

async fn close(test_city: &TestCity, id: RelicId) {
    test_city
        .store(move |txn| {
            let mut relic = txn.relic(&id)?;
            relic.status = RelicStatus::Closed;
            txn.put_relic(&relic)
        })
        .await;
}

/// `contract.md`, 2.2: the relic is charged to a free slot, also where the rig does not charge automatically.
#[tokio::test(start_paused = true)]
async fn a_ritual_is_charged_to_a_free_slot() {
    let test_city = scenario(tidy(Gate::Manual, None)).start().await;
    let (run, _) = by_hand(&test_city, "tidy").await.unwrap();
    test_city.pass(secs(31)).await;
    let relic = tasks(&test_city).await.pop().unwrap();
    assert_eq!(
        (&*relic.title, relic.status),
        ("Sweep the city", RelicStatus::Hooked)
    );
    assert_eq!(relic.by.as_deref(), Some("automation/tidy"));
    assert!(relic.labels.is_empty(), "{relic:?}");
    let step = RelicId::new(format!("{}.1", relic.id)).unwrap();
    let step = test_city.relic_now(&step).await;
    assert_eq!(
        (&*step.title, step.kind),
        ("Sweep the attic", RelicKind::Step)
    );
    let ended = test_city
        .events(EventType::AutomationCompleted)
        .await
        .pop()
        .unwrap();
    assert_eq!(ended.data["relic"], relic.id.as_str());
    let runs = test_city.store(|txn| txn.runs(None, 9)).await;
    assert_eq!((runs[0].id, runs[0].state), (run.id, RunState::Completed));
}

/// The work is charged until it is closed: a nuke of its raider gives it to another one. A closed relic is forgotten.
#[tokio::test(start_paused = true)]
async fn the_work_of_an_automation_is_charged_again_after_a_nuke() {
    let test_city = scenario(tidy(Gate::Manual, None)).start().await;
    by_hand(&test_city, "tidy").await.unwrap();
    test_city.pass(secs(31)).await;
    let toast = raider("Toast");
    let first = test_city.hook(&toast).await.unwrap();
    test_city.nuke(&toast, true).await.unwrap();
    test_city.pass(secs(31)).await;
    let second = test_city.hook(&toast).await.unwrap();
    assert_eq!(second.relic, first.relic);
    assert!(second.incarnation > first.incarnation);
    close(&test_city, second.relic).await;
    test_city.world.nudge("horde/witness");
    test_city.settle().await;
    let marks = |txn: &mut dyn Txn| txn.key_values_under("automation-work/");
    assert!(test_city.store(marks).await.is_empty());
}

/// Labels are free words: an issue that carries `automation` is not charged where the rig does not charge automatically.
#[tokio::test(start_paused = true)]
async fn a_label_does_not_have_a_relic_charged() {
    let test_city = scenario(tidy(Gate::Manual, None)).start().await;
    let relic = test_city.relic("imported").await;
    let mut labelled = test_city.relic_now(&relic).await;
    labelled.labels = vec!["automation".to_owned()];
    test_city.store(move |txn| txn.put_relic(&labelled)).await;
    test_city.world.nudge("horde/witness");
    test_city.pass(secs(31)).await;
    assert_eq!(test_city.relic_now(&relic).await.status, RelicStatus::Open);
}

#[tokio::test(start_paused = true)]
async fn a_ritual_for_a_pool_is_assigned_to_it_and_not_charged() {
    let test_city = scenario(tidy(Gate::Manual, Some("crew"))).start().await;
    by_hand(&test_city, "tidy").await.unwrap();
    test_city.pass(secs(31)).await;
    let relic = tasks(&test_city).await.pop().unwrap();
    assert_eq!(
        (relic.assignee.as_deref(), relic.status),
        (Some("crew"), RelicStatus::Open)
    );
}

/// Work of an automation does not pile up while it is not finished: the next run waits for the end of the last relic.
#[tokio::test(start_paused = true)]
async fn the_next_run_waits_until_the_last_relic_is_closed() {
    for gate in [cooldown(60), cron("* * * * *", CatchUp::None)] {
        let skips = matches!(gate, Gate::Cron { .. });
        let test_city = scenario(tidy(gate, Some("crew"))).start().await;
        test_city.pass(secs(200)).await;
        let made = tasks(&test_city).await;
        assert_eq!(made.len(), 1);
        let skipped = causes(&test_city, EventType::AutomationSkipped).await;
        assert_eq!(
            skipped.contains(&"still_running".to_owned()),
            skips,
            "{skipped:?}"
        );
        close(&test_city, made[0].id.clone()).await;
        test_city.pass(secs(91)).await;
        assert_eq!(tasks(&test_city).await.len(), 2);
    }
}

/// `contract.md`, 2.2: an automation never fires on its own events; nor on those of the work that it made, or it would
/// make work without end.
#[tokio::test(start_paused = true)]
async fn events_about_its_own_work_make_no_more_work() {
    let test_city = scenario(tidy(event("relic.*"), Some("crew"))).start().await;
    made(&test_city, "gt-101").await;
    test_city.pass(secs(31)).await;
    let first = tasks(&test_city).await.pop().unwrap();
    close(&test_city, first.id.clone()).await;
    let event = NewEvent::new(EventType::RelicClosed, &first.id, Cause::Operator);
    test_city
        .store(move |txn| txn.record(&event).map(drop))
        .await;
    test_city.pass(secs(91)).await;
    assert_eq!(tasks(&test_city).await.len(), 1);
    made(&test_city, "gt-102").await;
    test_city.pass(secs(31)).await;
    assert_eq!(tasks(&test_city).await.len(), 2);
}

/// A session is about the work on its raider's hook, also when it is read after the end of that work.
#[tokio::test(start_paused = true)]
async fn sessions_of_automated_work_make_no_more_work() {
    let test_city = scenario(tidy(event("agent.started"), None)).start().await;
    let first = NewEvent::new(EventType::AgentStarted, "clerk", Cause::Config);
    test_city
        .store(move |txn| txn.record(&first).map(drop))
        .await;
    test_city.pass(secs(31)).await;
    let relic = tasks(&test_city).await.pop().unwrap();
    let started = test_city.events(EventType::AgentStarted).await;
    let session = started
        .iter()
        .find(|event| event.subject == "horde/raiders/Toast");
    assert_eq!(session.unwrap().data["relic"], relic.id.as_str());
    test_city.nuke(&raider("Toast"), true).await.unwrap();
    close(&test_city, relic.id).await;
    test_city.pass(secs(91)).await;
    assert_eq!(tasks(&test_city).await.len(), 1);
}

/// An escalation of an agent is about the work on its hook.
#[tokio::test(start_paused = true)]
async fn escalations_of_automated_work_make_no_more_work() {
    let automation = tidy(event("escalation.raised"), Some("crew"));
    let test_city = scenario(automation).start().await;
    by_hand(&test_city, "tidy").await.unwrap();
    let relic = tasks(&test_city).await.pop().unwrap();
    test_city
        .store(|txn| {
            let (member, pool) = ("crew-1".parse().unwrap(), "crew".parse().unwrap());
            let asker = Asker::agent("crew-1");
            agent_hooks::take(txn, &member, Some(&pool), &asker)?;
            let body = Escalation::high("crew-1", ProblemKind::AgentStuck, "no way on");
            escalations::report(txn, "crew-1", &body)
        })
        .await;
    test_city.world.nudge("shaman");
    test_city.pass(secs(31)).await;
    let raised = test_city.events(EventType::EscalationRaised).await;
    assert_eq!(raised[0].data["relic"], relic.id.as_str());
    close(&test_city, relic.id).await;
    test_city.pass(secs(91)).await;
    assert_eq!(tasks(&test_city).await.len(), 1);
}

/// Two automations do not fire on each other's work.
#[tokio::test(start_paused = true)]
async fn work_of_another_automation_makes_no_work() {
    let mut other = tidy(event("relic.created"), Some("crew"));
    other.id = "other".parse().unwrap();
    let scenario = scenario(tidy(Gate::Manual, Some("crew")));
    let test_city = scenario
        .with(|city| city.automations.push(other))
        .start()
        .await;
    by_hand(&test_city, "tidy").await.unwrap();
    test_city.pass(secs(61)).await;
    assert_eq!(tasks(&test_city).await.len(), 1);
    made(&test_city, "gt-101").await;
    test_city.pass(secs(31)).await;
    assert_eq!(tasks(&test_city).await.len(), 2);
}

/// A run that can never make its work is on record as failed, and does not hold up the gate.
#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_make_its_work_fails_once() {
    let mut automation = tidy(event("relic.created"), Some("crew"));
    automation.description = "x".repeat(5000);
    let scenario = scenario(automation).with(|city| {
        for ritual in city.rituals.values_mut() {
            ritual.steps[0].title = "Do {{title}}".into();
        }
    });
    let test_city = scenario.start().await;
    made(&test_city, "gt-101").await;
    test_city.pass(secs(91)).await;
    let failed = test_city.events(EventType::AutomationFailed).await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    let why = failed[0].data["tail"].as_str().unwrap_or_default();
    assert!(why.contains("longer than"), "{why}");
    assert!(tasks(&test_city).await.is_empty());
    let runs = test_city.store(|txn| txn.runs(None, 9)).await;
    assert_eq!((runs.len(), runs[0].state), (1, RunState::Failed));
}

/// Each event fires once, in order; one that comes while the last relic is open waits.
#[tokio::test(start_paused = true)]
async fn events_wait_for_the_end_of_the_last_relic_and_are_shown_as_data() {
    let test_city = scenario(tidy(event("relic.updated"), Some("crew")))
        .start()
        .await;
    for relic in ["gt-101", "gt-102"] {
        let event = NewEvent::new(EventType::RelicUpdated, relic, Cause::Operator);
        test_city
            .store(move |txn| txn.record(&event).map(drop))
            .await;
    }
    test_city.pass(secs(31)).await;
    let made = tasks(&test_city).await;
    assert_eq!(made.len(), 1);
    assert!(
        made[0].body.contains("\"subject\": \"gt-101\""),
        "{}",
        made[0].body
    );
    assert!(made[0].body.contains("not instructions"));
    close(&test_city, made[0].id.clone()).await;
    test_city.pass(secs(31)).await;
    let mut made = tasks(&test_city).await;
    assert_eq!(made.len(), 2);
    made.retain(|relic| relic.status == RelicStatus::Open);
    assert!(
        made[0].body.contains("\"subject\": \"gt-102\""),
        "{}",
        made[0].body
    );
}
