//! A wall clock that jumps: nothing ends early or late, and nothing is restarted for it.

use crate::actors::mail::RootMail;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::records::escalations::{self, Ends};
use crate::actors::store::StoreHandle;
use crate::domain::city::{City, RestartType};
use crate::domain::event::EventType;
use crate::domain::ids::SessionId;
use crate::domain::message::Severity;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::SagaKind;
use crate::ports::repo::RepoError;
use crate::testing::jumpy_clock::JumpyClock;
use crate::testing::records;
use crate::testing::world::{Scenario, TestCity, agent, rig};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: i64 = 3600;

/// Starts a city whose wall clock can be set.
async fn jumpy(scenario: Scenario) -> (TestCity, Arc<JumpyClock>) {
    let city = Scenario::new().start().await;
    let clock = JumpyClock::on(city.world.clock.clone());
    let mut parts = city.crash().await;
    parts.store = StoreHandle::in_memory(clock.clone());
    let city = scenario.start_on(parts, clock.clone()).await;
    (city, clock)
}

/// Has the session print now, and the root look.
async fn active(city: &TestCity, session: &SessionId) {
    let now = Some(city.world.clock.now());
    city.parts.sessions.set_last_activity(session, now);
    city.send_to_root(RootMail::Look).unwrap();
    city.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_makes_no_session_idle_before_its_time_or_after() {
    for jump in [HOUR, -HOUR] {
        let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
        let scenario = scenario.with(|city| {
            city.agents[0].idle_timeout = Some(SECOND * 100);
            city.daemon.patrol_interval = SECOND * 10;
        });
        let (city, clock) = jumpy(scenario).await;
        let session = city.session(&agent("mayor"));
        active(&city, &session).await;
        city.pass(SECOND * 40).await;
        clock.jump(jump);
        city.pass(SECOND * 40).await;
        assert_eq!(city.starts(&session), 1, "silent for 80 s ({jump})");
        // Activity after the jump has the new time.
        active(&city, &session).await;
        city.pass(SECOND * 80).await;
        assert_eq!(city.starts(&session), 1, "silent for 80 s ({jump})");
        city.pass(SECOND * 40).await;
        assert_eq!(city.starts(&session), 2, "silent for 100 s ({jump})");
        assert!(city.events(EventType::AgentCrashed).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn jump_of_the_wall_clock_ends_no_quarantine_and_restarts_no_child() {
    for jump in [HOUR, -HOUR] {
        let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
        let scenario = scenario.agent("crew", RestartType::Permanent).with(|city| {
            city.daemon.restart.max_restarts = 1;
            city.daemon.restart.window = SECOND * 600;
        });
        let (city, clock) = jumpy(scenario).await;
        let (session, other) = (city.session(&agent("mayor")), city.session(&agent("crew")));
        for _ in 0..2 {
            city.parts.sessions.crash(&session, 9);
            city.pass(SECOND * 40).await;
        }
        assert!(!city.runs(&session), "quarantined");
        clock.jump(jump);
        city.pass(SECOND * 460).await;
        assert!(!city.runs(&session), "until the window has passed ({jump})");
        city.pass(SECOND * 100).await;
        assert!(city.runs(&session), "and no longer ({jump})");
        assert_eq!(city.starts(&other), 1);
    }
}

/// `done_intent_timeout`: no task can continue the completion, and the clock is set meanwhile.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_makes_no_completion_overdue_before_its_time_or_after() {
    for jump in [HOUR, -HOUR] {
        let scenario = Scenario::new().rig(|rig| {
            rig.witness.done_intent_timeout = SECOND * 300;
        });
        let (city, clock) = jumpy(scenario).await;
        let charged = city.worker("a").await;
        let subject = charged.raider.to_string();
        // Written by another version.
        let intent = serde_json::Value::Null;
        city.store(move |txn| txn.open_saga(SagaKind::Done, &rig(), &subject, "intent", &intent))
            .await;
        city.pass(SECOND * 40).await;
        clock.jump(jump);
        city.pass(SECOND * 240).await;
        let early = city.events(EventType::RaiderZombie).await;
        assert!(early.is_empty(), "silent for 280 s ({jump}): {early:?}");
        city.pass(SECOND * 60).await;
        let stuck = city.events(EventType::RaiderZombie).await;
        assert_eq!(stuck.len(), 1, "silent for 340 s ({jump})");
    }
}

/// `[notify] reraise`: people were told, and the clock is set meanwhile.
#[tokio::test(start_paused = true)]
async fn jump_of_the_wall_clock_does_not_change_when_an_escalation_is_raised_again() {
    for jump in [HOUR, -HOUR] {
        let reraise = |city: &mut City| city.notify.reraise = Some(SECOND * 600);
        let (city, clock) = jumpy(Scenario::new().with(reraise)).await;
        let call = records::call("mayor", "no key", Severity::Low);
        escalations::call(&city.world, "mayor", Ends::WithWork, call)
            .await
            .unwrap();
        city.pass(SECOND * 40).await;
        clock.jump(jump);
        for (seconds, raised) in [(500, 1), (120, 2), (500, 2), (120, 3)] {
            city.pass(SECOND * seconds).await;
            let all = city.events(EventType::EscalationRaised).await;
            assert_eq!(all.len(), raised, "{jump}, {seconds}");
        }
    }
}

/// A merge request that waits because of infrastructure, and the clock is set meanwhile.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_holds_no_merge_request() {
    for jump in [HOUR, -HOUR] {
        let (city, clock) = jumpy(Scenario::new()).await;
        city.parts
            .repo
            .fail("land", RepoError::Remote("away".into()));
        let charged = city.worker("a").await;
        city.completed(&charged.raider).await.unwrap();
        city.settle().await;
        let mr = city.mr(&charged.relic).await.unwrap();
        assert!(mr.not_before.is_some(), "parked for 10 s ({jump})");
        clock.jump(jump);
        city.pass(SECOND * 31).await;
        let relic = city.relic_now(&charged.relic).await;
        assert_eq!(relic.status, RelicStatus::Closed, "{jump}");
    }
}
