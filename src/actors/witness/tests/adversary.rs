//! The adversary: at every call of a port between the detection of a zombie and its removal, a newcomer takes its
//! place. The newcomer is never touched (`witness-patrol.md`, TOCTOU guard).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

use super::zombies::{exhaust, fragile};
use super::{PATROL, unhook};
use crate::actors::mail::Charged;
use crate::actors::mail::RootMail;
use crate::domain::cause::Cause;
use crate::domain::ids::{ChildId, RelicId};
use crate::domain::relic::{Hook, RelicStatus};
use crate::testing::world::{Scenario, TestCity};
use crate::testing::{records, tier};

/// The calls of git and of the session provider that the witness and the nuke make, and the number of each that is
/// tried, one after the other.
const OPS: &[(&str, usize)] = &[
    ("sandboxes", 4),
    ("provenance", 3),
    ("measure", 4),
    ("on_main", 2),
    ("holds", 2),
    ("salvage_size", 2),
    ("salvage", 2),
    ("salvage_head", 2),
    ("discard_sandbox", 2),
    ("sessions.list", 3),
    ("sessions.facts", 6),
    ("sessions.stop", 2),
];
/// The grace of these scenarios; short, because every patrol costs.
const GRACE: Duration = Duration::from_secs(120);
/// By then the grace has passed, and the sandbox has been kept for `keep_dirty`.
const LATER: Duration = Duration::from_secs(120 + 3 * 31);

/// The act that happens in the middle of a call.
#[derive(Default)]
pub(super) struct Visit {
    calls: AtomicUsize,
    came: AtomicBool,
}

impl Visit {
    /// Has `act` happen in the middle of that call, once; `act` returns whether it did.
    pub(super) fn at(
        city: &TestCity,
        op: &'static str,
        call: usize,
        act: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let visit = Arc::new(Self::default());
        let told = Arc::clone(&visit);
        let interlude = move || {
            let now = told.calls.fetch_add(1, Ordering::SeqCst) == call;
            if now && act() {
                told.came.store(true, Ordering::SeqCst);
            }
        };
        match op.strip_prefix("sessions.") {
            Some(op) => city.parts.sessions.interlude(op, interlude),
            None => city.parts.repo.interlude(op, interlude),
        }
        visit
    }

    /// Returns true when it happened.
    pub(super) fn came(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }

    /// Returns true when there was such a call; otherwise there is no later one either.
    pub(super) fn was_called(&self, call: usize) -> bool {
        self.calls.load(Ordering::SeqCst) > call
    }
}

/// The contents of a sandbox without hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    /// A file: salvaged after `keep_dirty`.
    Files,
    /// A commit: the remotes are asked about it.
    Commits,
}

impl Holds {
    const ALL: [Self; 3] = [Self::Nothing, Self::Files, Self::Commits];

    /// Returns the calls that its removal makes.
    fn calls(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &["measure", "holds", "discard_sandbox"],
            Self::Files => &["measure", "salvage_size", "salvage", "discard_sandbox"],
            Self::Commits => &["on_main", "salvage_size", "salvage", "discard_sandbox"],
        }
    }
}

/// Starts with a sandbox without hook, shortly before its grace ends.
async fn lone(holds: Holds) -> (TestCity, Charged) {
    let scenario = Scenario::new().with(|city| city.retention.salvage_max = Some(100));
    let scenario = scenario.rig(|rig| {
        (rig.witness.spawn_grace, rig.witness.keep_dirty) = (GRACE, PATROL / 2);
    });
    let city = scenario.start().await;
    let charged = city.charged("a").await;
    match holds {
        Holds::Nothing => {}
        Holds::Files => city.parts.repo.dirty(&charged.raider.name, "wip.txt"),
        Holds::Commits => drop(city.parts.repo.commit(&charged.raider.name)),
    }
    unhook(&city, &charged).await;
    city.pass(GRACE - PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    (city, charged)
}

/// Starts with a quarantined raider that was kept for `keep_dirty`, shortly before its quarantine ends.
async fn quarantined() -> (TestCity, Charged) {
    let scenario = fragile().rig(|rig| {
        rig.witness.spawn_grace = GRACE;
        rig.witness.keep_dirty = Duration::ZERO;
    });
    let scenario = scenario.with(|city| city.daemon.restart.window = GRACE + PATROL);
    let city = scenario.start().await;
    let charged = city.charged("a").await;
    exhaust(&city, &charged).await;
    city.pass(GRACE - PATROL - Duration::from_secs(15)).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    (city, charged)
}

/// Runs the newcomer at every call; in `cargo test` only at some. At the `needed` calls it must have come.
async fn sweep(needed: &[&str], visited: impl AsyncFn(&'static str, usize) -> Arc<Visit>) {
    let mut came_at = BTreeSet::new();
    let taken = |(place, (op, _)): &(usize, &(&str, usize))| {
        let taken = tier::takes(*place, 4);
        taken || needed.contains(op)
    };
    for (_, (op, calls)) in OPS.iter().enumerate().filter(taken) {
        for call in 0..*calls {
            let visit = visited(op, call).await;
            came_at.extend(visit.came().then_some(*op));
            if !visit.was_called(call) {
                break;
            }
        }
    }
    for op in needed {
        assert!(came_at.contains(op), "{op}: {came_at:?}");
    }
}

/// New contents stay in place, or are salvaged with the rest.
#[tokio::test(start_paused = true)]
async fn a_head_that_moves_and_a_file_that_appears_are_never_lost() {
    for (place, holds) in Holds::ALL.into_iter().enumerate() {
        for dirties in [true, false] {
            if !tier::takes(2 * place + usize::from(dirties), 3) {
                continue;
            }
            let visited = async |op, call| {
                let (city, charged) = lone(holds).await;
                let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
                let head = Arc::new(Mutex::new(None));
                let made = Arc::clone(&head);
                let visit = Visit::at(&city, op, call, move || {
                    if repo.names().is_empty() {
                        return false;
                    }
                    match dirties {
                        true => repo.dirty(&name, "late.txt"),
                        false => *made.lock().unwrap() = Some(repo.commit(&name)),
                    }
                    true
                });
                city.pass(LATER + PATROL * 2).await;
                let what = format!("{op} {call}, {holds:?}, dirty: {dirties}");
                assert!(city.parts.repo.names().is_empty(), "{what}: it lingers");
                if visit.came() {
                    let saved = city.parts.repo.saved().pop();
                    let saved = saved.unwrap_or_else(|| panic!("{what}: lost"));
                    match head.lock().unwrap().take() {
                        Some(head) => assert_eq!(saved.head, head, "{what}"),
                        None => assert!(saved.dirty.contains(&"late.txt".into()), "{what}"),
                    }
                }
                city.root.kill();
                visit
            };
            sweep(holds.calls(), visited).await;
        }
    }
}

/// A later incarnation takes the name, with a hook and a sandbox that looks the same.
#[tokio::test(start_paused = true)]
async fn a_later_incarnation_of_the_name_is_never_touched() {
    let all = Holds::ALL.into_iter().enumerate();
    for (_, holds) in all.filter(|(place, _)| tier::takes(*place, 3)) {
        let visited = async |op, call| {
            let (city, charged) = lone(holds).await;
            let other = city.relic("b").await;
            let newcomer = Newcomer::of(&city, &charged, other);
            let repo = Arc::clone(&city.parts.repo);
            let come = move || !repo.names().is_empty() && newcomer.come();
            let visit = Visit::at(&city, op, call, come);
            city.pass(LATER).await;
            if visit.came() {
                let what = format!("{op} {call}, {holds:?}");
                assert_eq!(city.parts.repo.names(), ["Toast"], "{what}");
                let hook = city.hook(&charged.raider).await.expect("its hook");
                assert_eq!(hook.incarnation.0, 2, "{what}");
                assert!(city.runs(&charged.session), "{what}");
            }
            city.root.kill();
            visit
        };
        sweep(holds.calls(), visited).await;
    }
}

/// The next incarnation of a raider.
pub(super) struct Newcomer {
    world: Arc<crate::actors::world::World>,
    repo: Arc<crate::testing::fake_repo::FakeRepo>,
    charged: Charged,
    relic: RelicId,
}

impl Newcomer {
    pub(super) fn of(city: &TestCity, charged: &Charged, relic: RelicId) -> Self {
        Self {
            world: Arc::clone(&city.world),
            repo: Arc::clone(&city.parts.repo),
            charged: charged.clone(),
            relic,
        }
    }

    pub(super) fn come(&self) -> bool {
        let spec = self.repo.supersede(&self.charged.raider.name);
        let hook = Hook {
            incarnation: spec.incarnation,
            branch: spec.branch,
            base: spec.base,
            from_target: false,
            charged_at: self.world.clock.now(),
            ..records::hook(&self.charged.raider, &self.relic)
        };
        let hooked = self.world.store.run(move |txn| {
            let mut relic = txn.relic(&hook.relic)?;
            relic.status = RelicStatus::Hooked;
            relic.assignee = Some(hook.raider.to_string());
            txn.put_relic(&relic)?;
            txn.next_incarnation(&hook.raider)?;
            txn.put_hook(&hook)
        });
        // Calls of a port run on blocking threads.
        Handle::current().block_on(hooked).unwrap();
        true
    }
}

/// A person releases it while its removal is under way: the resulting session is not ended, and keeps its sandbox.
#[tokio::test(start_paused = true)]
async fn a_recreated_session_is_never_touched() {
    let visited = async |op, call| {
        let (city, charged) = quarantined().await;
        let stops = city.parts.sessions.stops().len();
        let (root, id) = (city.root.clone(), ChildId::Raider(charged.raider.clone()));
        let visit = Visit::at(&city, op, call, move || {
            let (reply, answer) = ractor::concurrency::oneshot();
            let (id, order, reply) = (id.clone(), Cause::Operator.into(), reply.into());
            let wake = RootMail::Wake { id, order, reply };
            root.cast(wake.into()).unwrap();
            // Refused when it is already being ended.
            matches!(answer.blocking_recv(), Ok(Ok(())))
        });
        city.pass(LATER).await;
        let what = format!("{op} {call}");
        if visit.came() {
            assert!(city.runs(&charged.session), "{what}");
            assert_eq!(city.parts.repo.names(), ["Toast"], "{what}");
            assert_eq!(city.parts.sessions.stops().len(), stops, "{what}");
            assert_eq!(
                city.status(&charged.relic).await,
                RelicStatus::Hooked,
                "{what}"
            );
        } else {
            assert!(city.parts.repo.names().is_empty(), "{what}");
        }
        city.root.kill();
        visit
    };
    let needed = ["sandboxes", "measure", "sessions.list", "sessions.facts"];
    sweep(&needed, visited).await;
}
