//! What outlives the supervisor of the deaths of a child: with `restart_history = "persistent"` all that
//! counts against it. Otherwise of a raider alone that its session was up: a session that ended while no
//! supervisor ran is a death, and what follows has the permissions that follow a death.
//!
//! ```text
//!  start ──► its row is open, on the disk ──► session ──► death ──► a death more, written behind
//!                                                └──────► planned end ──► not open, written behind
//!  next supervisor: an open row and no session ──► one death more, before anything is started
//! ```
//!
//! With a persistent history a start waits for its row, and the store keeps the order of what it is given: whatever kills the
//! supervisor in between, there is no restart without its death on record. A supervisor that is
//! killed in the middle of a planned end counts that one as a death.
//!
//! With either history a raider that is in quarantine stays there over a restart of the supervisor, until the time that was
//! promised (`actors/quarantine.rs`).

use crate::actors::mail::Written;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Root;
use super::slot::Slot;
use crate::actors::mail::ChildState;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::records::quarantine::Held;
use crate::domain::ids::{AgentName, ChildId, RaiderId};
use crate::domain::reconcile::Decision;
use crate::domain::restart::{DeathWindow, Deaths, Mono};

/// How long a start waits for its row. Sessions start without a store, too (`4-rules.md`, store):
/// then deaths are counted in memory alone.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an earlier supervisor left in the store.
pub(super) struct Left {
    pub(super) deaths: Vec<Deaths>,
    pub(super) quarantined: Vec<Held>,
}

/// What is kept in the store.
#[derive(Default)]
pub(super) struct Histories {
    /// What an earlier supervisor left has been read.
    pub(super) loaded: bool,
    /// Of children that have no slot yet.
    left: BTreeMap<ChildId, Deaths>,
    /// Raiders that were in quarantine or on trial, and have no slot yet.
    quarantined: BTreeMap<RaiderId, Held>,
    /// Of those that have, as it was handed over last.
    kept: BTreeMap<ChildId, Kept>,
}

struct Kept {
    open: bool,
    deaths: Vec<Mono>,
    /// The store did not take it: it is handed over again.
    lost: Arc<AtomicBool>,
}

impl Root {
    /// Takes over what an earlier supervisor left: of children that may come back.
    pub(super) fn load_histories(&mut self, left: Left, hooked: &BTreeSet<RaiderId>) {
        self.histories.loaded = true;
        let quarantined = left.quarantined.into_iter();
        self.histories.quarantined = quarantined
            .map(|held| (held.raider.clone(), held))
            .collect();
        let outlives = self.world.city.daemon.restart.outlives();
        let agents = &self.world.city.agents;
        for deaths in left.deaths {
            let id = child(&deaths.child).filter(|id| match id {
                ChildId::Raider(raider) => hooked.contains(raider),
                ChildId::Agent(name) => agents
                    .iter()
                    .any(|agent| agent.name == *name || agent.member_number(name).is_some()),
            });
            match id.filter(|id| self.is_kept(id)) {
                Some(id) if self.slots.contains_key(&id) => {}
                Some(id) if outlives => drop(self.histories.left.insert(id, deaths)),
                Some(id) if deaths.open => {
                    let at = Vec::new();
                    self.histories.left.insert(id, Deaths { at, ..deaths });
                }
                Some(_) | None => drop(self.write(nothing(deaths.child))),
            }
        }
    }

    /// What counts against a child that is new here.
    pub(super) fn restore(&mut self, slot: &mut Slot) {
        self.restore_deaths(slot);
        self.restore_quarantine(slot);
    }

    /// A raider that was in quarantine stays there until the time that was promised, and is on trial after it.
    fn restore_quarantine(&mut self, slot: &mut Slot) {
        let Work::Raider { hook, .. } = &slot.spec.work else {
            return;
        };
        let held = self.histories.quarantined.remove(&hook.raider);
        let Some(held) = held.filter(|held| held.incarnation == hook.incarnation) else {
            return;
        };
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = &self.world.city.daemon.restart;
        if policy.max_restarts == 0 {
            return;
        }
        let left = Duration::try_from(held.until.duration_since(now)).unwrap_or_default();
        slot.deaths.hold(policy, mono + left, mono);
        (slot.on_trial, slot.died_of) = (true, held.died_of);
    }

    fn restore_deaths(&mut self, slot: &mut Slot) {
        let Some(left) = self.histories.left.remove(&slot.spec.id) else {
            return;
        };
        if left.made_from == made_from(&slot.spec) {
            let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
            let policy = &self.world.city.daemon.restart;
            slot.deaths = DeathWindow::restored(&left.at, policy, now, mono);
            slot.unattended = left.open;
        }
    }

    /// Whether a start will only find out that the child is in quarantine.
    pub(super) fn is_held_back(&self, decision: &Decision) -> bool {
        let Decision::Start(id) = decision else {
            return false;
        };
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = &self.world.city.daemon.restart;
        self.histories.left.get(id).is_some_and(|left| {
            let deaths = DeathWindow::restored(&left.at, policy, now, mono);
            deaths.quarantined_until(mono).is_some()
        })
    }

    /// An operator released a child that has no slot.
    pub(super) fn forgive(&mut self, id: &ChildId) {
        if let ChildId::Raider(raider) = id {
            self.histories.quarantined.remove(raider);
        }
        if self.histories.left.remove(id).is_some() && self.is_kept(id) {
            drop(self.write(nothing(id.to_string())));
        }
    }

    /// A child goes that may be wanted again at any time: what counts against it stays, so that a pool
    /// which goes up and down starts nobody without limit, and neither does the removal of a quarantined
    /// raider that fails. The next incarnation is another child.
    pub(super) fn leave(&mut self, slot: &mut Slot) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let mut agents = self.world.city.agents.iter();
        let returns = match &slot.spec.id {
            ChildId::Agent(name) => agents.any(|agent| agent.member_number(name).is_some()),
            ChildId::Raider(_) => slot.deaths.quarantined_until(mono).is_some(),
        };
        if returns {
            let deaths = slot.deaths.counted(&self.world.city.daemon.restart, mono);
            let row = row(&slot.spec, false, &deaths, now, mono);
            if !row.is_nothing() {
                self.histories.left.insert(slot.spec.id.clone(), row);
            }
        }
    }

    /// Forgets what does not count any more against those who have gone.
    fn forget_old(&mut self) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = &self.world.city.daemon.restart;
        let is_over = |left: &Deaths| {
            let mut deaths = DeathWindow::restored(&left.at, policy, now, mono);
            !left.open && deaths.counted(policy, mono).is_empty()
        };
        let left = self.histories.left.iter();
        let over = left.filter(|(_, left)| is_over(left));
        for id in over.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.forgive(&id);
        }
    }

    /// Writes what counts against the child, if that changed; its place in the store's queue is
    /// taken when this returns. A child that is gone has no history, but what it left.
    pub(super) fn keep(&mut self, id: &ChildId) -> Option<Written> {
        let policy = &self.world.city.daemon.restart;
        let stays = (self.stopping.as_ref()).is_some_and(|stopping| stopping.keeps_sessions());
        if !self.is_kept(id) || stays {
            return None;
        }
        let outlives = policy.outlives();
        let Some(slot) = self.slots.get_mut(id) else {
            self.histories.kept.remove(id)?;
            let left = self.histories.left.get(id).filter(|_| outlives).cloned();
            return Some(
                self.write(left.unwrap_or_else(|| nothing(id.to_string())))
                    .0,
            );
        };
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let (open, deaths) = match outlives {
            true => (slot.is_open(), slot.deaths.counted(policy, mono)),
            false => (slot.was_up(), Vec::new()),
        };
        let kept = self.histories.kept.get(id);
        if kept.is_some_and(|kept| kept.is(open, &deaths)) {
            return None;
        }
        let row = row(&slot.spec, open, &deaths, now, mono);
        let (written, lost) = self.write(row);
        let kept = Kept { open, deaths, lost };
        self.histories.kept.insert(id.clone(), kept);
        // No start is slower for a row that counts nothing.
        outlives.then_some(written)
    }

    /// Whether anything of the child's deaths outlives the supervisor.
    fn is_kept(&self, id: &ChildId) -> bool {
        self.world.city.daemon.restart.outlives() || matches!(id, ChildId::Raider(_))
    }

    /// Writes whatever changed, or was not taken by the store.
    pub(super) fn keep_all(&mut self) {
        self.forget_old();
        let kept = self.histories.kept.keys();
        let ids: BTreeSet<_> = self.slots.keys().chain(kept).cloned().collect();
        for id in ids {
            // Nobody is started for it.
            let _behind = self.keep(&id);
        }
    }

    /// `restart_history` changed.
    pub(super) fn switch_history(&mut self, outlived: bool) {
        let outlives = self.world.city.daemon.restart.outlives();
        if outlived && !outlives {
            let histories = std::mem::take(&mut self.histories);
            self.histories.loaded = histories.loaded;
            self.histories.quarantined = histories.quarantined;
            for id in histories.kept.into_keys().chain(histories.left.into_keys()) {
                drop(self.write(nothing(id.to_string())));
            }
        }
        self.keep_all();
    }

    fn write(&self, deaths: Deaths) -> (Written, Arc<AtomicBool>) {
        let (done, written) = watch::channel(());
        let lost = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&lost);
        let child = deaths.child.clone();
        let writing = self.world.store.begin(move |txn| txn.put_deaths(&deaths));
        tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, writing).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(child, %error, "its deaths are counted in memory for now");
                    failed.store(true, Ordering::Relaxed);
                }
                Err(_late) => tracing::warn!(child, "its deaths are written late"),
            }
            drop(done);
        });
        (written, lost)
    }
}

impl Kept {
    fn is(&self, open: bool, deaths: &[Mono]) -> bool {
        self.open == open && self.deaths == deaths && !self.lost.load(Ordering::Relaxed)
    }
}

impl Slot {
    /// Whether a session was to run and came to no planned end.
    fn is_open(&self) -> bool {
        let runs = match self.state {
            ChildState::Starting | ChildState::Running | ChildState::Ending => true,
            ChildState::Blocked
            | ChildState::Backoff
            | ChildState::Quarantined
            | ChildState::Finished
            | ChildState::Stopped => false,
        };
        runs || self.unattended
    }

    /// Whether a session was up that came to no planned end.
    fn was_up(&self) -> bool {
        let up = matches!(self.state, ChildState::Running | ChildState::Ending);
        up || self.unattended
    }
}

fn row(spec: &ChildSpec, open: bool, deaths: &[Mono], now: Timestamp, mono: Mono) -> Deaths {
    let at = deaths.iter().map(|death| mono.saturating_sub(*death));
    Deaths {
        child: spec.id.to_string(),
        made_from: made_from(spec),
        open,
        at: at.filter_map(|age| now.checked_sub(age).ok()).collect(),
    }
}

/// What a history belongs to, besides the name: a raider's to its charge, an agent's to what needs a
/// restart when it changes.
fn made_from(spec: &ChildSpec) -> String {
    match &spec.work {
        Work::Raider { hook, .. } => hook.incarnation.to_string(),
        Work::Agent(agent) => agent.fingerprint.clone(),
    }
}

fn child(name: &str) -> Option<ChildId> {
    let raider = name.parse().ok().map(ChildId::Raider);
    raider.or_else(|| AgentName::new(name).ok().map(ChildId::Agent))
}

fn nothing(child: String) -> Deaths {
    Deaths {
        child,
        made_from: String::new(),
        open: false,
        at: Vec::new(),
    }
}
