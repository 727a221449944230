//! The snapshot that clients are shown of the city: its facts at one instant, which all of them read.
//!
//! ```text
//!  store (one transaction) ─┐
//!  root: children, pools ───┼─► Snapshot ─► status, status --watch, raider.*, metrics
//!  looks at the disk ───────┘   (generation)
//!  changes: commits, messages to the root ──► the next request renews it
//! ```
//!
//! It is renewed when something changed since it was taken and a client asks: a city that no client looks at
//! pays nothing. A client sees the effect of each request that was answered before it asked, because the change was
//! counted before that answer. Git, and the whole of the store, are read for no client.

mod automation_runs;
mod looks;
mod pace;
mod records;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Mutex, watch};

pub(super) use self::automation_runs::{Seen, automations};
use self::looks::Looks;
use self::pace::Pace;
pub(super) use self::records::{Blocked, Call, Records};
use crate::actors::mail::{ChildView, PoolView};
use crate::actors::sandboxes::Hookless;
use crate::actors::world::World;
use crate::actors::{ask, glances, usage};
use crate::control::protocol::ControlError;
use crate::domain::budget::Over;
use crate::domain::city::City;
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::domain::relic::Hook;
use crate::domain::restart::Mono;
use crate::domain::sandbox_fault::SandboxFault;

/// The age up to which a snapshot without a change is used: sums of a day and the windows of deaths move by themselves.
const FRESH: Duration = Duration::from_secs(1);

/// The facts of the city at one instant.
pub(super) struct Snapshot {
    /// The number of changes that it has.
    pub(super) generation: u64,
    /// The configuration that it was taken under.
    city: Arc<City>,
    taken: Mono,
    /// The children.
    pub(super) views: Vec<ChildView>,
    /// The pools.
    pub(super) pools: Vec<PoolView>,
    /// The records of the store.
    pub(super) records: Records,
    /// The spent budgets, and when new work is charged.
    pub(super) budgets: Vec<(Over, String)>,
    /// The automations with their last runs.
    pub(super) automations: Vec<Seen>,
    /// The sandboxes of each rig that have no hook.
    pub(super) hookless: BTreeMap<RigName, Vec<Hookless>>,
    /// The faults of sandboxes under work.
    pub(super) faults: BTreeMap<RaiderId, SandboxFault>,
}

impl Snapshot {
    /// Returns the children by their ids.
    pub(super) fn children(&self) -> BTreeMap<&ChildId, &ChildView> {
        let views = self.views.iter();
        views.map(|view| (&view.spec.id, view)).collect()
    }

    /// Returns the sandboxes of a rig that have no hook.
    pub(super) fn hookless_of(&self, rig: &RigName) -> &[Hookless] {
        self.hookless.get(rig).map_or(&[], Vec::as_slice)
    }
}

/// The latest snapshot, and the means to renew it.
pub(super) struct Published {
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    /// Held while one is taken: all who wait for it share it.
    taking: Mutex<()>,
    looks: Looks,
    pace: Pace,
}

impl Default for Published {
    fn default() -> Self {
        Self {
            latest: watch::Sender::new(None),
            taking: Mutex::default(),
            looks: Looks::default(),
            pace: Pace::default(),
        }
    }
}

impl Published {
    /// Returns a snapshot that has every change counted before this call.
    pub(super) async fn now(&self, world: &World) -> Result<Arc<Snapshot>, ControlError> {
        self.with(world, world.store.changes().count()).await
    }

    /// Returns a snapshot that has that many changes, if there were as many.
    async fn with(&self, world: &World, wanted: u64) -> Result<Arc<Snapshot>, ControlError> {
        if let Some(latest) = self.serving(world, wanted) {
            return Ok(latest);
        }
        let _one = self.taking.lock().await;
        // Another caller may have had it taken meanwhile.
        if let Some(latest) = self.serving(world, wanted) {
            return Ok(latest);
        }
        let begun = world.clock.mono();
        let snapshot = Arc::new(self.take(world).await?);
        let ended = world.clock.mono();
        self.pace.took(ended.saturating_sub(begun), ended);
        self.latest.send_replace(Some(Arc::clone(&snapshot)));
        Ok(snapshot)
    }

    /// Returns the next snapshot with a change that `seen` has not, at a pace that costs little however often something
    /// changes. Returns also without a change after `idle`: ages grow.
    pub(super) async fn next(
        &self,
        world: &Arc<World>,
        seen: u64,
        idle: Duration,
    ) -> Result<Arc<Snapshot>, ControlError> {
        let mut changes = world.store.changes().follow();
        // The sender is the store's, which outlives this.
        let changed = changes.wait_for(|count| *count > seen);
        // The borrowed count is dropped at once: it holds up changes.
        drop(tokio::time::timeout(idle, changed).await);
        let rest = self.pace.rest(world.clock.mono());
        tokio::time::sleep(rest).await;
        // All followers share one.
        self.with(&world.newest(), seen + 1).await
    }

    /// Counts what it costs to show a snapshot, so that the pace of followers has it.
    pub(super) fn shown(&self, took: Duration) {
        self.pace.shown(took);
    }

    /// Returns the latest snapshot if it has that many changes, and is of this configuration.
    fn serving(&self, world: &World, wanted: u64) -> Option<Arc<Snapshot>> {
        let latest = self.latest.borrow();
        let age = |of: &Snapshot| world.clock.mono().saturating_sub(of.taken);
        let serves = |of: &&Arc<Snapshot>| {
            of.generation >= wanted && Arc::ptr_eq(&of.city, &world.city) && age(of) < FRESH
        };
        latest.as_ref().filter(serves).cloned()
    }

    async fn take(&self, world: &World) -> Result<Snapshot, ControlError> {
        // Before anything is read: a change during that belongs to the next one.
        let generation = world.store.changes().count();
        let taken = world.clock.mono();
        let views = ask::views(world).await?;
        let pools = ask::pools(world).await?;
        let records = records::read(world).await?;
        let budgets = usage::spent(world).await?;
        let automations = automation_runs::automations(world).await?;
        let (mut hookless, mut faults) = (BTreeMap::new(), BTreeMap::new());
        let rigs = &world.city.rigs;
        // At once: each rig whose disk hangs may take its limit.
        let looks = join_all(rigs.iter().map(|rig| self.looks.of(world, rig))).await;
        for (rig, look) in rigs.iter().zip(looks) {
            // The records are newer than the look.
            let lone = look.hookless.iter();
            let lone = lone.filter(|lone| !records.is_held(&lone.raider));
            let lone: Vec<_> = lone.cloned().collect();
            let ailing = look.faults.iter();
            let ailing = ailing.filter(|(raider, _)| records.is_at_work(raider));
            faults.extend(ailing.map(|(raider, fault)| (raider.clone(), fault.clone())));
            let of_rig = records
                .hooks
                .iter()
                .filter(|hook| hook.raider.rig == rig.name);
            let was = lone.iter().filter_map(Hookless::hook);
            let all: Vec<Hook> = of_rig.chain(was).cloned().collect();
            glances::refresh(world, &rig.name, all);
            hookless.insert(rig.name.clone(), lone);
        }
        Ok(Snapshot {
            generation,
            city: Arc::clone(&world.city),
            taken,
            views,
            pools,
            records,
            budgets,
            automations,
            hookless,
            faults,
        })
    }
}
