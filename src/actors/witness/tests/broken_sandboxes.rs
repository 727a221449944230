//! A sandbox that was removed or broken by hand: observed and escalated, nothing more is lost, and a repair ends it.

use super::{GROWN, PATROL, zombies};
use crate::actors::mail::ChildState;
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::repair;
use crate::actors::sandbox_faults;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::repo::RepoError;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity, rig};

async fn homeless(city: &TestCity) -> usize {
    let seen = sandbox_faults::by_raider(&city.world, &rig())
        .await
        .unwrap();
    seen.values().filter(|seen| seen.is_ok()).count()
}

async fn open(city: &TestCity) -> Vec<Relic> {
    let mut open = city.escalations().await;
    open.retain(|it| it.status == RelicStatus::Open);
    open
}

#[tokio::test(start_paused = true)]
async fn sandbox_that_git_cannot_use_is_escalated_once_until_it_is_repaired() {
    let (city, charged) = Scenario::at_work().await;
    let name = &charged.raider.name;
    city.parts.repo.damage(name, "its index is missing");
    city.pass(PATROL * 3).await;
    let called = open(&city).await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert_eq!(called[0].title, "its sandbox is broken");
    let hint = format!(
        "its index is missing; `hd raider repair {}`",
        charged.raider
    );
    assert!(called[0].body.contains(&hint), "{}", called[0].body);
    assert!(
        city.runs(&charged.session),
        "nothing is done to its session"
    );
    // While it cannot be inspected, no escalation is opened or closed.
    let error = RepoError::Failed("input/output error".into());
    city.parts.repo.break_op("ailment", error);
    city.pass(PATROL * 2).await;
    assert_eq!(open(&city).await.len(), 1);
    assert_eq!(homeless(&city).await, 0, "not known is not broken");
    city.parts.repo.mend("ailment");
    // A new session does not change that either.
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL).await;
    assert_eq!(open(&city).await.len(), 1);
    city.reword().await;
    // The rest is removed as well, which is another problem.
    city.parts.repo.lose(name);
    city.pass(PATROL).await;
    let called = open(&city).await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert_eq!(called[0].title, "its sandbox is gone");
    city.reword().await;
    let repaired = repair::run(&city.world, charged.raider.clone()).await;
    repaired.unwrap();
    city.pass(PATROL).await;
    assert!(open(&city).await.is_empty());
}

/// The refusals of a person's nuke and of the agent's completion name the remedy.
#[tokio::test(start_paused = true)]
async fn failure_in_a_broken_sandbox_names_the_repair() {
    let (city, charged) = Scenario::at_work().await;
    let name = &charged.raider.name;
    city.parts.repo.commit(name);
    city.parts.repo.damage(name, "its .git link is broken");
    let refused = city.completed(&charged.raider).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Failed, "{refused}");
    assert_eq!(
        refused.hint.unwrap(),
        format!("`hd raider repair horde/{name}` rebuilds it")
    );
    repair::run(&city.world, charged.raider.clone())
        .await
        .unwrap();
    city.completed(&charged.raider).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sandbox_that_vanished_under_a_session_is_escalated_once_until_it_is_repaired() {
    let (city, charged) = Scenario::at_work().await;
    assert_eq!(homeless(&city).await, 0);
    city.parts.repo.lose(&charged.raider.name);
    city.pass(PATROL * 3).await;
    assert_eq!(homeless(&city).await, 1);
    let called = city.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    let hint = format!("`hd raider repair {}`", charged.raider);
    assert!(called[0].body.contains(&hint), "{}", called[0].body);
    assert!(
        city.runs(&charged.session),
        "nothing is done to its session"
    );
    assert!(city.parts.repo.discarded().is_empty());
    assert!(zombies(&city).await.is_empty());
    let repaired = repair::run(&city.world, charged.raider.clone()).await;
    repaired.unwrap();
    city.pass(PATROL).await;
    assert_eq!(homeless(&city).await, 0);
    let open = open(&city).await;
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(city.starts(&charged.session), 2, "it goes on there");
}

/// A raider that is finished, charged or removed at that moment has no sandbox, or none yet, and nothing is wrong.
#[tokio::test(start_paused = true)]
async fn sandbox_that_is_nuked_is_not_reported_as_missing() {
    let (city, charged) = Scenario::at_work().await;
    let repo = city.parts.repo.clone();
    let name = charged.raider.name.clone();
    // Between the reading of the store and of the directory another task nukes it.
    let (world, raider) = (city.world.clone(), charged.raider.clone());
    city.parts.repo.interlude("ailment", move || {
        if repo.names().contains(&name.to_string()) {
            repo.lose(&name);
            let (store, raider) = (world.store.clone(), raider.clone());
            let dropped = move |txn: &mut dyn crate::ports::relics::Txn| {
                let hook = txn.hook(&raider)?.expect("a hook");
                txn.drop_hook(&raider, hook.incarnation)
            };
            drop(store.begin(dropped));
        }
    });
    assert_eq!(homeless(&city).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_nowhere_to_start_is_no_death_and_comes_back_with_the_sandbox() {
    let (city, charged) = Scenario::at_work().await;
    let id = ChildId::Raider(charged.raider.clone());
    // It is removed between its inspection and the start.
    let gone = StartError::NoCwd(city.world.city.sandbox(&charged.raider));
    for _ in 0..40 {
        let sessions = &city.parts.sessions;
        sessions.refuse_start(&charged.session, gone.clone());
    }
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(GROWN).await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Backoff, 1));
    let events = city.events(EventType::RaiderHomeless).await;
    assert_eq!(events.len(), 1, "{events:?}");
    let hint = events[0].data["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("hd raider repair {}", charged.raider)));
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    let refused = city.wake(&id).await.unwrap_err();
    assert!(refused.contains("its sandbox is gone"), "{refused}");
    // The sandbox was moved back.
    city.parts.sessions.accept_starts();
    city.pass(PATROL).await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
}

/// An agent would commit the absence of half a work tree; and an idle city stays quiet.
#[tokio::test(start_paused = true)]
async fn no_session_starts_in_a_missing_or_broken_sandbox() {
    let (city, charged) = Scenario::at_work().await;
    let (name, repo) = (&charged.raider.name, &city.parts.repo);
    let id = ChildId::Raider(charged.raider.clone());
    repo.lose(name);
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL * 10).await;
    assert_eq!(city.starts(&charged.session), 1);
    assert_eq!(city.parts.tasks.prompts().len(), 1, "nothing is written");
    assert_eq!(city.events(EventType::RaiderHomeless).await.len(), 1);
    repo.give_back(name);
    repo.damage(name, "some of its files do not exist yet");
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&charged.session), 1);
    let refused = city.wake(&id).await.unwrap_err();
    assert!(refused.contains("its sandbox is broken"), "{refused}");
    // An inspection that failed is retried soon.
    repo.break_op("ailment", RepoError::Failed("input/output error".into()));
    city.pass(PATROL).await;
    assert_eq!(city.starts(&charged.session), 1);
    repo.mend("ailment");
    repair::run(&city.world, charged.raider.clone())
        .await
        .unwrap();
    city.pass(PATROL).await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
}

/// A session that was ended for a repair restarts at once after the repair fails, if its sandbox allows it.
#[tokio::test(start_paused = true)]
async fn a_repair_that_fails_takes_no_session_away() {
    let (city, charged) = Scenario::at_work().await;
    let full = RepoError::Failed("no space left on device".into());
    city.parts.repo.fail("repair_sandbox", full);
    let repaired = repair::run(&city.world, charged.raider.clone()).await;
    let refused = repaired.unwrap_err();
    assert!(refused.message.contains("no space left"), "{refused}");
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), 2);
}

/// A transient read error delays the repair: nothing is rebuilt before everything readable is saved.
#[tokio::test(start_paused = true)]
async fn repair_waits_until_the_sandbox_can_be_read() {
    let (city, charged) = Scenario::at_work().await;
    let late = RepoError::Timeout {
        what: "git status".into(),
        limit: PATROL,
    };
    city.parts.repo.fail("measure", late);
    let repaired = repair::run(&city.world, charged.raider.clone()).await;
    let refused = repaired.unwrap_err();
    assert!(refused.is_passing(), "{refused}");
    assert_eq!(city.parts.repo.count("repair_sandbox"), 0);
    assert!(city.runs(&charged.session));
    repair::run(&city.world, charged.raider).await.unwrap();
}
