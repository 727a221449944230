//! Changes planned by patrols and reloads: drift, idleness, suspension, removal, dependencies.

use crate::actors::mail::RootMail;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::mail::{ChildSpec, ChildState, StopMode, Work};
use crate::domain::city::{Agent, City, Pool, RestartType};
use crate::domain::event::EventType;
use crate::domain::ids::{AgentName, ChildId, Incarnation, SessionId};
use crate::domain::prompt::Problem;
use crate::domain::reload::Change;
use crate::ports::sessions::{Input, StartError};
use crate::testing::world::{Scenario, Town, agent};

const SECOND: Duration = Duration::from_secs(1);
const PATROL: Duration = Duration::from_secs(31);

async fn mayor() -> (Town, ChildId) {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    (town.start().await, agent("mayor"))
}

fn change(agents: &mut [Agent], name: &str, change: impl FnOnce(&mut Agent)) {
    let agent = agents.iter_mut().find(|agent| agent.name.as_str() == name);
    change(agent.unwrap());
}

/// A raider that was parked with a refused outcome is still told of that when it goes on; the next incarnation is not.
#[tokio::test(start_paused = true)]
async fn resumed_child_keeps_the_reason_of_its_refused_outcome() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let wanted = town.view(&id).await.unwrap().spec;
    let mut parked = wanted.clone();
    let Work::Raider { problem, .. } = &mut parked.work else {
        panic!("a raider");
    };
    *problem = Some(Problem::NoCommits);
    let told =
        |spec: &ChildSpec| matches!(&spec.work, Work::Raider { problem, .. } if problem.is_some());
    assert!(told(&parked.renewed(&wanted)));
    let mut later = wanted;
    let Work::Raider { hook, .. } = &mut later.work else {
        panic!("a raider");
    };
    Arc::make_mut(hook).incarnation = Incarnation(9);
    assert!(!told(&parked.renewed(&later)));
}

/// `health-patrol.md`, drifted: stop and start; and the new session is not drifted again.
#[tokio::test(start_paused = true)]
async fn a_drifted_agent_gets_one_fresh_session() {
    let (town, id) = mayor().await;
    let drifted = |city: &mut City| {
        change(&mut city.agents, "mayor", |agent| {
            agent.fingerprint = "two".into()
        });
    };
    let told = town.reload(drifted).await;
    assert_eq!(told[0].action, Change::Restart);
    town.pass(PATROL * 3).await;
    assert_eq!(town.starts(&town.session(&id)), 2);
    assert_eq!(town.events(EventType::AgentDrifted).await.len(), 1);
    assert!(
        town.events(EventType::AgentCrashed).await.is_empty(),
        "planned"
    );
}

/// `3. Drift` of the health patrol: an attached person is not disturbed.
#[tokio::test(start_paused = true)]
async fn drift_waits_while_a_person_is_attached() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.parts.sessions.set_attached(&session, true);
    let told = town
        .reload(|city| change(&mut city.agents, "mayor", |a| a.fingerprint = "two".into()))
        .await;
    assert_eq!(told[0].action, Change::Deferred);
    town.pass(PATROL * 2).await;
    assert_eq!(town.starts(&session), 1);
    assert!(town.view(&id).await.unwrap().drifted, "shown");
    town.parts.sessions.set_attached(&session, false);
    town.pass(PATROL).await;
    assert_eq!(town.starts(&session), 2);
}

/// The hash is stored with the session, so an adopted session is judged correctly.
#[tokio::test(start_paused = true)]
async fn adopted_session_is_judged_by_the_configuration_of_its_start() {
    for (fingerprint, starts) in [("", 1), ("two", 2)] {
        let (town, id) = mayor().await;
        let clock = town.world.clock.clone();
        let session = town.session(&id);
        let parts = town.crash().await;
        let next = Scenario::new().agent("mayor", RestartType::Permanent);
        let next = next.with(|city| city.agents[0].fingerprint = fingerprint.into());
        let town = next.start_on(parts, clock).await;
        town.pass(PATROL * 2).await;
        assert_eq!(town.starts(&session), starts, "{fingerprint:?}");
    }
}

/// `health-patrol.md`, idle timeout: unknown activity and attached sessions are left alone.
#[tokio::test(start_paused = true)]
async fn an_idle_session_is_replaced_when_its_time_is_up() {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = town.with(|city| {
        city.agents[0].idle_timeout = Some(SECOND * 45);
        city.daemon.patrol_interval = Duration::from_secs(3600);
    });
    let town = town.start().await;
    let id = agent("mayor");
    let session = town.session(&id);
    town.pass(SECOND * 300).await;
    assert_eq!(town.starts(&session), 1, "activity is not known");
    town.parts
        .sessions
        .set_last_activity(&session, Some(town.world.clock.now()));
    town.parts.sessions.set_attached(&session, true);
    town.send_to_root(RootMail::Look).unwrap();
    town.pass(SECOND * 60).await;
    assert_eq!(town.starts(&session), 1, "a person is attached");
    town.parts.sessions.set_attached(&session, false);
    town.parts
        .sessions
        .set_last_activity(&session, Some(town.world.clock.now()));
    town.send_to_root(RootMail::Look).unwrap();
    town.pass(SECOND * 44).await;
    assert_eq!(town.starts(&session), 1);
    town.pass(SECOND * 2).await;
    assert_eq!(town.starts(&session), 2, "known without a patrol");
    assert_eq!(town.events(EventType::AgentIdleKilled).await.len(), 1);
    assert_eq!(town.view(&id).await.unwrap().restarts, 0, "not a death");
}

/// Suspended agents are stopped with an `agent.suspended` event, and come back with resume.
#[tokio::test(start_paused = true)]
async fn a_suspended_agent_rests_until_it_is_resumed() {
    let (town, id) = mayor().await;
    town.reload(|city| city.suspended = true).await;
    assert!(!town.runs(&town.session(&id)));
    assert!(town.view(&id).await.unwrap().suspended);
    town.pass(PATROL * 2).await;
    assert_eq!(town.events(EventType::AgentSuspended).await.len(), 1);
    town.reload(|city| city.suspended = false).await;
    assert!(town.runs(&town.session(&id)));
    assert_eq!(town.events(EventType::AgentResumed).await.len(), 1);
}

/// A child that is wanted again while it is ending starts when it has ended, not at the next patrol.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_wanted_again_while_it_ends_starts_when_it_has_ended() {
    let suspend: fn(&mut City) = |city| city.suspended = true;
    let remove: fn(&mut City) = |city| city.agents.clear();
    for change in [suspend, remove] {
        let (town, id) = mayor().await;
        let (session, before) = (town.session(&id), town.world.newest().city.clone());
        town.parts.sessions.hold_stop(&session);
        town.reconfigure(change).await;
        town.until("the stop", || !town.parts.sessions.stops().is_empty())
            .await;
        town.reconfigure(|city| city.clone_from(&before)).await;
        // The second look begins when the decisions of the first are carried out.
        town.run_looks(2).await;
        town.parts.sessions.release_stop(&session);
        town.settle().await;
        assert!(town.runs(&session));
        assert_eq!(town.starts(&session), 2);
    }
}

/// Found by the storm: a session that could not be ended because it could not be observed is ended when it can.
#[tokio::test(start_paused = true)]
async fn a_session_that_hid_from_its_suspension_or_stop_is_ended_when_it_is_seen() {
    for suspends in [true, false] {
        let (town, id) = mayor().await;
        let session = town.session(&id);
        town.parts.sessions.hide(&session, Some("fog"));
        if suspends {
            town.reload(|city| city.suspended = true).await;
        } else {
            town.rest(&id).await.unwrap_err();
        }
        town.pass(PATROL).await;
        assert!(town.runs(&session), "unseen, nothing is done to it");
        town.parts.sessions.hide(&session, None);
        town.pass(PATROL * 2).await;
        assert!(!town.runs(&session));
        assert_eq!(town.starts(&session), 1);
    }
}

/// Found by the storm: an agent that rests by its restart type is started when that type changes.
#[tokio::test(start_paused = true)]
async fn a_rested_agent_that_becomes_permanent_is_started() {
    let town = Scenario::new().agent("mayor", RestartType::Transient);
    let town = town.start().await;
    let session = town.session(&agent("mayor"));
    town.parts.sessions.exit(&session, 0);
    town.pass(PATROL).await;
    assert!(!town.runs(&session));
    town.reload(|city| city.agents[0].restart = RestartType::Permanent)
        .await;
    assert!(town.runs(&session));
    town.rest(&agent("mayor")).await.unwrap();
    town.reload(|city| city.agents[0].restart = RestartType::Transient)
        .await;
    town.reload(|city| city.agents[0].restart = RestartType::Permanent)
        .await;
    assert!(!town.runs(&session), "a person's stop is sticky");
}

/// Sandbox and slot stay; the raider resumes.
#[tokio::test(start_paused = true)]
async fn a_suspended_rig_stops_sessions_and_keeps_sandboxes() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    town.reload(|city| city.rigs[0].suspended = true).await;
    assert!(!town.runs(&charged.session));
    assert!(town.hook(&charged.raider).await.is_some());
    let relic = town.relic("b").await;
    let refused = town.charge(&relic).await.unwrap_err();
    assert!(refused.message.contains("suspended"), "{refused}");
    town.reload(|city| city.rigs[0].suspended = false).await;
    assert!(town.runs(&charged.session));
    assert_eq!(town.parts.repo.names().len(), 1);
}

/// Changes without a restart apply live, and a quarantined child whose spec changed is released.
#[tokio::test(start_paused = true)]
async fn a_changed_spec_releases_a_quarantined_child() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    for _ in 0..6 {
        town.parts.sessions.crash(&session, 9);
        town.pass(SECOND * 31).await;
    }
    assert_eq!(town.state(&id).await, Some(ChildState::Quarantined));
    let same = town.reload(|_| {}).await;
    assert_eq!(
        town.state(&id).await,
        Some(ChildState::Quarantined),
        "{same:?}"
    );
    town.reload(|city| {
        change(&mut city.agents, "mayor", |a| {
            a.shutdown_timeout = SECOND * 9
        });
    })
    .await;
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
    assert_eq!(town.view(&id).await.unwrap().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_comes_and_goes_with_the_configuration() {
    let (town, id) = mayor().await;
    let mayors = town.starts(&town.session(&id));
    town.reload(|city| {
        let mut clerk = city.agents[0].clone();
        clerk.name = AgentName::new("clerk").unwrap();
        city.agents.push(clerk);
    })
    .await;
    let clerk = agent("clerk");
    assert!(town.runs(&town.session(&clerk)));
    town.reload(|city| {
        city.agents.pop();
    })
    .await;
    assert!(!town.runs(&town.session(&clerk)));
    assert!(town.view(&clerk).await.is_none());
    assert_eq!(
        town.starts(&town.session(&id)),
        mayors,
        "nobody else was touched"
    );
}

fn chain() -> Scenario {
    let names = ["db", "api", "web"];
    let city = names.iter().fold(Scenario::new(), |scenario, name| {
        scenario.agent(name, RestartType::Permanent)
    });
    city.with(|city| {
        let needs = |name: &str| vec![AgentName::new(name).unwrap()];
        city.agents[1].depends_on = needs("db");
        city.agents[2].depends_on = needs("api");
    })
}

/// `depends_on`: started afterwards, even when the dependency takes its time.
#[tokio::test(start_paused = true)]
async fn agent_starts_when_its_dependencies_are_up() {
    let scenario = chain();
    let clock = std::sync::Arc::new(crate::adapters::clock::PausedClock::starting_at(
        "2026-01-01T00:00:00Z".parse().unwrap(),
    ));
    let town = chain().start().await;
    let order: Vec<_> = town
        .parts
        .sessions
        .starts()
        .into_iter()
        .map(|spec| spec.id)
        .collect();
    let wanted = ["db", "api", "web"].map(|name| town.session(&agent(name)));
    assert_eq!(order, wanted);
    let parts = town.crash().await;
    for id in &wanted {
        parts.sessions.exit_unheard(id, 0);
    }
    parts.sessions.hold_start(&wanted[0]);
    let town = scenario.begin_on(parts, clock).await;
    let root = town.root.clone();
    let booting =
        tokio::spawn(async move { root.call(|reply| RootMail::Boot(reply).into(), None).await });
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    assert_eq!(town.state(&agent("web")).await, Some(ChildState::Blocked));
    assert!(!town.runs(&wanted[1]));
    town.parts.sessions.release_start(&wanted[0]);
    town.pass(SECOND).await;
    booting.await.unwrap().unwrap();
    assert!(wanted.iter().all(|id| town.runs(id)));
}

/// `depends_on`: a pool counts as up when any of its members is.
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_needed_is_up_when_one_of_its_members_is() {
    let scenario = || {
        let town = Scenario::new().agent("db", RestartType::Permanent);
        let town = town.agent("db-admin", RestartType::Permanent);
        town.agent("api", RestartType::Permanent).with(|city| {
            city.agents[0].pool = Some(Pool {
                min: 2,
                max: 2,
                check: None,
                check_interval: SECOND,
                drain_timeout: SECOND,
            });
            city.agents[2].depends_on = vec![AgentName::new("db").unwrap()];
        })
    };
    let town = Scenario::new().start().await;
    let clock = town.world.clock.clone();
    let members = ["db-1", "db-2"].map(|name| town.session(&agent(name)));
    let parts = town.crash().await;
    let refuse = |member: &SessionId| {
        let why = "not found".to_owned();
        let program = "db".to_owned();
        let error = StartError::NoProgram { program, why };
        parts.sessions.refuse_start(member, error);
    };
    (0..3).for_each(|_| members.iter().for_each(refuse));
    let town = scenario().start_on(parts.clone(), clock).await;
    assert!(town.runs(&town.session(&agent("db-admin"))), "no member");
    assert_eq!(town.state(&agent("api")).await, Some(ChildState::Blocked));
    (0..5).for_each(|_| refuse(&members[1]));
    town.pass(SECOND * 60).await;
    assert_eq!(members.map(|member| town.runs(&member)), [true, false]);
    assert!(town.runs(&town.session(&agent("api"))));
}

/// `depends_on` applies live: an agent that waited for a dropped dependency starts.
#[tokio::test(start_paused = true)]
async fn an_agent_that_depends_on_less_starts_at_once() {
    let town = chain().with(|city| city.agents[0].suspended = true);
    let town = town.start().await;
    assert_eq!(town.state(&agent("api")).await, Some(ChildState::Blocked));
    town.reload(|city| city.agents[1].depends_on.clear()).await;
    assert!(town.runs(&town.session(&agent("api"))));
    assert!(town.runs(&town.session(&agent("web"))));
}

/// `depends_on`: stopped before.
#[tokio::test(start_paused = true)]
async fn the_stop_goes_in_the_reverse_order_of_dependence() {
    let town = chain().start().await;
    let wanted = ["web", "api", "db"].map(|name| town.session(&agent(name)));
    let sessions = std::sync::Arc::clone(&town.parts.sessions);
    town.stop(StopMode::Graceful).await;
    let stopped: Vec<_> = sessions
        .stops()
        .into_iter()
        .map(|(handle, _)| handle.id)
        .collect();
    assert_eq!(stopped, wanted);
}

#[tokio::test(start_paused = true)]
async fn session_that_only_drifts_gets_no_input() {
    let (town, id) = mayor().await;
    town.reload(|city| change(&mut city.agents, "mayor", |a| a.fingerprint = "x".into()))
        .await;
    let sent: Vec<Input> = town.parts.sessions.sent(&town.session(&id));
    assert!(sent.is_empty(), "{sent:?}");
}
