//! The counts of sandboxes that `status` shows: as git said last, with their age. Nothing that answers a client
//! runs git.
//!
//! ```text
//!  asked ────► the last counts, at once ─┐
//!  patrol ───► HEAD or index moved ──────┴─► one refresh per rig, beside everything else, within its budget
//! ```
//!
//! An idle city asks nothing of git: a sandbox is not looked at again unless a client asks, or its mark moved. A refresh
//! looks at sandboxes for a tenth of a second, the oldest counts first, and its rig rests in proportion: a thousand large
//! sandboxes cost no more than a few, their counts are only older.

use std::time::Duration;

use super::claims::{Claim, ClaimKey};
use super::effects;
use super::refusal::Refusal;
use super::world::World;
use crate::domain::ids::RigName;
use crate::domain::relic::Hook;

/// Counts that are younger are not asked for again.
const FRESH: Duration = Duration::from_secs(1);

/// The time after which a refresh leaves the other sandboxes to the next one.
const SLICE: Duration = Duration::from_millis(100);

/// After a refresh its rig rests for this multiple of its duration: 0.5 % of a core.
const REST: u32 = 199;

/// The same while sandboxes of the rig have no counts yet.
const FIRST_REST: u32 = 4;

/// Maximum number of a rig's sandboxes that a patrol refreshes.
const PATROL_MAX: usize = 16;

/// Has the counts of a rig's sandboxes asked for anew, beside whatever goes on, if that is due. `all` are the
/// sandboxes that the rig has.
pub fn refresh(world: &World, rig: &RigName, all: Vec<Hook>) {
    let (glances, now) = (&world.directory.glances, world.clock.mono());
    glances.keep_only(rig, &all);
    let old = |hook: &Hook| glances.of(hook, now).is_none_or(|(_, age)| age >= FRESH);
    let mut due: Vec<Hook> = all.into_iter().filter(old).collect();
    // Sandboxes without an observation come first.
    due.sort_by_key(|hook| {
        std::cmp::Reverse(glances.of(hook, now).map_or(Duration::MAX, |(_, age)| age))
    });
    if let Some(alone) = begin(world, rig).filter(|_| !due.is_empty()) {
        tokio::spawn(refresh_counts(world.clone(), rig.clone(), due, alone));
    }
}

/// Has the counts of those sandboxes asked for anew in which git moved something since.
pub fn patrol(world: &World, rig: &RigName) {
    let Some(alone) = begin(world, rig) else {
        return;
    };
    let (world, rig) = (world.clone(), rig.clone());
    tokio::spawn(async move {
        match moved(&world, &rig).await {
            Ok(due) => refresh_counts(world, rig, due, alone).await,
            Err(error) => tracing::warn!(
                %rig,
                %error,
                "git counts of the sandboxes could not be refreshed; the next patrol retries"
            ),
        }
    });
}

/// The sandboxes in which HEAD or index moved since their counts were asked for.
async fn moved(world: &World, rig: &RigName) -> Result<Vec<Hook>, Refusal> {
    let wanted = rig.clone();
    let hooks = world.store.run(move |txn| txn.hooks(Some(&wanted))).await?;
    let paths: Vec<_> = hooks
        .iter()
        .map(|hook| world.city.sandbox(&hook.raider))
        .collect();
    let marks = effects::repo(world, rig, move |repo| {
        let marks = paths.iter().map(|path| repo.progress(path).ok());
        Ok(marks.collect::<Vec<_>>())
    });
    let marks = marks.await?;
    let moved = hooks
        .into_iter()
        .zip(marks)
        .filter(|(hook, mark)| mark.is_some() && *mark != world.directory.glances.mark(hook));
    Ok(moved.map(|(hook, _)| hook).take(PATROL_MAX).collect())
}

/// The claim of a refresh; none while one is under way, or its rig has rest.
fn begin(world: &World, rig: &RigName) -> Option<Claim> {
    let rests = world.directory.glances.rests(rig, world.clock.mono());
    if rests || world.is_stopping() {
        return None;
    }
    world.claims.claim(ClaimKey::Glances(rig.clone()))
}

/// Has git count the commits of one sandbox after the other, until the time slice ends. Each count has the time at which
/// it was made.
async fn refresh_counts(world: World, rig: RigName, due: Vec<Hook>, alone: Claim) {
    let (glances, began) = (&world.directory.glances, world.clock.mono());
    let mut left = due.into_iter();
    while world.clock.mono().saturating_sub(began) < SLICE && !world.is_stopping() {
        let Some(hook) = left.next() else { break };
        let (path, target, at) = (
            world.city.sandbox(&hook.raider),
            hook.target.clone(),
            world.clock.mono(),
        );
        let seen = effects::repo(&world, &rig, move |repo| {
            let mark = repo.progress(&path).ok();
            Ok((repo.glance(&path, &target)?, mark))
        });
        // One that cannot be read keeps its last counts, which grow old.
        if let Ok((counts, mark)) = seen.await {
            glances.record(&hook, counts, mark, at);
        }
    }
    let ended = world.clock.mono();
    let unseen = left.any(|hook| glances.of(&hook, ended).is_none());
    let rest = if unseen { FIRST_REST } else { REST };
    glances.set_rest(&rig, ended + ended.saturating_sub(began) * rest);
    drop(alone);
}
