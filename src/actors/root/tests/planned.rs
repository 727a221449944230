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
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);
const PATROL: Duration = Duration::from_secs(31);

async fn mayor() -> (TestCity, ChildId) {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    (city.start().await, agent("mayor"))
}

fn change(agents: &mut [Agent], name: &str, change: impl FnOnce(&mut Agent)) {
    let agent = agents.iter_mut().find(|agent| agent.name.as_str() == name);
    change(agent.unwrap());
}

/// A raider that was parked with a refused outcome is still told of that when it goes on; the next incarnation is not.
#[tokio::test(start_paused = true)]
async fn resumed_child_keeps_the_reason_of_its_refused_outcome() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let wanted = city.view(&id).await.unwrap().spec;
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
    let (city, id) = mayor().await;
    let drifted = |city: &mut City| {
        change(&mut city.agents, "mayor", |agent| {
            agent.fingerprint = "two".into()
        });
    };
    let told = city.reload(drifted).await;
    assert_eq!(told[0].action, Change::Restart);
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&city.session(&id)), 2);
    assert_eq!(city.events(EventType::AgentDrifted).await.len(), 1);
    assert!(
        city.events(EventType::AgentCrashed).await.is_empty(),
        "planned"
    );
}

/// `3. Drift` of the health patrol: an attached person is not disturbed.
#[tokio::test(start_paused = true)]
async fn drift_waits_while_a_person_is_attached() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.parts.sessions.set_attached(&session, true);
    let told = city
        .reload(|city| change(&mut city.agents, "mayor", |a| a.fingerprint = "two".into()))
        .await;
    assert_eq!(told[0].action, Change::Deferred);
    city.pass(PATROL * 2).await;
    assert_eq!(city.starts(&session), 1);
    assert!(city.view(&id).await.unwrap().drifted, "shown");
    city.parts.sessions.set_attached(&session, false);
    city.pass(PATROL).await;
    assert_eq!(city.starts(&session), 2);
}

/// The hash is stored with the session, so an adopted session is judged correctly.
#[tokio::test(start_paused = true)]
async fn adopted_session_is_judged_by_the_configuration_of_its_start() {
    for (fingerprint, starts) in [("", 1), ("two", 2)] {
        let (city, id) = mayor().await;
        let clock = city.world.clock.clone();
        let session = city.session(&id);
        let parts = city.crash().await;
        let next = Scenario::new().agent("mayor", RestartType::Permanent);
        let next = next.with(|city| city.agents[0].fingerprint = fingerprint.into());
        let city = next.start_on(parts, clock).await;
        city.pass(PATROL * 2).await;
        assert_eq!(city.starts(&session), starts, "{fingerprint:?}");
    }
}

/// `health-patrol.md`, idle timeout: unknown activity and attached sessions are left alone.
#[tokio::test(start_paused = true)]
async fn an_idle_session_is_replaced_when_its_time_is_up() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.with(|city| {
        city.agents[0].idle_timeout = Some(SECOND * 45);
        city.daemon.patrol_interval = Duration::from_secs(3600);
    });
    let city = city.start().await;
    let id = agent("mayor");
    let session = city.session(&id);
    city.pass(SECOND * 300).await;
    assert_eq!(city.starts(&session), 1, "activity is not known");
    city.parts
        .sessions
        .set_last_activity(&session, Some(city.world.clock.now()));
    city.parts.sessions.set_attached(&session, true);
    city.send_to_root(RootMail::Look).unwrap();
    city.pass(SECOND * 60).await;
    assert_eq!(city.starts(&session), 1, "a person is attached");
    city.parts.sessions.set_attached(&session, false);
    city.parts
        .sessions
        .set_last_activity(&session, Some(city.world.clock.now()));
    city.send_to_root(RootMail::Look).unwrap();
    city.pass(SECOND * 44).await;
    assert_eq!(city.starts(&session), 1);
    city.pass(SECOND * 2).await;
    assert_eq!(city.starts(&session), 2, "known without a patrol");
    assert_eq!(city.events(EventType::AgentIdleKilled).await.len(), 1);
    assert_eq!(city.view(&id).await.unwrap().restarts, 0, "not a death");
}

/// Suspended agents are stopped with an `agent.suspended` event, and come back with resume.
#[tokio::test(start_paused = true)]
async fn a_suspended_agent_rests_until_it_is_resumed() {
    let (city, id) = mayor().await;
    city.reload(|city| city.suspended = true).await;
    assert!(!city.runs(&city.session(&id)));
    assert!(city.view(&id).await.unwrap().suspended);
    city.pass(PATROL * 2).await;
    assert_eq!(city.events(EventType::AgentSuspended).await.len(), 1);
    city.reload(|city| city.suspended = false).await;
    assert!(city.runs(&city.session(&id)));
    assert_eq!(city.events(EventType::AgentResumed).await.len(), 1);
}

/// A child that is wanted again while it is ending starts when it has ended, not at the next patrol.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_wanted_again_while_it_ends_starts_when_it_has_ended() {
    let suspend: fn(&mut City) = |city| city.suspended = true;
    let remove: fn(&mut City) = |city| city.agents.clear();
    for change in [suspend, remove] {
        let (city, id) = mayor().await;
        let (session, before) = (city.session(&id), city.world.newest().city.clone());
        city.parts.sessions.hold_stop(&session);
        city.reconfigure(change).await;
        city.until("the stop", || !city.parts.sessions.stops().is_empty())
            .await;
        city.reconfigure(|city| city.clone_from(&before)).await;
        // The second look begins when the decisions of the first are carried out.
        city.run_looks(2).await;
        city.parts.sessions.release_stop(&session);
        city.settle().await;
        assert!(city.runs(&session));
        assert_eq!(city.starts(&session), 2);
    }
}

/// Found by the storm: a session that could not be ended because it could not be observed is ended when it can.
#[tokio::test(start_paused = true)]
async fn a_session_that_hid_from_its_suspension_or_stop_is_ended_when_it_is_seen() {
    for suspends in [true, false] {
        let (city, id) = mayor().await;
        let session = city.session(&id);
        city.parts.sessions.hide(&session, Some("fog"));
        if suspends {
            city.reload(|city| city.suspended = true).await;
        } else {
            city.rest(&id).await.unwrap_err();
        }
        city.pass(PATROL).await;
        assert!(city.runs(&session), "unseen, nothing is done to it");
        city.parts.sessions.hide(&session, None);
        city.pass(PATROL * 2).await;
        assert!(!city.runs(&session));
        assert_eq!(city.starts(&session), 1);
    }
}

/// Found by the storm: an agent that rests by its restart type is started when that type changes.
#[tokio::test(start_paused = true)]
async fn a_rested_agent_that_becomes_permanent_is_started() {
    let city = Scenario::new().agent("mayor", RestartType::Transient);
    let city = city.start().await;
    let session = city.session(&agent("mayor"));
    city.parts.sessions.exit(&session, 0);
    city.pass(PATROL).await;
    assert!(!city.runs(&session));
    city.reload(|city| city.agents[0].restart = RestartType::Permanent)
        .await;
    assert!(city.runs(&session));
    city.rest(&agent("mayor")).await.unwrap();
    city.reload(|city| city.agents[0].restart = RestartType::Transient)
        .await;
    city.reload(|city| city.agents[0].restart = RestartType::Permanent)
        .await;
    assert!(!city.runs(&session), "a person's stop is sticky");
}

/// Sandbox and record stay; the raider resumes.
#[tokio::test(start_paused = true)]
async fn a_suspended_rig_stops_sessions_and_keeps_sandboxes() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    city.reload(|city| city.rigs[0].suspended = true).await;
    assert!(!city.runs(&charged.session));
    assert!(city.hook(&charged.raider).await.is_some());
    let relic = city.relic("b").await;
    let refused = city.charge(&relic).await.unwrap_err();
    assert!(refused.message.contains("suspended"), "{refused}");
    city.reload(|city| city.rigs[0].suspended = false).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.parts.repo.names().len(), 1);
}

/// Changes without a restart apply live, and a quarantined child whose spec changed is released.
#[tokio::test(start_paused = true)]
async fn a_changed_spec_releases_a_quarantined_child() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    for _ in 0..6 {
        city.parts.sessions.crash(&session, 9);
        city.pass(SECOND * 31).await;
    }
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    let same = city.reload(|_| {}).await;
    assert_eq!(
        city.state(&id).await,
        Some(ChildState::Quarantined),
        "{same:?}"
    );
    city.reload(|city| {
        change(&mut city.agents, "mayor", |a| {
            a.shutdown_timeout = SECOND * 9
        });
    })
    .await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.view(&id).await.unwrap().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_comes_and_goes_with_the_configuration() {
    let (city, id) = mayor().await;
    let mayors = city.starts(&city.session(&id));
    city.reload(|city| {
        let mut clerk = city.agents[0].clone();
        clerk.name = AgentName::new("clerk").unwrap();
        city.agents.push(clerk);
    })
    .await;
    let clerk = agent("clerk");
    assert!(city.runs(&city.session(&clerk)));
    city.reload(|city| {
        city.agents.pop();
    })
    .await;
    assert!(!city.runs(&city.session(&clerk)));
    assert!(city.view(&clerk).await.is_none());
    assert_eq!(
        city.starts(&city.session(&id)),
        mayors,
        "no other session was touched"
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
    let city = chain().start().await;
    let order: Vec<_> = city
        .parts
        .sessions
        .starts()
        .into_iter()
        .map(|spec| spec.id)
        .collect();
    let wanted = ["db", "api", "web"].map(|name| city.session(&agent(name)));
    assert_eq!(order, wanted);
    let parts = city.crash().await;
    for id in &wanted {
        parts.sessions.exit_unheard(id, 0);
    }
    parts.sessions.hold_start(&wanted[0]);
    let city = scenario.begin_on(parts, clock).await;
    let root = city.root.clone();
    let booting =
        tokio::spawn(async move { root.call(|reply| RootMail::Boot(reply).into(), None).await });
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    assert_eq!(city.state(&agent("web")).await, Some(ChildState::Blocked));
    assert!(!city.runs(&wanted[1]));
    city.parts.sessions.release_start(&wanted[0]);
    city.pass(SECOND).await;
    booting.await.unwrap().unwrap();
    assert!(wanted.iter().all(|id| city.runs(id)));
}

/// `depends_on`: a pool counts as up when any of its members is.
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_needed_is_up_when_one_of_its_members_is() {
    let scenario = || {
        let city = Scenario::new().agent("db", RestartType::Permanent);
        let city = city.agent("db-admin", RestartType::Permanent);
        city.agent("api", RestartType::Permanent).with(|city| {
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
    let city = Scenario::new().start().await;
    let clock = city.world.clock.clone();
    let members = ["db-1", "db-2"].map(|name| city.session(&agent(name)));
    let parts = city.crash().await;
    let refuse = |member: &SessionId| {
        let why = "not found".to_owned();
        let program = "db".to_owned();
        let error = StartError::NoProgram { program, why };
        parts.sessions.refuse_start(member, error);
    };
    (0..3).for_each(|_| members.iter().for_each(refuse));
    let city = scenario().start_on(parts.clone(), clock).await;
    assert!(city.runs(&city.session(&agent("db-admin"))), "no member");
    assert_eq!(city.state(&agent("api")).await, Some(ChildState::Blocked));
    (0..5).for_each(|_| refuse(&members[1]));
    city.pass(SECOND * 60).await;
    assert_eq!(members.map(|member| city.runs(&member)), [true, false]);
    assert!(city.runs(&city.session(&agent("api"))));
}

/// `depends_on` applies live: an agent that waited for a dropped dependency starts.
#[tokio::test(start_paused = true)]
async fn an_agent_that_depends_on_less_starts_at_once() {
    let city = chain().with(|city| city.agents[0].suspended = true);
    let city = city.start().await;
    assert_eq!(city.state(&agent("api")).await, Some(ChildState::Blocked));
    city.reload(|city| city.agents[1].depends_on.clear()).await;
    assert!(city.runs(&city.session(&agent("api"))));
    assert!(city.runs(&city.session(&agent("web"))));
}

/// `depends_on`: stopped before.
#[tokio::test(start_paused = true)]
async fn the_stop_goes_in_the_reverse_order_of_dependence() {
    let city = chain().start().await;
    let wanted = ["web", "api", "db"].map(|name| city.session(&agent(name)));
    let sessions = std::sync::Arc::clone(&city.parts.sessions);
    city.stop(StopMode::Graceful).await;
    let stopped: Vec<_> = sessions
        .stops()
        .into_iter()
        .map(|(handle, _)| handle.id)
        .collect();
    assert_eq!(stopped, wanted);
}

#[tokio::test(start_paused = true)]
async fn session_that_only_drifts_gets_no_input() {
    let (city, id) = mayor().await;
    city.reload(|city| change(&mut city.agents, "mayor", |a| a.fingerprint = "x".into()))
        .await;
    let sent: Vec<Input> = city.parts.sessions.sent(&city.session(&id));
    assert!(sent.is_empty(), "{sent:?}");
}
