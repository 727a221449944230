//! The same conclusions after a kill: whatever is found wrong, a witness that is killed again and again,
//! and a supervisor that is, come to the same end as one that runs on (`witness-patrol.md`, discovery
//! over tracking).

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{close, unhook, zombies};
use crate::actors::sagas::charge::Charged;
use crate::actors::witness::WitnessMsg;
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, Town};

#[derive(Debug, Clone, Copy)]
enum Wrong {
    Nothing,
    HookLost,
    Nameless,
    Closed,
    Hollow,
    Done,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    None,
    Committed,
    Dirty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    Nobody,
    Witness,
    Supervisor,
}

/// All that was concluded.
#[derive(Debug, PartialEq, Eq)]
struct End {
    sandboxes: Vec<String>,
    relics: Vec<RelicStatus>,
    running: Vec<String>,
    zombies: Vec<(String, u64)>,
    called: Vec<(String, RelicStatus)>,
    landings: usize,
    salvages: usize,
}

async fn go_wrong(town: &Town, charged: &Charged, wrong: Wrong, work: Work) {
    let (repo, name) = (&town.parts.repo, &charged.raider.name);
    match work {
        Work::None => {}
        Work::Committed => drop(repo.commit(name)),
        Work::Dirty => repo.dirty(name, "wip.txt"),
    }
    match wrong {
        Wrong::Nothing => {}
        Wrong::HookLost => unhook(town, charged).await,
        Wrong::Nameless => {
            repo.forget_provenance(name);
            unhook(town, charged).await;
        }
        Wrong::Closed => close(town, charged).await,
        Wrong::Hollow => town.parts.sessions.hollow(&charged.session),
        // Refused where there is nothing to land.
        Wrong::Done => drop(town.completed(&charged.raider).await),
    }
}

async fn end(wrongs: &[(Wrong, Work)], kill: Kill, every: Duration) -> End {
    let mut town = Scenario::new().start().await;
    let mut all = Vec::new();
    for (wrong, work) in wrongs {
        let relic = town.relic("a").await;
        all.push((town.charge(&relic).await.unwrap(), *wrong, *work));
    }
    for (charged, wrong, work) in &all {
        go_wrong(&town, charged, *wrong, *work).await;
    }
    let mut left = Duration::from_secs(600);
    while let Some(rest) = left.checked_sub(every) {
        left = rest;
        town.pass(every).await;
        match kill {
            Kill::Nobody => {}
            Kill::Witness => assert_eq!(town.kill_actors::<WitnessMsg>(), 1),
            Kill::Supervisor => {
                let clock = Arc::clone(&town.world.clock);
                town = Scenario::new().start_on(town.crash().await, clock).await;
            }
        }
    }
    town.pass(Duration::from_secs(60)).await;
    let mut relics = Vec::new();
    for (charged, _, _) in &all {
        relics.push(town.relic_now(&charged.relic).await.status);
    }
    let mut noted = zombies(&town).await;
    noted.sort();
    let called = town.escalations().await.into_iter();
    let mut called: Vec<_> = called.map(|it| (it.title, it.status)).collect();
    called.sort_by(|one, other| one.0.cmp(&other.0));
    let running = town.parts.sessions.running();
    let end = End {
        sandboxes: town.parts.repo.names(),
        relics,
        running: running.iter().map(ToString::to_string).collect(),
        zombies: noted,
        called,
        landings: town.parts.repo.landings(),
        salvages: town.parts.repo.salvages().len(),
    };
    town.root.kill();
    end
}

fn wrong() -> impl Strategy<Value = (Wrong, Work)> {
    let wrong = prop_oneof![
        Just(Wrong::Nothing),
        Just(Wrong::HookLost),
        Just(Wrong::Nameless),
        Just(Wrong::Closed),
        Just(Wrong::Hollow),
        Just(Wrong::Done),
    ];
    let work = prop_oneof![Just(Work::None), Just(Work::Committed), Just(Work::Dirty)];
    (wrong, work)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_kill_changes_no_conclusion(
        wrongs in prop::collection::vec(wrong(), 1..=4),
        every in 3_u64..90,
    ) {
        let every = Duration::from_secs(every);
        let of = |kill| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build().unwrap();
            runtime.block_on(end(&wrongs, kill, every))
        };
        let undisturbed = of(Kill::Nobody);
        for kill in [Kill::Witness, Kill::Supervisor] {
            prop_assert_eq!(&of(kill), &undisturbed, "{:?}", kill);
        }
    }
}
