//! Faults of the supervisor's own files, as found by the last look: reported once by an event, a log line and an
//! escalation, and shown by `status` and `doctor` as long as they last.

use serde_json::json;

use super::boards::Changed;
use super::world::World;
use crate::actors::records::escalations::{self, Ends};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ground::{FileFault, Look, Part};
use crate::domain::message::{self, Escalation, Severity};
use crate::ports::relics::Txn;

/// Merges a look at the supervisor's files, and reports what changed.
pub async fn looked(world: &World, look: Look) {
    let Changed {
        new,
        calls,
        over,
        replaced,
    } = world.directory.ground.take(&look);
    for trouble in look.mended.iter().chain(&over) {
        let (path, says) = (trouble.path.display(), &trouble.says);
        tracing::warn!(%path, says, "one of the supervisor's own files is repaired");
        journal_fault(world, EventType::GroundMended, trouble);
    }
    for trouble in &new {
        let (path, says, hint) = (trouble.path.display(), &trouble.says, &trouble.hint);
        tracing::error!(
            %path,
            says,
            hint,
            "a file that the supervisor needs, or a rig, is not usable"
        );
        journal_fault(world, EventType::GroundLost, trouble);
    }
    let settled = [over, replaced].concat();
    if !settled.is_empty()
        && let Err(error) = close_escalations(world, settled).await
    {
        tracing::warn!(
            %error,
            "the escalations about the repaired files could not be closed; they stay open"
        );
    }
    for trouble in calls {
        if let Err(error) = call(world, &trouble).await {
            let path = trouble.path.display();
            tracing::warn!(
                %path,
                %error,
                "the escalation about the supervisor's files could not be stored; the next look \
                retries"
            );
            world.directory.ground.call_failed(&trouble);
        }
    }
}

fn journal_fault(world: &World, kind: EventType, trouble: &FileFault) {
    let data = json!({
        "part": trouble.part, "path": trouble.path, "says": trouble.says, "hint": trouble.hint,
    });
    // `hd why RIG` tells it.
    let rig = trouble
        .path
        .file_name()
        .filter(|_| trouble.part == Part::Rig);
    let subject = rig.map_or(world.city.name.clone(), |rig| {
        rig.to_string_lossy().into_owned()
    });
    let event = NewEvent::new(kind, &subject, Cause::Internal);
    world.store.journal(vec![event.with(data)]);
}

async fn call(world: &World, trouble: &FileFault) -> Result<(), super::refusal::Refusal> {
    let body = Escalation {
        agent: world.city.name.clone(),
        relic: None,
        problem: trouble.problem(),
        severity: match trouble.part {
            // Everything is done all the same, only later.
            Part::Watch => Severity::Medium,
            _ => Severity::High,
        },
        evidence: trouble.hint.clone(),
    };
    escalations::call(world, "root", Ends::WithWork, body).await
}

async fn close_escalations(
    world: &World,
    over: Vec<FileFault>,
) -> Result<(), super::refusal::Refusal> {
    let city = world.city.name.clone();
    let settle = move |txn: &mut dyn Txn| {
        escalations::close_where(txn, |entry| {
            let (problem, is_own) = (entry.problem(), entry.about().0 == city);
            is_own
                && over
                    .iter()
                    .any(|trouble| trouble.problem().is_same(&problem))
        })
    };
    world.store.run(settle).await?;
    world.nudge(message::SHAMAN);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::actors::store::StoreHandle;
    use crate::domain::relic::{Relic, RelicStatus};
    use crate::testing::world::{Parts, Scenario, start_clock};

    fn lost(says: &str) -> Look {
        let mut look = Look::default();
        look.leave(
            Part::Lock,
            "/city/.horde/supervisor.lock",
            says,
            "remove it",
        );
        look
    }

    #[tokio::test(start_paused = true)]
    async fn other_trouble_with_the_same_file_calls_a_person_anew_and_closes_the_call_before() {
        let city = Scenario::new().start().await;
        for says in ["it is a FIFO", "it is a directory", "it is a directory"] {
            looked(&city.world, lost(says)).await;
            city.settle().await;
        }
        let calls = city.escalations().await;
        let calls: Vec<_> = calls.iter().map(|it| (&*it.title, it.status)).collect();
        let path = "/city/.horde/supervisor.lock";
        let (before, now) = (
            format!("{path}: it is a FIFO"),
            format!("{path}: it is a directory"),
        );
        let expected = [(&*now, RelicStatus::Open), (&*before, RelicStatus::Closed)];
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(expected.iter().all(|it| calls.contains(it)), "{calls:?}");
        assert!(city.events(EventType::GroundMended).await.is_empty());
        city.reword().await;
        looked(&city.world, Look::default()).await;
        let open = |relic: &Relic| relic.status != RelicStatus::Closed;
        assert!(!city.escalations().await.iter().any(open));
    }

    #[tokio::test(start_paused = true)]
    async fn call_of_an_agent_about_the_same_file_stays_open_when_the_trouble_is_over() {
        let city = Scenario::new().start().await;
        let world = &city.world;
        looked(world, lost("it is a FIFO")).await;
        let body = Escalation {
            agent: "mayor".to_owned(),
            relic: None,
            problem: lost("mine").left[0].problem(),
            severity: Severity::High,
            evidence: String::new(),
        };
        escalations::call(world, "mayor", Ends::WithWork, body)
            .await
            .unwrap();
        city.settle().await;
        looked(world, Look::default()).await;
        let mut calls = city.escalations().await;
        calls.retain(|relic| relic.status != RelicStatus::Closed);
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert!(calls[0].title.ends_with(": mine"), "{calls:?}");
    }

    /// The disk of the city is full when it is found.
    #[tokio::test(start_paused = true)]
    async fn call_that_could_not_be_stored_is_made_again_and_once() {
        let (clock, full) = (start_clock(), Arc::default());
        let parts = Parts {
            store: StoreHandle::full_while(&clock, &full),
            ..Parts::new(&clock)
        };
        let city = Scenario::new().start_on(parts, clock).await;
        full.store(true, Ordering::SeqCst);
        looked(&city.world, lost("it is a FIFO")).await;
        full.store(false, Ordering::SeqCst);
        assert_eq!(city.escalations().await, []);
        for _ in 0..3 {
            looked(&city.world, lost("it is a FIFO")).await;
            city.settle().await;
            assert_eq!(city.escalations().await.len(), 1);
        }
        assert_eq!(city.events(EventType::EscalationRaised).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_said_once_shown_while_it_lasts_and_settled_when_it_is_over() {
        let city = Scenario::new().start().await;
        let world = &city.world;
        for _ in 0..3 {
            looked(world, lost("it is a FIFO")).await;
        }
        assert_eq!(world.directory.ground.findings().len(), 1);
        assert_eq!(city.events(EventType::GroundLost).await.len(), 1);
        city.settle().await;
        assert_eq!(city.escalations().await.len(), 1, "a person is called");
        looked(world, Look::default()).await;
        assert!(world.directory.ground.findings().is_empty());
        assert_eq!(city.events(EventType::GroundMended).await.len(), 1);
        let open = |relic: &Relic| relic.status != RelicStatus::Closed;
        assert!(!city.escalations().await.iter().any(open));
    }
}
