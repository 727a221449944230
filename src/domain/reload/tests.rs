//! All effects in a reload's answer, and the changes that wait for the next start.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::domain::agents::{Pool, RestartType};
use crate::testing::world;

fn name(text: &str) -> AgentName {
    AgentName::new(text).unwrap()
}

fn city(agents: Vec<Agent>) -> City {
    City {
        harnesses: BTreeMap::new(),
        rigs: Vec::new(),
        agents,
        ..world::city()
    }
}

fn agent(text: &str) -> Agent {
    Agent {
        fingerprint: "one".into(),
        ..world::standing(text, RestartType::Permanent)
    }
}

fn with(change: impl FnOnce(&mut Agent)) -> Agent {
    let mut agent = agent("a");
    change(&mut agent);
    agent
}

fn up(text: &str, fingerprint: Option<&str>, undisturbed: bool) -> Running {
    Running {
        name: name(text),
        fingerprint: fingerprint.map(str::to_owned),
        undisturbed,
    }
}

fn pool(max: u32) -> impl Fn(&mut Agent) {
    move |agent| {
        agent.pool = Some(Pool {
            min: 1,
            max,
            check: None,
            check_interval: Duration::ZERO,
            drain_timeout: Duration::ZERO,
        });
    }
}

/// `health-patrol.md`, config drift; raising a pool's max keeps every session.
#[test]
fn each_change_has_its_word() {
    for (row, old, new, running, action) in rows() {
        let (old, new) = (
            city(old.into_iter().collect()),
            city(new.into_iter().collect()),
        );
        let told = changes(&old, &new, &running, &BTreeSet::new());
        assert_eq!(told.len(), 1, "{row}");
        assert_eq!(told[0].action, action, "{row}");
    }
}

type Row = (
    &'static str,
    Option<Agent>,
    Option<Agent>,
    Vec<Running>,
    Change,
);

fn rows() -> Vec<Row> {
    let runs = || vec![up("a", Some("one"), false)];
    let same = || Some(agent("a"));
    let drifted = || Some(with(|agent| agent.fingerprint = "two".into()));
    let live = || {
        Some(with(|agent| {
            agent.idle_timeout = Some(Duration::from_secs(1))
        }))
    };
    let off = || Some(with(|agent| agent.suspended = true));
    vec![
        ("as it was", same(), same(), runs(), Change::None),
        ("new", None, same(), vec![], Change::Start),
        ("not up", same(), same(), vec![], Change::Start),
        ("gone", same(), None, runs(), Change::Drain),
        ("drifted", same(), drifted(), runs(), Change::Restart),
        (
            "not to be disturbed",
            same(),
            drifted(),
            vec![up("a", Some("one"), true)],
            Change::Deferred,
        ),
        (
            "not on record",
            same(),
            drifted(),
            vec![up("a", None, false)],
            Change::Live,
        ),
        ("live", same(), live(), runs(), Change::Live),
        ("suspended", same(), off(), runs(), Change::Drain),
        ("resumed", off(), same(), vec![], Change::Start),
        (
            "a pool grows",
            Some(with(pool(2))),
            Some(with(pool(4))),
            vec![up("a-1", Some("one"), false)],
            Change::Live,
        ),
    ]
}

/// An explicit stop is sticky: a reload starts no agent that an operator has stopped.
#[test]
fn resting_agent_is_not_started() {
    let (old, new) = (city(vec![agent("a")]), city(vec![agent("a")]));
    let told = changes(&old, &new, &[], &[name("a")].into());
    assert_eq!(told[0].action, Change::None);
}

/// `health-patrol.md`, no hot-reload for structural changes: the name of the workspace.
#[test]
fn a_renamed_workspace_is_refused_with_the_reason() {
    let old = city(Vec::new());
    let mut new = city(Vec::new());
    assert_eq!(refused(&old, &new), None);
    new.name = "village".into();
    let why = refused(&old, &new).unwrap();
    assert!(
        why.contains("\"city\"") && why.contains("\"village\""),
        "{why}"
    );
}

#[test]
fn a_city_does_not_move_under_its_supervisor() {
    let old = city(Vec::new());
    let mut new = city(Vec::new());
    new.root = "/elsewhere".into();
    let why = refused(&old, &new).unwrap();
    assert!(why.contains("/city") && why.contains("/elsewhere"), "{why}");
}

#[test]
fn settings_that_need_a_restart_are_kept_and_reported() {
    let old = city(Vec::new());
    let mut new = city(Vec::new());
    new.daemon.socket = "/else.sock".into();
    new.daemon.start_concurrency = 9;
    let (kept, pending) = in_force(&old, new, &|_| false);
    assert_eq!(kept.daemon.socket, old.daemon.socket);
    assert_eq!(kept.daemon.start_concurrency, 9);
    assert_eq!(pending, ["[daemon] socket"]);
}
