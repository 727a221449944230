//! Convergence: after any faults everything that is wanted runs, once.

use std::time::Duration;

use proptest::prelude::*;

use crate::actors::mail::ChildState;
use crate::actors::mail::ForgeMsg;
use crate::actors::mail::WitnessMsg;
use crate::actors::session::child::ChildMsg;
use crate::domain::city::RestartType;
use crate::domain::ids::ChildId;
use crate::ports::sessions::{Sessions, StartError};
use crate::testing::tier::by_tier;
use crate::testing::world::{Scenario, TestCity, agent, raider};

const WINDOW: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
enum Blow {
    Crash(usize),
    Lose(usize),
    Unheard(usize),
    RefuseStart(usize),
    Hide(usize),
    Show,
    Blind,
    KillChildren,
    KillWitness,
    KillForge,
    Rest(usize),
    Wake(usize),
    Nuke(usize, bool),
    Charge,
    Pass(u64),
    Restart,
}

fn blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        4 => (0usize..4).prop_map(Blow::Crash),
        2 => (0usize..4).prop_map(Blow::Lose),
        1 => (0usize..4).prop_map(Blow::Unheard),
        2 => (0usize..4).prop_map(Blow::RefuseStart),
        1 => (0usize..4).prop_map(Blow::Hide),
        2 => Just(Blow::Show),
        1 => Just(Blow::Blind),
        2 => Just(Blow::KillChildren),
        1 => Just(Blow::KillWitness),
        1 => Just(Blow::KillForge),
        1 => (0usize..2).prop_map(Blow::Rest),
        2 => (0usize..2).prop_map(Blow::Wake),
        1 => ((2usize..4), any::<bool>()).prop_map(|(who, salvage)| Blow::Nuke(who, salvage)),
        2 => Just(Blow::Charge),
        4 => (0u64..90).prop_map(Blow::Pass),
        1 => Just(Blow::Restart),
    ]
}

fn scenario() -> Scenario {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.agent("clerk", RestartType::Permanent);
    let city = city.with(|city| city.daemon.restart.window = WINDOW);
    city.rig(|rig| rig.raiders.max = 2)
}

fn children() -> [ChildId; 4] {
    let toast = ChildId::Raider(raider("Toast"));
    let shadow = ChildId::Raider(raider("Shadow"));
    [agent("mayor"), agent("clerk"), toast, shadow]
}

fn show(city: &TestCity) {
    city.parts.sessions.blind(None);
    for id in children() {
        city.parts.sessions.hide(&city.session(&id), None);
    }
}

async fn strike(city: TestCity, blow: &Blow) -> TestCity {
    let children = children();
    let session = |who: usize| city.session(&children[who]);
    let sessions = &city.parts.sessions;
    match *blow {
        Blow::Crash(who) => sessions.crash(&session(who), 9),
        Blow::Lose(who) => sessions.lose(&session(who), "gone"),
        Blow::Unheard(who) => sessions.exit_unheard(&session(who), 1),
        Blow::RefuseStart(who) => {
            let error = StartError::Provider("no memory".into());
            sessions.refuse_start(&session(who), error);
        }
        Blow::Hide(who) => sessions.hide(&session(who), Some("fog")),
        Blow::Show => show(&city),
        Blow::Blind => sessions.blind(Some("night")),
        Blow::KillChildren => drop(city.kill_actors::<ChildMsg>()),
        Blow::KillWitness => drop(city.kill_actors::<WitnessMsg>()),
        Blow::KillForge => drop(city.kill_actors::<ForgeMsg>()),
        Blow::Rest(who) => drop(city.rest(&children[who]).await),
        Blow::Wake(who) => drop(city.wake(&children[who]).await),
        Blow::Nuke(who, salvage) => {
            if let ChildId::Raider(raider) = &children[who]
                && city.hook(raider).await.is_some()
            {
                drop(city.nuke(raider, salvage).await);
            }
        }
        Blow::Charge => {
            let relic = city.relic("more").await;
            drop(city.charge(&relic).await);
        }
        Blow::Pass(seconds) => city.pass(Duration::from_secs(seconds)).await,
        Blow::Restart => {
            let clock = city.world.clock.clone();
            let parts = city.crash().await;
            return scenario().start_on(parts, clock).await;
        }
    }
    city
}

async fn survive(blows: Vec<Blow>) {
    let mut city = scenario().start().await;
    for blow in &blows {
        city = strike(city, blow).await;
    }
    show(&city);
    for id in [agent("mayor"), agent("clerk")] {
        // A refused start is retried.
        while city.wake(&id).await.is_err() {
            city.pass(Duration::from_secs(1)).await;
        }
    }
    // Longer than any quarantine.
    city.pass(WINDOW * 2).await;
    assert_eq!(city.sagas().await, 0, "every saga came to an end");
    let mut wanted = vec![city.session(&agent("mayor")), city.session(&agent("clerk"))];
    for id in children() {
        if let ChildId::Raider(raider) = &id
            && city.hook(raider).await.is_some()
        {
            wanted.push(city.session(&id));
        }
    }
    wanted.sort();
    let facts = city.parts.sessions.list().unwrap();
    let mut running = city.parts.sessions.running();
    running.sort();
    assert_eq!(running, wanted, "{facts:?}");
    for id in children() {
        if wanted.contains(&city.session(&id)) {
            assert_eq!(city.state(&id).await, Some(ChildState::Running), "{id}");
        }
    }
    assert_eq!(
        city.parts.repo.names().len(),
        wanted.len() - 2,
        "a sandbox per hook"
    );
    city.root.kill();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: by_tier(8, 240),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn afterwards_everything_wanted_runs_once(blows in proptest::collection::vec(blow(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(survive(blows));
    }
}
