//! Looks at the sandboxes on the disk for displays: which have no hook, which are broken. They are made beside
//! everything else, one for each rig at a time, within a budget: a disk that hangs holds up no answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::actors::sandbox_faults;
use crate::actors::sandboxes::{self, Hookless};
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::restart::Mono;
use crate::domain::sandbox_fault::SandboxFault;

/// A younger look is not repeated.
const FRESH: Duration = Duration::from_millis(500);
/// After a look its rig rests for this multiple of its duration.
const REST: u32 = 49;
/// The limit of waiting for a look when the last one is valid, only old: most looks are over by then.
const BRIEF: Duration = Duration::from_millis(10);
/// The limit of waiting for the first look, or for one after the supervisor itself changed a sandbox.
const LIMIT: Duration = Duration::from_secs(2);

/// The result of a look.
#[derive(Default)]
pub(super) struct Look {
    /// The sandboxes without a hook.
    pub(super) hookless: Vec<Hookless>,
    /// The faults of sandboxes under work.
    pub(super) faults: BTreeMap<RaiderId, SandboxFault>,
    /// The number of changes of sandboxes by the supervisor that it has.
    changes: u64,
    ended: Mono,
    took: Duration,
}

/// The last look at each rig.
#[derive(Default)]
pub(super) struct Looks(Mutex<BTreeMap<RigName, RigLooks>>);

/// The place of a rig's looks. The sender of a look under way is dropped when that ends, even by a panic.
#[derive(Clone, Default)]
struct RigLooks {
    last: Arc<Mutex<Option<Arc<Look>>>>,
    under_way: Option<(Mono, watch::Receiver<()>)>,
}

impl RigLooks {
    /// Returns the look under way, with when it began.
    fn running(&self) -> Option<&(Mono, watch::Receiver<()>)> {
        let under_way = self.under_way.as_ref();
        under_way.filter(|(_, look)| look.has_changed().is_ok())
    }
}

fn locked<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one assignment.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Looks {
    /// Returns the last look at a rig. Begins another when that is old, and waits a moment for it; waits longer when
    /// there is none yet, or the supervisor itself changed a sandbox since.
    pub(super) async fn of(&self, world: &World, rig: &Rig) -> Arc<Look> {
        let valid = |look: &Look| look.changes == world.directory.sandboxes.count(&rig.name);
        let seen = async {
            loop {
                let last = self.last(&rig.name);
                let settled = last
                    .as_deref()
                    .is_some_and(|look| valid(look) && !is_due(world, look));
                if settled {
                    return;
                }
                let mut under_way = self.begin(world, rig);
                // The sender only closes.
                let _ended = under_way.changed().await;
            }
        };
        let is_valid = self.last(&rig.name).as_deref().is_some_and(valid);
        let limit = match is_valid || self.hangs(world, &rig.name) {
            true => BRIEF,
            false => LIMIT,
        };
        let _in_time = timeout(limit, seen).await;
        self.last(&rig.name).unwrap_or_default()
    }

    /// Returns true when the look under way takes longer than an answer waits for one: only its first caller waits.
    fn hangs(&self, world: &World, rig: &RigName) -> bool {
        let table = locked(&self.0);
        let running = table.get(rig).and_then(RigLooks::running);
        running.is_some_and(|(begun, _)| world.clock.mono().saturating_sub(*begun) >= LIMIT)
    }

    fn last(&self, rig: &RigName) -> Option<Arc<Look>> {
        let table = locked(&self.0);
        let place = table.get(rig)?;
        locked(&place.last).clone()
    }

    /// Begins a look, unless one is under way; returns what tells of its end.
    fn begin(&self, world: &World, rig: &Rig) -> watch::Receiver<()> {
        let mut table = locked(&self.0);
        let place = table.entry(rig.name.clone()).or_default();
        if let Some((_, under_way)) = place.running() {
            return under_way.clone();
        }
        let (ends, under_way) = watch::channel(());
        place.under_way = Some((world.clock.mono(), under_way.clone()));
        let (world, rig, last) = (world.clone(), rig.clone(), Arc::clone(&place.last));
        tokio::spawn(async move {
            let look = look(&world, &rig).await;
            *locked(&last) = Some(Arc::new(look));
            drop(ends);
        });
        under_way
    }
}

fn is_due(world: &World, look: &Look) -> bool {
    let rest = (look.took * REST).max(FRESH);
    world.clock.mono().saturating_sub(look.ended) >= rest
}

/// Looks at a rig's sandboxes. A sandbox that cannot be read is left out, because the witness calls a person for it.
async fn look(world: &World, rig: &Rig) -> Look {
    let changes = world.directory.sandboxes.count(&rig.name);
    let began = world.clock.mono();
    let hookless = sandboxes::hookless(world, rig).await.unwrap_or_default();
    let faults = sandbox_faults::by_raider(world, &rig.name).await;
    let faults = faults.unwrap_or_default().into_iter();
    let ended = world.clock.mono();
    Look {
        hookless,
        faults: faults
            .filter_map(|(raider, seen)| Some((raider, seen.ok()?)))
            .collect(),
        changes,
        ended,
        took: ended.saturating_sub(began),
    }
}
