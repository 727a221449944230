//! The adversary: at every call of a port between the detection of a zombie and its removal, something
//! else comes in its place. Nothing of the newcomer is ever touched (`witness-patrol.md`, TOCTOU guard).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::runtime::Handle;

use super::zombies::{exhaust, fragile};
use super::{GROWN, PATROL, unhook};
use crate::actors::root::RootMsg;
use crate::actors::sagas::charge::Charged;
use crate::domain::cause::Cause;
use crate::domain::ids::{ChildId, RelicId};
use crate::domain::relic::{Hook, RelicStatus};
use crate::testing::world::{Scenario, Town};

/// Calls of git and of the session provider that the witness and the nuke make.
const OPS: &[&str] = &[
    "sandboxes",
    "provenance",
    "facts",
    "discard_sandbox",
    "sessions.list",
    "sessions.facts",
    "sessions.stop",
    "sessions.forget",
];
/// Of each, so many are tried, one after the other.
const CALLS: usize = 6;

/// Has this happen in the middle of that call, once, as long as the sandbox is there. True once it has.
pub(super) fn at(
    town: &Town,
    op: &'static str,
    call: usize,
    act: impl Fn() -> bool + Send + Sync + 'static,
) -> Arc<AtomicBool> {
    let (calls, came) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let (repo, told) = (Arc::clone(&town.parts.repo), Arc::clone(&came));
    let interlude = move || {
        let now = calls.fetch_add(1, Ordering::SeqCst) == call;
        if now && !repo.names().is_empty() && act() {
            told.store(true, Ordering::SeqCst);
        }
    };
    match op.strip_prefix("sessions.") {
        Some(op) => town.parts.sessions.interlude(op, interlude),
        None => town.parts.repo.interlude(op, interlude),
    }
    came
}

fn steps() -> impl Iterator<Item = (&'static str, usize)> {
    let all = OPS.iter().copied();
    all.flat_map(|op| (0..CALLS).map(move |call| (op, call)))
}

/// A sandbox without hook, a moment before it has grown.
async fn lone() -> (Town, Charged) {
    let town = Scenario::new().start().await;
    let relic = town.relic("a").await;
    let charged = town.charge(&relic).await.unwrap();
    unhook(&town, &charged).await;
    town.pass(GROWN - PATROL * 2).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    (town, charged)
}

/// A raider in quarantine, a moment before it has grown.
async fn quarantined() -> (Town, Charged) {
    let town = fragile().start().await;
    let relic = town.relic("a").await;
    let charged = town.charge(&relic).await.unwrap();
    exhaust(&town, &charged).await;
    town.pass(GROWN - PATROL * 2 - std::time::Duration::from_secs(10))
        .await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    (town, charged)
}

#[tokio::test(start_paused = true)]
async fn a_head_that_moves_and_a_file_that_appears_are_never_lost() {
    let mut came_at = Vec::new();
    for (op, call) in steps() {
        for dirties in [true, false] {
            let (town, charged) = lone().await;
            let (repo, name) = (Arc::clone(&town.parts.repo), charged.raider.name.clone());
            let came = at(&town, op, call, move || {
                match dirties {
                    true => repo.dirty(&name, "late.txt"),
                    false => drop(repo.commit(&name)),
                }
                true
            });
            town.pass(GROWN).await;
            if came.load(Ordering::SeqCst) {
                came_at.push(op);
                let what = format!("{op} {call}, dirty: {dirties}");
                assert_eq!(town.parts.repo.names(), ["Toast"], "{what}");
                assert_eq!(town.escalations().await.len(), 1, "{what}");
            } else {
                assert!(town.parts.repo.names().is_empty(), "{op} {call}");
            }
            town.root.kill();
        }
    }
    assert!(came_at.contains(&"discard_sandbox"), "{came_at:?}");
}

/// The name goes to a later incarnation, with a hook and a sandbox that looks the same.
#[tokio::test(start_paused = true)]
async fn a_later_incarnation_of_the_name_is_never_touched() {
    let mut came_at = Vec::new();
    for (op, call) in steps() {
        let (town, charged) = lone().await;
        let other = town.relic("b").await;
        let newcomer = Newcomer::of(&town, &charged, other);
        let came = at(&town, op, call, move || newcomer.come());
        town.pass(GROWN).await;
        if came.load(Ordering::SeqCst) {
            came_at.push(op);
            assert_eq!(town.parts.repo.names(), ["Toast"], "{op} {call}");
            let hook = town.hook(&charged.raider).await.expect("its hook");
            assert_eq!(hook.incarnation.0, 2, "{op} {call}");
            assert!(town.runs(&charged.session), "{op} {call}");
        }
        town.root.kill();
    }
    assert!(came_at.contains(&"discard_sandbox"), "{came_at:?}");
}

/// The next incarnation of a raider.
pub(super) struct Newcomer {
    world: Arc<crate::actors::world::World>,
    repo: Arc<crate::testing::fake_repo::FakeRepo>,
    charged: Charged,
    relic: RelicId,
}

impl Newcomer {
    pub(super) fn of(town: &Town, charged: &Charged, relic: RelicId) -> Self {
        Self {
            world: Arc::clone(&town.world),
            repo: Arc::clone(&town.parts.repo),
            charged: charged.clone(),
            relic,
        }
    }

    pub(super) fn come(&self) -> bool {
        let spec = self.repo.supersede(&self.charged.raider.name);
        let hook = Hook {
            raider: self.charged.raider.clone(),
            incarnation: spec.incarnation,
            relic: self.relic.clone(),
            branch: spec.branch,
            base: spec.base,
            target: "main".into(),
            harness: "script".parse().unwrap(),
            charged_at: self.world.clock.now(),
            done: None,
        };
        let hooked = self.world.store.run(move |txn| {
            let mut relic = txn.relic(&hook.relic)?;
            relic.status = RelicStatus::Hooked;
            relic.assignee = Some(hook.raider.to_string());
            txn.put_relic(&relic)?;
            txn.next_incarnation(&hook.raider)?;
            txn.put_hook(&hook)
        });
        // Calls of a port are on blocking threads.
        Handle::current().block_on(hooked).unwrap();
        true
    }
}

/// A person lets it go while its removal is under way: the session that comes of it is not ended, nor is
/// its sandbox taken from it.
#[tokio::test(start_paused = true)]
async fn a_recreated_session_is_never_touched() {
    let mut came_at = Vec::new();
    for (op, call) in steps() {
        let (town, charged) = quarantined().await;
        let stops = town.parts.sessions.stops().len();
        let (root, id) = (town.root.clone(), ChildId::Raider(charged.raider.clone()));
        let came = at(&town, op, call, move || {
            let (reply, answer) = ractor::concurrency::oneshot();
            let (id, cause, reply) = (id.clone(), Cause::Operator, reply.into());
            let wake = RootMsg::Wake { id, cause, reply };
            root.cast(wake).unwrap();
            // Refused when it is being ended already.
            matches!(answer.blocking_recv(), Ok(Ok(())))
        });
        town.pass(GROWN).await;
        let what = format!("{op} {call}");
        if came.load(Ordering::SeqCst) {
            came_at.push(op);
            assert!(town.runs(&charged.session), "{what}");
            assert_eq!(town.parts.repo.names(), ["Toast"], "{what}");
            assert_eq!(town.parts.sessions.stops().len(), stops, "{what}");
            let relic = town.relic_now(&charged.relic).await;
            assert_eq!(relic.status, RelicStatus::Hooked, "{what}");
        } else {
            assert!(town.parts.repo.names().is_empty(), "{what}");
        }
        town.root.kill();
    }
    for op in ["sandboxes", "facts", "sessions.list", "sessions.facts"] {
        assert!(came_at.contains(&op), "{op}: {came_at:?}");
    }
}
