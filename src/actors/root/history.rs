//! The part of a child's death count that outlives the supervisor: with `restart_history = "persistent"` every death
//! that counts. Otherwise only that a raider's session was up: a session that ended while no supervisor ran is a death,
//! and the session after it has the permissions of a restart after a death.
//!
//! ```text
//!  start ──► its row is open, on the disk ──► session ──► death ──► one death more, written behind
//!                                                └──────► planned end ──► not open, written behind
//!  next supervisor: an open row and no session ──► one death more, before anything is started
//! ```
//!
//! With a persistent history a start waits for its row, and the store keeps the order of writes: wherever the
//! supervisor is killed, no restart happens without its death on record. A supervisor that is killed in the middle of a
//! planned end counts that end as a death.
//!
//! With either history a quarantined raider stays quarantined over a restart of the supervisor, until the announced
//! time (`actors/records/quarantine.rs`).

use crate::actors::mail::Written;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Root;
use super::child_record::ChildRecord;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::records::quarantine::QuarantineRecord;
use crate::domain::ids::{AgentName, ChildId, RaiderId};
use crate::domain::reconcile::Decision;
use crate::domain::restart::{DeathRecord, DeathWindow, Mono};

/// Timeout of a start that waits for its row. Sessions start without a store, too (`rules.md`, store): then deaths
/// are counted in memory only.
const PATIENCE: Duration = Duration::from_secs(5);

/// Death counts and quarantines that an earlier supervisor stored.
pub(super) struct StoredHistories {
    pub(super) deaths: Vec<DeathRecord>,
    pub(super) quarantined: Vec<QuarantineRecord>,
}

/// The death histories in the store, as far as this root knows them.
#[derive(Default)]
pub(super) struct Histories {
    /// Set when the rows of an earlier supervisor have been read.
    pub(super) loaded: bool,
    /// Rows of children that have no record yet.
    left: BTreeMap<ChildId, DeathRecord>,
    /// The time of the last death of each child that an earlier supervisor counted.
    pub(super) counted: BTreeMap<ChildId, Timestamp>,
    /// Raiders that were in quarantine or on trial, and have no record yet.
    quarantined: BTreeMap<RaiderId, QuarantineRecord>,
    /// Rows of children with a record, as last written.
    kept: BTreeMap<ChildId, WrittenHistory>,
}

struct WrittenHistory {
    open: bool,
    deaths: Vec<Mono>,
    /// Set when the store refused the write: it is retried.
    lost: Arc<AtomicBool>,
}

impl Root {
    /// Takes over the rows of an earlier supervisor, of the children that may come back.
    pub(super) fn load_histories(&mut self, left: StoredHistories, hooked: &BTreeSet<RaiderId>) {
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
                Some(id) if self.children.contains_key(&id) => {}
                Some(id) if outlives => drop(self.histories.left.insert(id, deaths)),
                Some(id) if deaths.open => {
                    let at = Vec::new();
                    self.histories.left.insert(id, DeathRecord { at, ..deaths });
                }
                Some(_) | None => drop(self.write(nothing(deaths.child))),
            }
        }
    }

    /// Restores the stored deaths and quarantine of a child whose record is new.
    pub(super) fn restore(&mut self, record: &mut ChildRecord) {
        self.restore_deaths(record);
        self.restore_quarantine(record);
    }

    /// Keeps a raider quarantined until the announced time; after that it is on trial.
    fn restore_quarantine(&mut self, record: &mut ChildRecord) {
        let Work::Raider { hook, .. } = &record.spec.work else {
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
        let until = mono + left;
        record.child.hold(policy, until, mono, held.died_of);
    }

    fn restore_deaths(&mut self, record: &mut ChildRecord) {
        let Some(left) = self.histories.left.remove(&record.spec.id) else {
            return;
        };
        if left.made_from == made_from(&record.spec) {
            if let Some(last) = left.at.last() {
                self.histories.counted.insert(record.spec.id.clone(), *last);
            }
            let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
            let policy = &self.world.city.daemon.restart;
            let deaths = DeathWindow::restored(&left.at, policy, now, mono);
            record.child.restore(deaths, left.open);
        }
    }

    /// Returns true when a start would only find that the child is quarantined.
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

    /// Clears the history of a child without record that an operator released.
    pub(super) fn forgive(&mut self, id: &ChildId) {
        if let ChildId::Raider(raider) = id {
            self.histories.quarantined.remove(raider);
        }
        if self.histories.left.remove(id).is_some() && self.is_kept(id) {
            drop(self.write(nothing(id.to_string())));
        }
    }

    /// Keeps the history of a child that goes and may be wanted again, so that neither a pool that shrinks and grows
    /// nor a failed removal of a quarantined raider resets the restart limit. The next incarnation is another child.
    pub(super) fn leave(&mut self, id: &ChildId) {
        let Some(record) = self.children.get_mut(id) else {
            return;
        };
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let mut agents = self.world.city.agents.iter();
        let returns = match &record.spec.id {
            ChildId::Agent(name) => agents.any(|agent| agent.member_number(name).is_some()),
            ChildId::Raider(_) => record.child.deaths().quarantined_until(mono).is_some(),
        };
        if returns {
            let deaths = (record.child.deaths()).counted(&self.world.city.daemon.restart, mono);
            let row = row(&record.spec, false, &deaths, now, mono);
            if !row.is_nothing() {
                self.histories.left.insert(record.spec.id.clone(), row);
            }
        }
    }

    /// Drops the expired histories of children that have gone.
    fn forget_old(&mut self) {
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let policy = &self.world.city.daemon.restart;
        let is_over = |left: &DeathRecord| {
            let mut deaths = DeathWindow::restored(&left.at, policy, now, mono);
            !left.open && deaths.counted(policy, mono).is_empty()
        };
        let left = self.histories.left.iter();
        let over = left.filter(|(_, left)| is_over(left));
        for id in over.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.forgive(&id);
        }
    }

    /// Writes the child's history if it changed; the write has its place in the store's queue when this returns. For a
    /// child that is gone only what [`Self::leave`] kept is written.
    pub(super) fn keep(&mut self, id: &ChildId) -> Option<Written> {
        let policy = &self.world.city.daemon.restart;
        let stays = (self.stopping.as_ref()).is_some_and(|stopping| stopping.keeps_sessions());
        if !self.is_kept(id) || stays {
            return None;
        }
        let outlives = policy.outlives();
        let Some(record) = self.children.get_mut(id) else {
            self.histories.kept.remove(id)?;
            let left = self.histories.left.get(id).filter(|_| outlives).cloned();
            return Some(
                self.write(left.unwrap_or_else(|| nothing(id.to_string())))
                    .0,
            );
        };
        let (now, mono) = (self.world.clock.now(), self.world.clock.mono());
        let (open, deaths) = match outlives {
            true => (
                record.child.is_open(),
                record.child.deaths().counted(policy, mono),
            ),
            false => (record.child.was_up(), Vec::new()),
        };
        let kept = self.histories.kept.get(id);
        if kept.is_some_and(|kept| kept.is(open, &deaths)) {
            return None;
        }
        let row = row(&record.spec, open, &deaths, now, mono);
        let (written, lost) = self.write(row);
        let kept = WrittenHistory { open, deaths, lost };
        self.histories.kept.insert(id.clone(), kept);
        // A row that counts no death delays no start.
        outlives.then_some(written)
    }

    /// Returns true when this child's deaths are stored at all.
    fn is_kept(&self, id: &ChildId) -> bool {
        self.world.city.daemon.restart.outlives() || matches!(id, ChildId::Raider(_))
    }

    /// Writes every history that changed or that the store refused.
    pub(super) fn keep_all(&mut self) {
        self.forget_old();
        let kept = self.histories.kept.keys();
        let ids: BTreeSet<_> = self.children.keys().chain(kept).cloned().collect();
        for id in ids {
            // No start waits for this write.
            let _behind = self.keep(&id);
        }
    }

    /// Applies a changed `restart_history`.
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

    fn write(&self, deaths: DeathRecord) -> (Written, Arc<AtomicBool>) {
        let (done, written) = watch::channel(());
        let lost = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&lost);
        let child = deaths.child.clone();
        let writing = self.world.store.begin(move |txn| txn.put_deaths(&deaths));
        tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, writing).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        child,
                        %error,
                        "the death history could not be stored; deaths count in memory until a \
                        retry succeeds"
                    );
                    failed.store(true, Ordering::Relaxed);
                }
                Err(_late) => tracing::warn!(
                    child,
                    "storing the death history timed out; the start goes on, the write is still \
                    queued"
                ),
            }
            drop(done);
        });
        (written, lost)
    }
}

impl WrittenHistory {
    fn is(&self, open: bool, deaths: &[Mono]) -> bool {
        self.open == open && self.deaths == deaths && !self.lost.load(Ordering::Relaxed)
    }
}

fn row(spec: &ChildSpec, open: bool, deaths: &[Mono], now: Timestamp, mono: Mono) -> DeathRecord {
    let at = deaths.iter().map(|death| mono.saturating_sub(*death));
    DeathRecord {
        child: spec.id.to_string(),
        made_from: made_from(spec),
        open,
        at: at.filter_map(|age| now.checked_sub(age).ok()).collect(),
    }
}

/// Returns the identity that a history belongs to besides the name: a raider's charge, or the fingerprint of an agent's
/// configuration that needs a restart when it changes.
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

fn nothing(child: String) -> DeathRecord {
    DeathRecord {
        child,
        made_from: String::new(),
        open: false,
        at: Vec::new(),
    }
}
