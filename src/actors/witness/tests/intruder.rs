//! The adversary again: at every call of a port between detection and action, and until the action is over, another
//! session has the name of the judged one; of the same raider, which has every reason to go on, or of the next
//! incarnation. It is never ended, and keeps its sandbox.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

use super::adversary::{Newcomer, Visit};
use super::{PATROL, close};
use crate::actors::mail::Charged;
use crate::actors::mail::WitnessMsg;
use crate::actors::sagas::repair;
use crate::domain::ids::Incarnation;
use crate::domain::relic::{DoneIntent, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::ports::repo::Repo;
use crate::ports::sessions::SessionHandle;
use crate::testing::records;
use crate::testing::tier;
use crate::testing::world::{Scenario, TestCity, rig};

const MINUTE: Duration = Duration::from_secs(60);
/// The age at which a session is no longer spared; short, because every patrol costs.
const GRACE: Duration = Duration::from_secs(120);

/// The calls of git and of the session provider, and the number of each that is tried, one after the other.
const OPS: &[(&str, usize)] = &[
    ("sandboxes", 5),
    ("provenance", 3),
    ("measure", 3),
    ("progress", 3),
    ("changes", 2),
    ("on_main", 2),
    ("holds", 2),
    ("strays", 2),
    ("ailment", 2),
    ("salvage_size", 2),
    ("salvage", 2),
    ("salvage_head", 2),
    ("repair_sandbox", 1),
    ("discard_sandbox", 2),
    ("forget_sandbox", 1),
    ("sessions.list", 3),
    ("sessions.facts", 8),
    ("sessions.agents_live", 3),
    ("sessions.logs", 1),
    ("sessions.cpu", 2),
    ("sessions.interrupt", 1),
    ("sessions.stop", 2),
    ("sessions.forget", 1),
];

/// The detected state, and the action on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    AgentDead,
    StuckInDone,
    RelicClosed,
    Stalled,
    /// A person nukes an incarnation.
    Nuked,
    /// Its work is over, and was pushed.
    Released,
    /// As `Released`, with files that are salvaged in the end.
    Kept,
    /// As `Released`, with its directory deleted by hand.
    Lost,
    /// Its review waited for too long.
    Held,
    /// A person has its sandbox repaired.
    Repaired,
}

impl Case {
    /// Starts shortly before the detection.
    async fn city(self) -> (TestCity, Charged) {
        let scenario = Scenario::new().rig(|rig| {
            rig.witness.spawn_grace = GRACE;
            rig.witness.keep_dirty = PATROL / 2;
            rig.witness.review_hold = 2 * MINUTE;
            rig.forge.review_human = self == Self::Held;
            if self == Self::Stalled {
                (rig.raiders.stall_after, rig.raiders.nudges) = (Some(4 * MINUTE), 0);
            }
        });
        let scenario = scenario.with(|city| city.retention.salvage_max = Some(100));
        let city = scenario.start().await;
        let charged = city.charged("a").await;
        let repo = &city.parts.repo;
        match self {
            Self::AgentDead => {
                city.parts.sessions.hollow(&charged.session);
                city.pass(GRACE - PATROL).await;
            }
            Self::StuckInDone => {
                say_done(&city, &charged, true).await;
                city.pass(50 * Duration::from_secs(1)).await;
            }
            Self::RelicClosed => close(&city, &charged).await,
            Self::Stalled => city.pass(3 * MINUTE).await,
            Self::Nuked => {}
            Self::Released | Self::Kept | Self::Lost => {
                let head = repo.commit(&charged.raider.name);
                repo.push_branch(&charged.branch, &head, None).unwrap();
                match self {
                    Self::Kept => repo.dirty(&charged.raider.name, "wip.txt"),
                    Self::Lost => repo.lose(&charged.raider.name),
                    _ => {}
                }
                say_done(&city, &charged, false).await;
            }
            Self::Held => {
                repo.commit(&charged.raider.name);
                city.completed(&charged.raider).await.unwrap();
                city.pass(2 * MINUTE - PATROL).await;
            }
            Self::Repaired => repo.dirty(&charged.raider.name, "wip.txt"),
        }
        (city, charged)
    }

    /// Lets it be detected and acted upon. The newcomer gives no reason of its own in that time.
    async fn pass(self, city: &TestCity, charged: &Charged) {
        match self {
            Self::AgentDead | Self::RelicClosed => city.pass(GRACE + PATROL * 2).await,
            Self::Released | Self::Kept | Self::Lost | Self::Held => city.pass(PATROL * 4).await,
            Self::Repaired => {
                // Refused when another incarnation has come.
                let _refused = repair::run(&city.world, charged.raider.clone()).await;
                city.pass(PATROL).await;
            }
            Self::StuckInDone | Self::Stalled => city.pass(2 * MINUTE + PATROL).await,
            Self::Nuked => {
                // Refused when another incarnation has come.
                let _refused = city.nuke(&charged.raider, false).await;
                city.pass(PATROL).await;
            }
        }
    }
}

/// Declares completion. If another version began the saga, nothing follows; otherwise the work is over.
async fn say_done(city: &TestCity, charged: &Charged, hangs: bool) {
    let (raider, at) = (charged.raider.clone(), city.world.clock.now());
    let head = city.parts.repo.tip();
    city.store(move |txn| {
        let mut hook = txn.hook(&raider)?.unwrap();
        hook.done = Some(DoneIntent {
            at,
            ..records::completed(head.clone())
        });
        txn.put_hook(&hook)?;
        let subject = raider.to_string();
        if hangs {
            txn.open_saga(SagaKind::Done, &rig(), &subject, "intent", &().into())?;
        }
        Ok(())
    })
    .await;
    if hangs {
        city.world.directory.tell_witness(&rig(), WitnessMsg::Look);
    }
}

/// Removes the reason to act: no completion, no closed relic.
fn absolve(city: &TestCity, charged: &Charged) -> impl Fn() + Send + Sync + use<> {
    let (world, raider) = (Arc::clone(&city.world), charged.raider.clone());
    let id = charged.relic.clone();
    move || {
        let (raider, id) = (raider.clone(), id.clone());
        let absolved = world.store.run(move |txn| {
            for saga in txn.sagas(None)? {
                if saga.kind == SagaKind::Done {
                    txn.close_saga(saga.id)?;
                }
            }
            if let Some(mut hook) = txn.hook(&raider)? {
                hook.done = None;
                txn.put_hook(&hook)?;
            }
            let mut relic = txn.relic(&id)?;
            relic.status = RelicStatus::Hooked;
            relic.closed = None;
            txn.put_relic(&relic)
        });
        // Calls of a port run on blocking threads.
        Handle::current().block_on(absolved).unwrap();
    }
}

/// Runs the case once per call with an intruder of that incarnation; in `cargo test` at half of the needed calls and a
/// few others. At the needed calls it must have come.
async fn sweep(case: Case, incarnation: Incarnation, needed: &[&str]) {
    let taken = |(place, (op, _)): &(usize, &(&str, usize))| {
        let one_in = if needed.contains(op) { 2 } else { 8 };
        tier::takes(*place, one_in)
    };
    for (_, (op, calls)) in OPS.iter().enumerate().filter(taken) {
        let mut came = false;
        for call in 0..*calls {
            let visit = visited(case, incarnation, op, call).await;
            came |= visit.came();
            if !visit.was_called(call) {
                break;
            }
        }
        assert!(came || !needed.contains(op), "{case:?} {op}: it never came");
    }
}

/// Runs once, with the intruder at this call.
async fn visited(
    case: Case,
    incarnation: Incarnation,
    op: &'static str,
    call: usize,
) -> Arc<Visit> {
    let (city, charged) = case.city().await;
    let next = city.relic("b").await;
    let newcomer = Newcomer::of(&city, &charged, next);
    let absolve = absolve(&city, &charged);
    let (sessions, id) = (Arc::clone(&city.parts.sessions), charged.session.clone());
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    let intruder: Arc<Mutex<Option<SessionHandle>>> = Arc::default();
    let seen = Arc::clone(&intruder);
    let visit = Visit::at(&city, op, call, move || {
        if case == Case::Lost {
            repo.give_back(&name);
        } else if repo.names().is_empty() {
            return false;
        }
        absolve();
        if incarnation > Incarnation(1) {
            newcomer.come();
        }
        *seen.lock().unwrap() = Some(sessions.recreate(&id, incarnation));
        true
    });
    case.pass(&city, &charged).await;
    if visit.came() {
        let what = format!("{case:?} {incarnation}, {op} {call}");
        let handle = intruder.lock().unwrap().clone().unwrap();
        let sessions = &city.parts.sessions;
        let stops = sessions.stops();
        let stopped = stops.iter().any(|(stopped, _)| *stopped == handle);
        assert!(!stopped, "{what}: it was to be ended");
        let ended = sessions.history().contains(&(handle, false));
        assert!(!ended, "{what}: it ended");
        assert_eq!(city.parts.repo.names(), ["Toast"], "{what}");
        let hook = city.hook(&charged.raider).await;
        let hook = hook.unwrap_or_else(|| panic!("{what}: no hook"));
        assert_eq!(hook.incarnation, incarnation, "{what}");
    }
    city.root.kill();
    visit
}

async fn recreated(case: Case, needed: &[&str]) {
    for incarnation in [1, 2] {
        // Finished work and a person's order mean the raider with any session.
        let any = !matches!(
            case,
            Case::AgentDead | Case::StuckInDone | Case::RelicClosed | Case::Stalled
        );
        if any && incarnation == 1 {
            continue;
        }
        sweep(case, Incarnation(incarnation), needed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn class_2_replaces_no_newcomer() {
    let needed = ["sessions.agents_live", "sessions.logs", "sessions.stop"];
    recreated(Case::AgentDead, &needed).await;
}

#[tokio::test(start_paused = true)]
async fn class_3_ends_no_newcomer() {
    recreated(Case::StuckInDone, &["sessions.facts", "sessions.stop"]).await;
}

#[tokio::test(start_paused = true)]
async fn class_4_ends_no_newcomer_and_takes_no_sandbox_from_it() {
    let needed = ["measure", "sandboxes", "discard_sandbox", "sessions.stop"];
    recreated(Case::RelicClosed, &needed).await;
}

#[tokio::test(start_paused = true)]
async fn the_restart_of_a_stalled_session_replaces_no_newcomer() {
    let needed = ["changes", "sessions.cpu", "sessions.stop"];
    recreated(Case::Stalled, &needed).await;
}

#[tokio::test(start_paused = true)]
async fn a_nuke_is_for_one_incarnation() {
    let needed = ["measure", "holds", "discard_sandbox", "sessions.stop"];
    recreated(Case::Nuked, &needed).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_after_done_is_for_one_incarnation() {
    let needed = ["measure", "holds", "salvage_head", "discard_sandbox"];
    recreated(Case::Released, &needed).await;
    recreated(Case::Held, &["measure", "discard_sandbox"]).await;
}

#[tokio::test(start_paused = true)]
async fn removal_after_keep_dirty_is_for_one_incarnation() {
    let needed = ["measure", "salvage_size", "salvage", "discard_sandbox"];
    recreated(Case::Kept, &needed).await;
    recreated(Case::Lost, &["strays", "forget_sandbox", "sessions.forget"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_repair_is_for_one_incarnation() {
    let needed = ["measure", "salvage", "repair_sandbox", "sessions.stop"];
    recreated(Case::Repaired, &needed).await;
}
