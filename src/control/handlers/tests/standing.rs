//! Orders of an operator about children (suspend, rest): they outlive the supervisor, can be revoked, and hold wherever
//! a session would start.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask};
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::control::protocol::ErrorKind;
use crate::domain::city::{Pool, RestartType};
use crate::domain::ids::ChildId;
use crate::domain::reload::Change;
use crate::testing::world::{Scenario, TestCity, agent, raider};

const SECOND: Duration = Duration::from_secs(1);

async fn command(city: &TestCity, op: &str, name: &str) -> Value {
    ask(city, op, json!({ "name": name })).await.unwrap()
}

/// Kills the supervisor and makes a successor from the same configuration.
async fn restarted(city: TestCity, scenario: Scenario) -> TestCity {
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    scenario.start_on(parts, clock).await
}

/// A city whose raider Toast is suspended.
async fn suspended() -> (TestCity, Charged) {
    let (city, charged) = Scenario::at_work().await;
    command(&city, "raider.suspend", "Toast").await;
    city.pass(PATROL).await;
    assert!(!city.runs(&charged.session));
    (city, charged)
}

#[tokio::test(start_paused = true)]
async fn a_suspended_raider_is_resumed_after_a_restart() {
    let (city, charged) = suspended().await;
    let city = restarted(city, Scenario::new()).await;
    let shown = command(&city, "raider.show", "Toast").await;
    assert_eq!(shown["suspended"], true);
    command(&city, "raider.resume", "Toast").await;
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
    let shown = command(&city, "raider.show", "Toast").await;
    assert_eq!(shown["suspended"], false);
}

fn pool() -> Scenario {
    let scenario = Scenario::new().agent("worker", RestartType::Permanent);
    scenario.with(|city| {
        city.agents[0].pool = Some(Pool {
            min: 2,
            max: 3,
            check: None,
            check_interval: SECOND * 5,
            drain_timeout: SECOND * 20,
        });
    })
}

fn members(city: &TestCity) -> Vec<u32> {
    let runs = |number: &u32| {
        let id = agent(&format!("worker-{number}"));
        city.runs(&city.session(&id))
    };
    (1..=5).filter(runs).collect()
}

/// A stopped or suspended member of a pool is replaced, before a restart and after it, and the order can be revoked.
#[tokio::test(start_paused = true)]
async fn a_pool_does_without_the_members_that_a_person_laid_to_rest() {
    for (rest, undo) in [
        ("agent.stop", "agent.start"),
        ("agent.suspend", "agent.resume"),
    ] {
        let city = pool().start().await;
        assert_eq!(members(&city), [1, 2]);
        command(&city, rest, "worker-2").await;
        city.pass(PATROL).await;
        assert_eq!(members(&city), [1, 3], "{rest}");
        let city = restarted(city, pool()).await;
        city.pass(PATROL).await;
        assert_eq!(members(&city), [1, 3], "{rest}, restarted");
        let listed = ask(&city, "agent.list", json!({})).await.unwrap();
        let listed = listed.as_array().unwrap().iter();
        let names: Vec<_> = listed.map(|agent| agent["name"].clone()).collect();
        assert_eq!(names, ["worker-1", "worker-2", "worker-3"]);
        command(&city, rest, "worker-3").await;
        city.pass(PATROL).await;
        assert_eq!(members(&city), [1], "{rest}: no more than `max`");
        command(&city, undo, "worker-2").await;
        city.pass(PATROL).await;
        assert_eq!(members(&city), [1, 2], "{undo}");
        let unknown = ask(&city, undo, json!({ "name": "worker-9" })).await;
        assert_eq!(unknown.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspension_goes_with_its_raider() {
    let (city, charged) = suspended().await;
    city.nuke(&charged.raider, true).await.unwrap();
    let next = city.worker("b").await;
    assert_eq!(next.raider, charged.raider, "the name is free again");
    city.pass(PATROL).await;
    assert!(city.runs(&next.session));
}

/// The look that was to resume the child does not know yet of its stop.
#[tokio::test(start_paused = true)]
async fn a_stop_is_not_undone_by_a_resume_before_it() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let (city, id) = (city.start().await, agent("mayor"));
    command(&city, "agent.suspend", "mayor").await;
    city.pass(PATROL).await;
    city.parts.sessions.hold_lists(true);
    command(&city, "agent.resume", "mayor").await;
    let looks = || city.parts.sessions.lists_held() > 0;
    city.until("the look", looks).await;
    command(&city, "agent.stop", "mayor").await;
    city.parts.sessions.hold_lists(false);
    city.pass(PATROL).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Stopped));
    assert_eq!(city.starts(&city.session(&id)), 1);
}

#[tokio::test(start_paused = true)]
async fn the_repair_of_a_suspended_raider_starts_no_session() {
    let (city, charged) = suspended().await;
    command(&city, "raider.repair", "Toast").await;
    assert_eq!(city.starts(&charged.session), 1);
    city.pass(PATROL).await;
    assert_eq!(city.starts(&charged.session), 1);
    command(&city, "raider.resume", "Toast").await;
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
    city.reload(|city| city.rigs[0].suspended = true).await;
    city.pass(PATROL).await;
    command(&city, "raider.repair", "Toast").await;
    assert_eq!(city.starts(&charged.session), 2, "by configuration");
    city.reload(|city| city.rigs[0].suspended = false).await;
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
    let held = ChildId::Raider(raider("Toast"));
    assert_eq!(city.state(&held).await, Some(ChildState::Running));
}

/// A reload reports `start` only for agents that it starts.
#[tokio::test(start_paused = true)]
async fn reload_does_not_start_resting_or_suspended_children() {
    let city = Scenario::new()
        .agent("doomed", RestartType::Permanent)
        .agent("dying", RestartType::Permanent)
        .agent("ended", RestartType::Transient)
        .agent("resting", RestartType::Permanent)
        .agent("suspended", RestartType::Permanent);
    let city = city.start().await;
    while city.state(&agent("doomed")).await != Some(ChildState::Quarantined) {
        city.parts
            .sessions
            .crash(&city.session(&agent("doomed")), 9);
        city.pass(SECOND * 10).await;
    }
    city.parts.sessions.exit(&city.session(&agent("ended")), 0);
    command(&city, "agent.stop", "resting").await;
    command(&city, "agent.suspend", "suspended").await;
    city.pass(SECOND).await;
    while city.state(&agent("dying")).await != Some(ChildState::Backoff) {
        let dying = city.session(&agent("dying"));
        city.parts.sessions.crash(&dying, 9);
        city.settle().await;
    }
    let changes = city.reload(|_| {}).await;
    assert_eq!(changes.len(), 5);
    for change in changes {
        assert_eq!(change.action, Change::None, "{}", change.agent);
    }
}

/// Members of a suspended pool (by a person or by the configuration) say so, and none can be started on its own.
#[tokio::test(start_paused = true)]
async fn members_of_a_suspended_pool_are_suspended() {
    for said in [true, false] {
        let city = pool().start().await;
        if said {
            command(&city, "agent.suspend", "worker").await;
        } else {
            city.reload(|city| city.agents[0].suspended = true).await;
        }
        city.pass(PATROL).await;
        let listed = ask(&city, "agent.list", json!({})).await.unwrap();
        for agent in listed.as_array().unwrap() {
            assert_eq!(agent["state"], "suspended", "{agent}");
        }
        let started = ask(&city, "agent.start", json!({ "name": "worker-1" })).await;
        assert_eq!(started.unwrap_err().kind, ErrorKind::Conflict);
        assert!(members(&city).is_empty());
    }
}

/// A rig that was removed while a raider worked is gone after a restart: operations that need it say so.
#[tokio::test(start_paused = true)]
async fn operation_on_a_removed_rig_says_how_the_rig_comes_back() {
    let city = Scenario::new().start().await;
    city.worker("a").await;
    let city = restarted(city, Scenario::new().with(|city| city.rigs.clear())).await;
    for (op, args) in [
        ("raider.repair", json!({ "name": "Toast", "yes": true })),
        ("raider.nuke", json!({ "name": "Toast", "yes": true })),
        ("raider.nuke", json!({ "name": "Toast", "dry_run": true })),
        ("raider.show", json!({ "name": "Toast" })),
    ] {
        let refused = ask(&city, op, args).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{op}: {refused}");
        let says = "rig horde is no longer configured";
        assert!(refused.message.contains(says), "{op}: {refused}");
        assert!(refused.hint.unwrap().contains("city.toml"), "{op}");
    }
}
