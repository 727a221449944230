//! Retention: finished records are kept for a while and then deleted: closed wisps by `[daemon] wisp_ttl`, the rest by
//! `[retention]`. Entries of removed worktrees and stash entries of former sandboxes go by `[retention] salvage`,
//! whatever they hold. The dispatcher asks after each patrol was applied, before it checks what is due; nothing is due
//! most of the time.
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
use super::effects::{self, WorkKind};
use super::records::automation_chains;
use super::refusal::Refusal;
use super::sagas::prune;
use super::usage;
use super::world::World;
use crate::domain::age::Jumps;
use crate::domain::cause::Cause;
use crate::domain::city::RetentionPolicy;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RigName;
use crate::ports::relics::StoreError;
use crate::ports::repo::RepoError;
use crate::ports::tasks::Expired;

pub(super) use self::wisps::collect;

/// Interval between two runs of `[retention]`.
const INTERVAL: Duration = Duration::from_secs(3600);

/// When each part ran last. A restarted dispatcher runs all parts again.
#[derive(Debug, Default)]
pub(super) struct LastRuns {
    wisps: Option<Duration>,
    rest: Option<(Duration, RetentionPolicy)>,
    /// When the rest ran first.
    began: Option<Duration>,
}

/// A run of `[retention]`.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// For how long the supervisor has been running these.
    looking: Duration,
    clocks: Clocks,
}

/// The clocks at one instant, and the jumps of the wall clock before it.
#[derive(Debug, Clone)]
struct Clocks {
    wall: Timestamp,
    since_boot: Duration,
    jumps: Jumps,
}

impl Clocks {
    /// Looks at the clocks. Jumps are remembered for as long as anything is kept.
    fn look(world: &World) -> Self {
        let gc = world.city.daemon.wisp_gc;
        let longest = longest(&world.city.retention).max(gc.map_or(Duration::ZERO, |gc| gc.ttl));
        let (wall, since_boot) = (world.clock.now(), world.clock.since_boot());
        // A time in which the machine was suspended is no jump: its files are that much older.
        let jumps = world.jumps(wall, since_boot, longest);
        Self {
            wall,
            since_boot,
            jumps,
        }
    }
}

impl Run {
    /// Returns true when objects of that age may be deleted: in the first hour after the start, in which the clock may be
    /// corrected, objects kept for longer stay.
    fn is_settled(&self, age: Duration) -> bool {
        self.looking >= INTERVAL || age < INTERVAL
    }

    /// Returns the time before which objects have reached that age. No jump of the wall clock makes them older.
    fn before(&self, age: Duration) -> Timestamp {
        let clocks = &self.clocks;
        clocks.jumps.before(age, clocks.wall, clocks.since_boot)
    }
}

impl LastRuns {
    /// Returns true when wisps are to be collected now.
    pub(super) fn wisps_due(&mut self, world: &World) -> bool {
        let (now, gc) = (world.clock.mono(), world.city.daemon.wisp_gc);
        let due = gc.is_some_and(|gc| self.wisps.is_none_or(|last| now - last >= gc.interval));
        if due {
            self.wisps = Some(now);
        }
        due
    }

    /// Returns a run of the rest, if that is due now. Looks at the clocks each time.
    pub(super) fn rest_due(&mut self, world: &World) -> Option<Run> {
        let now = world.clock.mono();
        let policy = &world.city.retention;
        let clocks = Clocks::look(world);
        let early =
            |(last, of): &(Duration, RetentionPolicy)| now - *last < INTERVAL && of == policy;
        if self.rest.as_ref().is_some_and(early) {
            return None;
        }
        self.rest = Some((now, policy.clone()));
        Some(Run {
            looking: now - *self.began.get_or_insert(now),
            clocks,
        })
    }
}

/// Returns the longest age at which something is deleted.
fn longest(policy: &RetentionPolicy) -> Duration {
    let ages = [
        policy.events,
        policy.session_logs,
        policy.gate_logs,
        policy.salvage,
    ];
    ages.into_iter().flatten().max().unwrap_or_default()
}

/// Deletes what `[retention]` no longer keeps. Failures are retried by the next run.
pub(super) async fn prune(world: &Arc<World>, run: Run) {
    let Some(_one_at_a_time) = world.claims.claim(ClaimKey::Retention) else {
        return;
    };
    let keep = &world.city.retention;
    if let Some(age) = keep.events
        && let Err(error) = journal::prune(world, run.before(age)).await
    {
        tracing::warn!(%error, "pruning of the journal failed; the next hourly run retries");
    }
    or_warn!(
        world.store.run(automation_chains::prune_counts).await,
        "old counts of runs of automations could not be deleted; the next hourly run retries"
    );
    or_warn!(
        usage::prune(world).await,
        "old rows of token usage could not be deleted; the next hourly run retries"
    );
    or_warn!(
        prune_logs(world, &run).await,
        "old logs could not be deleted; the next hourly run retries"
    );
    if let Some(age) = keep.salvage
        && let Err(error) = prune_salvage(world, age, &run).await
    {
        tracing::warn!(
            %error,
            "salvages could not be listed for pruning; the next hourly run retries"
        );
    }
    for rig in &world.city.rigs {
        // Side by side: a rig that hangs keeps only its own from being done.
        if let Some(claim) = world.claims.claim(ClaimKey::Upkeep(rig.name.clone())) {
            let (world, rig, run) = (Arc::clone(world), rig.name.clone(), run.clone());
            tokio::spawn(async move {
                maintain(&world, &rig, &run).await;
                drop(claim);
            });
        }
    }
}

/// Repacks a rig's repository, and removes what was kept there for long enough.
async fn maintain(world: &World, rig: &RigName, run: &Run) {
    let kind = WorkKind::Upkeep;
    match effects::repo_for(world, rig, kind, |repo| repo.maintain()).await {
        Ok(false) => {}
        Ok(true) => tracing::info!(%rig, "the supervisor's copy of the repository was repacked"),
        Err(error) => {
            tracing::warn!(
                %rig,
                %error,
                "the supervisor's copy of the repository could not be repacked; the next hourly run retries"
            );
        }
    }
    let age = world.city.retention.salvage;
    if let Some(age) = age.filter(|age| run.is_settled(*age))
        && let Err(error) = expire(world, rig, run.before(age)).await
    {
        tracing::warn!(
            %rig,
            %error,
            "expired leftovers of agents in the repository could not be deleted; the next hourly \
            run retries"
        );
    }
}

/// Deletes what agents left in a rig's repository beside their branches, which no salvage counts: retired parts of
/// worktrees, and stash entries of raiders that are gone.
async fn expire(world: &World, rig: &RigName, before: Timestamp) -> Result<(), RepoError> {
    let expired = effects::repo_for(world, rig, WorkKind::Upkeep, move |repo| {
        Ok((repo.expire_retired(before)?, repo.expire_stash(before)?))
    });
    let (worktrees, stash) = expired.await?;
    if worktrees + stash > 0 {
        let data = serde_json::json!({ "worktrees": worktrees, "stash": stash });
        let event = NewEvent::new(EventType::SalvagePruned, rig, Cause::Expired);
        world.store.journal(vec![event.with(data)]);
    }
    Ok(())
}

/// Deletes logs from before that time, and what is kept beside them.
async fn prune_logs(world: &World, run: &Run) -> Result<(), Refusal> {
    let keep = &world.city.retention;
    if let Some(age) = keep.session_logs {
        let before = run.before(age);
        effects::prune_logs(world, before).await?;
        let expired = Expired {
            before: Some(before),
            replaced_before: None,
        };
        prune_tasks(world, expired).await?;
    }
    if let Some(age) = keep.salvage.filter(|age| run.is_settled(*age)) {
        let expired = Expired {
            before: None,
            replaced_before: Some(run.before(age)),
        };
        let files = prune_tasks(world, expired).await?;
        if files > 0 {
            let event = NewEvent::new(EventType::SalvagePruned, "tasks", Cause::Expired);
            let data = serde_json::json!({ "replaced_files": files });
            world.store.journal(vec![event.with(data)]);
        }
    }
    if let Some(age) = keep.gate_logs {
        let (dir, before) = (world.city.gate_logs_dir(), Some(run.before(age)));
        let expired = Expired {
            before,
            replaced_before: before,
        };
        effects::tasks(world, effects::Owner::City, move |tasks| {
            tasks.prune(&dir, expired, &[])
        })
        .await?;
    }
    Ok(())
}

/// Deletes the task files of incarnations that are over, as old as their logs; those that took the place of a link are
/// kept as long as salvage. The files of a raider that is charged meanwhile are new. Returns the number of deleted files.
async fn prune_tasks(world: &World, expired: Expired) -> Result<usize, Refusal> {
    let hooks = world.store.run(|txn| txn.hooks(None)).await?.into_iter();
    let city = &world.city;
    let used = hooks.map(|hook| city.task_dir(&hook.raider, &hook.relic, hook.incarnation));
    let (dir, used) = (city.tasks_dir(), used.collect::<Vec<_>>());
    let deleted = effects::tasks(world, effects::Owner::City, move |tasks| {
        tasks.prune(&dir, expired, &used)
    });
    Ok(deleted.await?)
}

/// Destroys salvage of that age, one after the other. Each is the last holder of its work, and the wall clock may be
/// wrong: it must be that old by the present clock and by the time since it was first seen; and in the first hour after
/// the start, in which the clock may be corrected, salvage kept for longer stays.
async fn prune_salvage(world: &World, age: Duration, run: &Run) -> Result<(), StoreError> {
    let before = run.before(age);
    let settled = run.is_settled(age);
    for entry in world.store.run(|txn| txn.salvages()).await? {
        let old = prune::age(world, &entry.id, entry.created) >= age && entry.created <= before;
        if !old || !settled || world.is_stopping() {
            continue;
        }
        let id = entry.id.clone();
        or_warn!(
            prune::prune(world, entry, Cause::Expired).await,
            id,
            "an expired salvage could not be pruned; the next hourly run retries"
        );
    }
    Ok(())
}
