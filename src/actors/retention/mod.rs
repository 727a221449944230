//! What is over is kept for a while, and then goes: closed wisps by `[daemon] wisp_ttl`, the rest as
//! `[retention]` says; what is left of worktrees that are gone, when it names nothing that refs do not.
//! The dispatcher asks, after each patrol has reconciled and before it looks at what is due; most times
//! the answer is that it is too early.
//!
//! ```text
//!   reconciled ─► wisps, when `wisp_gc_interval` has passed ─► dispatch
//!            └──► journal, logs, salvage: after the start, when `[retention]` changed, and hourly;
//!                 beside everything else, a part at a time
//! ```

mod journal;
#[cfg(test)]
mod tests;
mod wisps;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::claims::ClaimKey;
use super::effects;
use super::refusal::Refusal;
use super::sagas::prune;
use super::usage;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::RetentionPolicy;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RigName;
use crate::ports::relics::StoreError;
use crate::ports::repo::RepoError;

pub(super) use self::wisps::collect;

/// Between two looks at everything that `[retention]` is about.
const INTERVAL: Duration = Duration::from_secs(3600);

/// When what was looked at last. A successor looks once more.
#[derive(Debug, Default)]
pub(super) struct Looked {
    wisps: Option<Duration>,
    rest: Option<(Duration, RetentionPolicy)>,
    /// When the rest was looked at first.
    began: Option<Duration>,
}

impl Looked {
    /// Whether wisps are to be collected now.
    pub(super) fn wisps_due(&mut self, world: &World) -> bool {
        let (now, gc) = (world.clock.mono(), world.city.daemon.wisp_gc);
        let due = gc.is_some_and(|gc| self.wisps.is_none_or(|last| now - last >= gc.interval));
        if due {
            self.wisps = Some(now);
        }
        due
    }

    /// Whether the rest is to be looked at now: then for how long it has been looked at.
    pub(super) fn rest_due(&mut self, world: &World) -> Option<Duration> {
        let (now, policy) = (world.clock.mono(), &world.city.retention);
        let early =
            |(last, of): &(Duration, RetentionPolicy)| now - *last < INTERVAL && of == policy;
        if self.rest.as_ref().is_some_and(early) {
            return None;
        }
        self.rest = Some((now, policy.clone()));
        Some(now - *self.began.get_or_insert(now))
    }
}

/// Removes what `[retention]` does not keep any longer. Whatever fails is tried again by the next look.
pub(super) async fn prune(world: &Arc<World>, looking: Duration) {
    let Some(_one_at_a_time) = world.claims.claim(ClaimKey::Retention) else {
        return;
    };
    let keep = &world.city.retention;
    if let Some(age) = keep.events
        && let Err(error) = journal::prune(world, before(world, age)).await
    {
        tracing::warn!(%error, "the journal could not be pruned");
    }
    if let Err(error) = usage::prune(world).await {
        tracing::warn!(%error, "old sums of tokens could not be removed");
    }
    if let Err(error) = prune_logs(world).await {
        tracing::warn!(%error, "old logs could not be removed");
    }
    if let Some(age) = keep.salvage
        && let Err(error) = prune_salvage(world, age, looking).await
    {
        tracing::warn!(%error, "salvage could not be looked at");
    }
    for rig in &world.city.rigs {
        match effects::repo(world, &rig.name, |repo| repo.drop_retired()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(rig = %rig.name, count, "spent entries of worktrees went"),
            Err(error) => {
                tracing::warn!(rig = %rig.name, %error, "entries of worktrees that are gone stay")
            }
        }
        match effects::repo(world, &rig.name, |repo| repo.maintain()).await {
            Ok(false) => {}
            Ok(true) => tracing::info!(rig = %rig.name, "the packs of the repository were joined"),
            Err(error) => {
                tracing::warn!(rig = %rig.name, %error, "the packs of the repository stay many");
            }
        }
        if let Some(age) = keep.salvage.filter(|age| is_settled(*age, looking))
            && let Err(error) = expire(world, &rig.name, before(world, age)).await
        {
            tracing::warn!(rig = %rig.name, %error, "what agents left in the repository stays");
        }
    }
}

/// Removes what agents left in a rig's repository beside their branches, which no salvage counts: what was set
/// aside of worktrees, and stash entries of raiders that are gone.
async fn expire(world: &World, rig: &RigName, before: Timestamp) -> Result<(), RepoError> {
    let expired = effects::repo(world, rig, move |repo| {
        Ok((repo.expire_retired(before)?, repo.expire_stash(before)?))
    });
    let (worktrees, stash) = expired.await?;
    if worktrees + stash > 0 {
        let data = serde_json::json!({ "worktrees": worktrees, "stash": stash });
        let event = NewEvent::new(EventType::SalvagePruned, rig, Cause::Expired);
        world.store.note(vec![event.with(data)]);
    }
    Ok(())
}

/// Whether what is that old may go: for an hour after the start, in which a clock is set right, what is kept
/// for longer stays.
fn is_settled(age: Duration, looking: Duration) -> bool {
    looking >= INTERVAL || age < INTERVAL
}

/// Removes logs from before that time.
async fn prune_logs(world: &World) -> Result<(), Refusal> {
    let keep = &world.city.retention;
    if let Some(age) = keep.session_logs {
        let before = before(world, age);
        effects::prune_logs(world, before).await?;
        prune_tasks(world, before).await?;
    }
    if let Some(age) = keep.gate_logs {
        let (dir, before) = (world.city.gate_logs_dir(), before(world, age));
        effects::tasks(world, move |tasks| tasks.prune(&dir, before, &[])).await?;
    }
    Ok(())
}

/// Removes what was told to incarnations that are over, as old as their logs. Whoever is charged meanwhile
/// has files that are new.
async fn prune_tasks(world: &World, before: Timestamp) -> Result<(), Refusal> {
    let hooks = world.store.run(|txn| txn.hooks(None)).await?.into_iter();
    let city = &world.city;
    let used = hooks.map(|hook| city.task_dir(&hook.raider, &hook.relic, hook.incarnation));
    let (dir, used) = (city.tasks_dir(), used.collect::<Vec<_>>());
    effects::tasks(world, move |tasks| tasks.prune(&dir, before, &used)).await?;
    Ok(())
}

/// Destroys salvage of that age, one after the other. It is the last that holds its work, and the wall clock
/// may be wrong: it is that old by this clock as it is set now and by what has passed since it was seen
/// first; and for an hour after the start, in which a clock is set right, what is kept for longer stays.
async fn prune_salvage(world: &World, age: Duration, looking: Duration) -> Result<(), StoreError> {
    let before = before(world, age);
    let settled = is_settled(age, looking);
    for entry in world.store.run(|txn| txn.salvages()).await? {
        let old = prune::age(world, &entry.id, entry.created) >= age && entry.created <= before;
        if !old || !settled || world.is_stopping() {
            continue;
        }
        let id = entry.id.clone();
        if let Err(error) = prune::prune(world, entry, Cause::Expired).await {
            tracing::warn!(id, %error, "an old salvage stays for now");
        }
    }
    Ok(())
}

/// What is older than this time has reached that age.
fn before(world: &World, age: Duration) -> Timestamp {
    world.clock.now().checked_sub(age).unwrap_or(Timestamp::MIN)
}
