//! The same conclusions after kills: whatever problem is found, a witness that is killed repeatedly, at rest or in the
//! middle of its work, and a killed supervisor come to the same result as one that runs on (`witness-patrol.md`,
//! discovery over tracking). The seed is printed, and `HORDE_SEED` repeats it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestError;

use super::zombies::{exhaust, fragile};
use super::{close, unhook, zombies};
use crate::actors::mail::Charged;
use crate::actors::mail::WitnessMsg;
use crate::domain::relic::{Relic, RelicStatus};
use crate::domain::restart::History;
use crate::ports::repo::RepoError;
use crate::testing::seeded;
use crate::testing::tier::{self, by_tier};
use crate::testing::world::{Scenario, TestCity};

const MINUTE: Duration = Duration::from_secs(60);

/// The calls of git and of the session provider.
const OPS: &[&str] = &[
    "sandboxes",
    "provenance",
    "ailment",
    "measure",
    "progress",
    "changes",
    "remote_head",
    "push_branch",
    "salvage",
    "discard_sandbox",
    "sessions.list",
    "sessions.facts",
    "sessions.agents_live",
    "sessions.cpu",
    "sessions.interrupt",
    "sessions.stop",
    "sessions.forget",
];

/// Maximum number of kills in the middle of work.
const KILLS: usize = 60;

#[derive(Debug, Clone, Copy)]
enum Wrong {
    Nothing,
    HookLost,
    Nameless,
    Closed,
    Hollow,
    Done,
    /// Done, with the remote away.
    Blocked,
    Quarantined,
    /// With an unknown run state.
    Unseen,
    /// Without hook, and its sandbox cannot be measured.
    Unmeasured,
}

impl Wrong {
    const ALL: [Self; 10] = [
        Self::Nothing,
        Self::HookLost,
        Self::Nameless,
        Self::Closed,
        Self::Hollow,
        Self::Done,
        Self::Blocked,
        Self::Quarantined,
        Self::Unseen,
        Self::Unmeasured,
    ];
}

#[derive(Debug, Clone, Copy)]
enum Work {
    None,
    Committed,
    Dirty,
    /// Committed, with a stash entry: the result is kept.
    Stashed,
}

/// The problems, and the durations.
#[derive(Debug, Clone)]
struct Case {
    wrongs: Vec<(Wrong, Work)>,
    /// Set when silence counts.
    stalls: bool,
    /// Set when `keep_dirty` passes.
    goes: bool,
    /// The interval between kills at rest.
    every: Duration,
    /// The number of port calls between kills in the middle of work.
    nth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    Nobody,
    Witness,
    WitnessAtCalls,
    Supervisor,
}

/// All conclusions.
#[derive(Debug, PartialEq, Eq)]
struct End {
    sandboxes: Vec<String>,
    relics: Vec<RelicStatus>,
    running: Vec<String>,
    /// The number of reminders and of sessions of each raider.
    told: Vec<(usize, usize)>,
    zombies: Vec<(String, u64)>,
    /// Title and subject of each escalation.
    called: Vec<(String, String, RelicStatus)>,
    landings: usize,
    salvages: BTreeSet<String>,
}

fn scenario(case: &Case) -> Scenario {
    let scenario = fragile().with(|city| {
        city.daemon.restart.window = MINUTE * 60 * 24;
        city.daemon.restart.history = History::Persistent;
    });
    scenario.rig(|rig| {
        rig.raiders.stall_after = case.stalls.then_some(MINUTE * 2);
        rig.raiders.nudges = 1;
        rig.witness.spawn_grace = MINUTE * 2;
        if case.goes {
            rig.witness.keep_dirty = MINUTE * 4;
        }
    })
}

async fn go_wrong(city: &TestCity, charged: &Charged, wrong: Wrong, work: Work) {
    let (repo, name) = (&city.parts.repo, &charged.raider.name);
    match work {
        Work::None => {}
        Work::Committed => drop(repo.commit(name)),
        Work::Dirty => repo.dirty(name, "wip.txt"),
        Work::Stashed => {
            repo.commit(name);
            repo.change(name, |facts| facts.stashes.push("wip".into()));
        }
    }
    match wrong {
        Wrong::Nothing => {}
        Wrong::HookLost => unhook(city, charged).await,
        Wrong::Nameless => {
            repo.forget_provenance(name);
            unhook(city, charged).await;
        }
        Wrong::Closed => close(city, charged).await,
        Wrong::Hollow => city.parts.sessions.hollow(&charged.session),
        // Refused when there is nothing to land.
        Wrong::Done => drop(city.completed(&charged.raider).await),
        Wrong::Blocked => {
            let away = RepoError::Remote("no route".into());
            repo.fail_for("push_branch", &charged.branch, away);
            drop(city.completed(&charged.raider).await);
        }
        Wrong::Quarantined => exhaust(city, charged).await,
        Wrong::Unseen => city
            .parts
            .sessions
            .hide(&charged.session, Some("no answer")),
        Wrong::Unmeasured => {
            let damaged = RepoError::Failed("its index is damaged".into());
            repo.fail_for("measure", &charged.sandbox.display().to_string(), damaged);
            unhook(city, charged).await;
        }
    }
}

/// Has the witness killed at every nth call.
fn kill_at_calls(city: &TestCity, nth: usize) -> Arc<AtomicUsize> {
    let (calls, kills) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for op in OPS {
        let (root, calls, kills) = (city.root.clone(), Arc::clone(&calls), Arc::clone(&kills));
        let interlude = move || {
            let due = calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(nth);
            if due && kills.load(Ordering::SeqCst) < KILLS {
                let killed = TestCity::kill_actors_of::<WitnessMsg>(&root);
                kills.fetch_add(killed, Ordering::SeqCst);
            }
        };
        match op.strip_prefix("sessions.") {
            Some(op) => city.parts.sessions.interlude(op, interlude),
            None => city.parts.repo.interlude(op, interlude),
        }
    }
    kills
}

async fn end(case: &Case, kill: Kill) -> End {
    let mut city = scenario(case).start().await;
    let mut all = Vec::new();
    for (wrong, work) in &case.wrongs {
        let relic = city.relic("a").await;
        all.push((city.charge(&relic).await.unwrap(), *wrong, *work));
    }
    for (charged, wrong, work) in &all {
        go_wrong(&city, charged, *wrong, *work).await;
    }
    let at_calls = (kill == Kill::WitnessAtCalls).then(|| kill_at_calls(&city, case.nth));
    let mut left = MINUTE * 6;
    while let Some(rest) = left.checked_sub(case.every) {
        left = rest;
        city.pass(case.every).await;
        match kill {
            Kill::Nobody | Kill::WitnessAtCalls => {}
            Kill::Witness => assert_eq!(city.kill_actors::<WitnessMsg>(), 1),
            Kill::Supervisor => {
                let clock = Arc::clone(&city.world.clock);
                city = scenario(case).start_on(city.crash().await, clock).await;
            }
        }
    }
    if let Some(kills) = at_calls {
        assert!(kills.swap(KILLS, Ordering::SeqCst) > 0);
    }
    // A new supervisor measures silence from its start.
    city.pass(MINUTE * 12).await;
    let mut relics = Vec::new();
    for (charged, _, _) in &all {
        relics.push(city.relic_now(&charged.relic).await.status);
    }
    let mut noted = zombies(&city).await;
    noted.sort();
    let called = city.escalations().await.into_iter();
    let mut called: Vec<_> = called
        .map(|it| (it.title.clone(), subject(&it), it.status))
        .collect();
    // Escalations about one raider stay in order of time.
    called.sort_by_key(|(title, subject, _)| (title.clone(), subject.clone()));
    // A problem that was over for a while is reported again: only its final state counts.
    called.dedup_by(|later, earlier| {
        let same = (&later.0, &later.1) == (&earlier.0, &earlier.1);
        if same {
            earlier.2 = later.2;
        }
        same
    });
    let sessions = &city.parts.sessions;
    let told = all.iter().map(|(charged, _, _)| {
        let told = sessions.sent(&charged.session).len();
        (told, city.starts(&charged.session))
    });
    let saved = city.parts.repo.salvages();
    let end = End {
        sandboxes: city.parts.repo.names(),
        relics,
        told: told.collect(),
        running: sessions.running().iter().map(ToString::to_string).collect(),
        zombies: noted,
        called,
        landings: city.parts.repo.landings(),
        // The fake saves the same state twice.
        salvages: saved.into_iter().map(|saved| saved.id).collect(),
    };
    city.root.kill();
    end
}

fn subject(escalation: &Relic) -> String {
    let mut labels = escalation.labels.iter();
    let about = labels.find_map(|label| label.strip_prefix("about:"));
    let about = about.unwrap_or_default();
    let subject = about.rsplit_once(':').map_or(about, |(subject, _)| subject);
    subject.to_owned()
}

fn case() -> impl Strategy<Value = Case> {
    let work = [Work::None, Work::Committed, Work::Dirty, Work::Stashed];
    let wrong = (select(&Wrong::ALL[..]), select(work.to_vec()));
    let wrongs = prop::collection::vec(wrong, 1..=4);
    let all = (
        wrongs,
        any::<bool>(),
        any::<bool>(),
        15_u64..120,
        5_usize..25,
    );
    all.prop_map(|(wrongs, stalls, goes, every, nth)| Case {
        wrongs,
        stalls,
        goes,
        every: Duration::from_secs(every),
        nth,
    })
}

fn changes_nothing(case: &Case, kills: &[Kill]) -> Result<(), TestCaseError> {
    let of = |kill| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(end(case, kill))
    };
    let undisturbed = of(Kill::Nobody);
    for kill in kills {
        prop_assert_eq!(&of(*kill), &undisturbed, "{:?}", kill);
    }
    Ok(())
}

#[test]
fn a_kill_changes_no_conclusion() {
    let seed = seeded::first();
    let kills = [Kill::Witness, Kill::WitnessAtCalls, Kill::Supervisor];
    match seeded::runner(seed, by_tier(1, 60)).run(&case(), |case| changes_nothing(&case, &kills)) {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("HORDE_SEED={seed}: {why}\n{case:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Runs each case alone, independent of chance; in `cargo test` some of them.
#[test]
fn kill_changes_no_conclusion_in_any_single_case() {
    let all = Wrong::ALL.into_iter().enumerate();
    for (nth, wrong) in all.filter(|(nth, _)| tier::takes(*nth, 4)) {
        let work = [Work::None, Work::Stashed][nth % 2];
        let case = Case {
            wrongs: vec![(wrong, work)],
            stalls: true,
            goes: true,
            every: MINUTE,
            nth: nth % 3 + 4,
        };
        if let Err(error) = changes_nothing(&case, &[Kill::WitnessAtCalls]) {
            panic!("{case:?}: {error}");
        }
    }
}
