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
use crate::testing::world::{Scenario, Town, agent, raider};

const SECOND: Duration = Duration::from_secs(1);

async fn command(town: &Town, op: &str, name: &str) -> Value {
    ask(town, op, json!({ "name": name })).await.unwrap()
}

/// Kills the supervisor and makes a successor from the same configuration.
async fn restarted(town: Town, scenario: Scenario) -> Town {
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    scenario.start_on(parts, clock).await
}

/// A town whose raider Toast is suspended.
async fn suspended() -> (Town, Charged) {
    let (town, charged) = Scenario::at_work().await;
    command(&town, "raider.suspend", "Toast").await;
    town.pass(PATROL).await;
    assert!(!town.runs(&charged.session));
    (town, charged)
}

#[tokio::test(start_paused = true)]
async fn a_suspended_raider_is_resumed_after_a_restart() {
    let (town, charged) = suspended().await;
    let town = restarted(town, Scenario::new()).await;
    let shown = command(&town, "raider.show", "Toast").await;
    assert_eq!(shown["suspended"], true);
    command(&town, "raider.resume", "Toast").await;
    town.pass(PATROL).await;
    assert!(town.runs(&charged.session));
    let shown = command(&town, "raider.show", "Toast").await;
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

fn members(town: &Town) -> Vec<u32> {
    let runs = |number: &u32| {
        let id = agent(&format!("worker-{number}"));
        town.runs(&town.session(&id))
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
        let town = pool().start().await;
        assert_eq!(members(&town), [1, 2]);
        command(&town, rest, "worker-2").await;
        town.pass(PATROL).await;
        assert_eq!(members(&town), [1, 3], "{rest}");
        let town = restarted(town, pool()).await;
        town.pass(PATROL).await;
        assert_eq!(members(&town), [1, 3], "{rest}, restarted");
        let listed = ask(&town, "agent.list", json!({})).await.unwrap();
        let listed = listed.as_array().unwrap().iter();
        let names: Vec<_> = listed.map(|agent| agent["name"].clone()).collect();
        assert_eq!(names, ["worker-1", "worker-2", "worker-3"]);
        command(&town, rest, "worker-3").await;
        town.pass(PATROL).await;
        assert_eq!(members(&town), [1], "{rest}: no more than `max`");
        command(&town, undo, "worker-2").await;
        town.pass(PATROL).await;
        assert_eq!(members(&town), [1, 2], "{undo}");
        let unknown = ask(&town, undo, json!({ "name": "worker-9" })).await;
        assert_eq!(unknown.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspension_goes_with_its_raider() {
    let (town, charged) = suspended().await;
    town.nuke(&charged.raider, true).await.unwrap();
    let next = town.worker("b").await;
    assert_eq!(next.raider, charged.raider, "the name is free again");
    town.pass(PATROL).await;
    assert!(town.runs(&next.session));
}

/// The look that was to resume the child does not know yet of its stop.
#[tokio::test(start_paused = true)]
async fn a_stop_is_not_undone_by_a_resume_before_it() {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let (town, id) = (town.start().await, agent("mayor"));
    command(&town, "agent.suspend", "mayor").await;
    town.pass(PATROL).await;
    town.parts.sessions.hold_lists(true);
    command(&town, "agent.resume", "mayor").await;
    let looks = || town.parts.sessions.lists_held() > 0;
    town.until("the look", looks).await;
    command(&town, "agent.stop", "mayor").await;
    town.parts.sessions.hold_lists(false);
    town.pass(PATROL).await;
    assert_eq!(town.state(&id).await, Some(ChildState::Stopped));
    assert_eq!(town.starts(&town.session(&id)), 1);
}

#[tokio::test(start_paused = true)]
async fn the_repair_of_a_suspended_raider_starts_no_session() {
    let (town, charged) = suspended().await;
    command(&town, "raider.repair", "Toast").await;
    assert_eq!(town.starts(&charged.session), 1);
    town.pass(PATROL).await;
    assert_eq!(town.starts(&charged.session), 1);
    command(&town, "raider.resume", "Toast").await;
    town.pass(PATROL).await;
    assert!(town.runs(&charged.session));
    town.reload(|city| city.rigs[0].suspended = true).await;
    town.pass(PATROL).await;
    command(&town, "raider.repair", "Toast").await;
    assert_eq!(town.starts(&charged.session), 2, "by configuration");
    town.reload(|city| city.rigs[0].suspended = false).await;
    town.pass(PATROL).await;
    assert!(town.runs(&charged.session));
    let held = ChildId::Raider(raider("Toast"));
    assert_eq!(town.state(&held).await, Some(ChildState::Running));
}

/// A reload reports `start` only for agents that it starts.
#[tokio::test(start_paused = true)]
async fn reload_does_not_start_resting_or_suspended_children() {
    let town = Scenario::new()
        .agent("doomed", RestartType::Permanent)
        .agent("dying", RestartType::Permanent)
        .agent("ended", RestartType::Transient)
        .agent("resting", RestartType::Permanent)
        .agent("suspended", RestartType::Permanent);
    let town = town.start().await;
    while town.state(&agent("doomed")).await != Some(ChildState::Quarantined) {
        town.parts
            .sessions
            .crash(&town.session(&agent("doomed")), 9);
        town.pass(SECOND * 10).await;
    }
    town.parts.sessions.exit(&town.session(&agent("ended")), 0);
    command(&town, "agent.stop", "resting").await;
    command(&town, "agent.suspend", "suspended").await;
    town.pass(SECOND).await;
    while town.state(&agent("dying")).await != Some(ChildState::Backoff) {
        let dying = town.session(&agent("dying"));
        town.parts.sessions.crash(&dying, 9);
        town.settle().await;
    }
    let changes = town.reload(|_| {}).await;
    assert_eq!(changes.len(), 5);
    for change in changes {
        assert_eq!(change.action, Change::None, "{}", change.agent);
    }
}

/// Members of a suspended pool (by a person or by the configuration) say so, and none can be started on its own.
#[tokio::test(start_paused = true)]
async fn members_of_a_suspended_pool_are_suspended() {
    for said in [true, false] {
        let town = pool().start().await;
        if said {
            command(&town, "agent.suspend", "worker").await;
        } else {
            town.reload(|city| city.agents[0].suspended = true).await;
        }
        town.pass(PATROL).await;
        let listed = ask(&town, "agent.list", json!({})).await.unwrap();
        for agent in listed.as_array().unwrap() {
            assert_eq!(agent["state"], "suspended", "{agent}");
        }
        let started = ask(&town, "agent.start", json!({ "name": "worker-1" })).await;
        assert_eq!(started.unwrap_err().kind, ErrorKind::Conflict);
        assert!(members(&town).is_empty());
    }
}

/// A rig that was removed while a raider worked is gone after a restart: operations that need it say so.
#[tokio::test(start_paused = true)]
async fn operation_on_a_removed_rig_says_how_the_rig_comes_back() {
    let town = Scenario::new().start().await;
    town.worker("a").await;
    let town = restarted(town, Scenario::new().with(|city| city.rigs.clear())).await;
    for (op, args) in [
        ("raider.repair", json!({ "name": "Toast", "yes": true })),
        ("raider.nuke", json!({ "name": "Toast", "yes": true })),
        ("raider.nuke", json!({ "name": "Toast", "dry_run": true })),
        ("raider.show", json!({ "name": "Toast" })),
    ] {
        let refused = ask(&town, op, args).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{op}: {refused}");
        let says = "rig horde is no longer configured";
        assert!(refused.message.contains(says), "{op}: {refused}");
        assert!(refused.hint.unwrap().contains("city.toml"), "{op}");
    }
}
