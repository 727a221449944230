//! `diff`: what a raider changed, or a merge request would land.

use std::time::Duration;

use serde_json::Value;

use super::{names, to_json};
use crate::actors::effects;
use crate::actors::refusal::Refusal;
use crate::actors::sagas::land;
use crate::actors::thread_budgets::WorkKind;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::merge::{MergeRequest, MrState};
use crate::domain::relic::Hook;
use crate::domain::work_diff::{Diff, DiffSum};
use crate::ports::relics::StoreError;
use crate::ports::repo::PendingWork;

/// The longest time in which the changes of a merge request are summed up.
const SUM_LIMIT: Duration = Duration::from_secs(6);

/// The work that is compared with its target.
enum Subject {
    /// A sandbox as it is now.
    Sandbox(Box<Hook>),
    /// A pushed head.
    Request(Box<MergeRequest>),
}

/// Compares the work of a raider, a merge request or a relic with its target.
pub(super) async fn diff(world: &World, name: &str) -> Result<Value, ControlError> {
    let diff = match subject(world, name).await? {
        Subject::Sandbox(hook) => of_sandbox(world, &hook.raider, hook.target).await?,
        Subject::Request(mr) => {
            unlanded(&mr)?;
            of_request(world, &mr).await?
        }
    };
    to_json(&diff)
}

/// Refuses a merge request that has landed: its head does not differ from the target any more.
fn unlanded(mr: &MergeRequest) -> Result<(), ControlError> {
    match (&mr.state, &mr.merge_commit) {
        (MrState::Merged, Some(commit)) => {
            let (id, target) = (&mr.id, &mr.target);
            let what = format!("{id} has landed on {target}; its last commit there is {commit}");
            let hint = format!("`git log -p {commit}` shows it, with those before it");
            Err(ControlError::conflict(what).hint(hint))
        }
        _ => Ok(()),
    }
}

/// Finds what a name means: a merge request, a relic (its raider, or else its newest merge request), or a raider.
async fn subject(world: &World, name: &str) -> Result<Subject, ControlError> {
    let Ok(id) = RelicId::new(name) else {
        return Ok(Subject::Sandbox(Box::new(
            names::raider(world, name).await?,
        )));
    };
    let known = id.clone();
    let (request, hook) = world
        .store
        .run(move |txn| {
            let hook = txn.hooks(None)?.into_iter().find(|it| it.relic == known);
            let request = match txn.mrs(None, false)?.into_iter().find(|mr| mr.id == known) {
                Some(mr) => Some(mr),
                None => txn.mrs_of(&known)?.pop(),
            };
            Ok((request, hook))
        })
        .await?;
    // A raider that has pushed may be gone, or work on.
    let is_open = |mr: &MergeRequest| !mr.is_final();
    match (request, hook) {
        (Some(mr), _) if mr.id == id || is_open(&mr) => Ok(Subject::Request(Box::new(mr))),
        (_, Some(hook)) => Ok(Subject::Sandbox(Box::new(hook))),
        (Some(mr), None) => Ok(Subject::Request(Box::new(mr))),
        (None, None) => Err(ControlError::not_found(format!(
            "no raider works on {id}, and it has no merge request"
        ))),
    }
}

async fn of_sandbox(
    world: &World,
    raider: &RaiderId,
    target: String,
) -> Result<Diff, ControlError> {
    let sandbox = world.city.sandbox(raider);
    let read = effects::repo_for(world, &raider.rig, WorkKind::Sandbox, move |repo| {
        repo.diff_of_sandbox(&sandbox, &target)
    });
    Ok(read.await.map_err(Refusal::from)?)
}

/// Compares a merge request with its target: what would land.
async fn of_request(world: &World, mr: &MergeRequest) -> Result<Diff, ControlError> {
    let Some(work) = pending(world, mr).await? else {
        let message = format!("rig {} is no longer configured", mr.rig);
        return Err(ControlError::conflict(message));
    };
    let read = effects::repo_for(world, &mr.rig, WorkKind::Sandbox, move |repo| {
        repo.diff_of_landing(&work)
    });
    Ok(read.await.map_err(Refusal::from)?)
}

/// Returns the work of a merge request as it would land; none when its rig is not configured.
async fn pending(world: &World, mr: &MergeRequest) -> Result<Option<PendingWork>, StoreError> {
    let Some(rig) = world.city.rig(&mr.rig) else {
        return Ok(None);
    };
    let relic = mr.relic.clone();
    let attempts = world.store.run(move |txn| txn.mrs_of(&relic)).await?;
    Ok(Some(PendingWork {
        head: mr.head.clone(),
        began: land::began(attempts),
        target: mr.target.clone(),
        style: rig.forge.style,
    }))
}

/// Sums up what a merge request changes; none when that cannot be read now, which is no reason to show nothing of it.
pub(super) async fn sum(world: &World, mr: &MergeRequest) -> Option<DiffSum> {
    if mr.is_final() {
        return None;
    }
    let work = pending(world, mr).await.ok()??;
    let read = effects::repo(world, &mr.rig, move |repo| repo.sum_of_landing(&work));
    let read = tokio::time::timeout(SUM_LIMIT, read).await;
    let Ok(read) = read else {
        tracing::debug!(mr = %mr.id, "it takes long to sum up the changes of a merge request");
        return None;
    };
    let read = read.inspect_err(|why| {
        tracing::debug!(mr = %mr.id, %why, "the changes of a merge request cannot be summed up");
    });
    read.ok()
}
