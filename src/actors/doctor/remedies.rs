//! The remedies of `hd doctor --fix`. No remedy decides that work may be lost: a sandbox goes through the safety
//! protocol, a branch is deleted only while another ref reaches it.

use crate::actors::outbox;
use crate::actors::sandboxes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::effects;
use super::super::refusal::Refusal;
use super::super::root::end_orphan;
use super::super::sagas::nuke;
use super::super::world::World;
use super::{owned, refusal_text, relics, wanted};
use crate::actors::mail::NukeTarget;
use crate::actors::sandboxes::Hookless;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::doctor::Remedy;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::SessionFacts;
use crate::domain::ids::{RaiderId, RigName};
use crate::ports::sessions::SessionHandle;

/// Applies a remedy.
///
/// # Errors
/// The reason why nothing was changed.
pub(super) async fn apply(world: &Arc<World>, remedy: Remedy, asker: &Asker) -> Result<(), String> {
    match remedy {
        Remedy::End(session) => end(world, session, asker).await,
        Remedy::Nuke(raider) => nuke(world, raider, asker).await,
        Remedy::Drop(rig, branch) => drop_branch(world, rig, branch, asker).await,
        Remedy::Reopen(relic, raider) => {
            let opened = relics::reopen(world, relic, raider, asker).await;
            opened.map_err(|refusal| refusal_text(&refusal))
        }
        Remedy::Empty => empty(world).await,
        Remedy::CarryOut(file) => {
            outbox::drain(world).await;
            match is_left(world, &file).await? {
                true => Err("it still waits; the supervisor's log has the reason".to_owned()),
                false => Ok(()),
            }
        }
        Remedy::Remove(file) => {
            let removed = effects::tasks(world, effects::Owner::City, move |tasks| {
                tasks.remove_intent(&file)
            })
            .await;
            removed.map_err(|error| error.to_string())
        }
    }
}

async fn end(world: &World, session: SessionFacts, asker: &Asker) -> Result<(), String> {
    let owned = world.store.run(owned).await.map_err(|e| e.to_string())?;
    let wanted = wanted(world, &owned.held)
        .await
        .map_err(|e| e.to_string())?;
    let SessionFacts { id, token, .. } = session;
    if wanted.contains(&id) || world.city.is_agents(&id) {
        return Err("a raider or agent needs it by now".to_owned());
    }
    let event = NewEvent::new(EventType::AgentOrphanStopped, &id, asker);
    let handle = SessionHandle {
        id: id.clone(),
        token,
    };
    match end_orphan(world, handle, event).await {
        None => return Err("it is being ended".to_owned()),
        Some(ended) => ended.map(drop).map_err(|error| error.to_string())?,
    }
    // Only a record of a session without child is left: its log is kept for its time.
    let own = id.clone();
    let forgotten = effects::sessions(world, &id, move |provider| provider.forget(&own)).await;
    forgotten.map_err(|error| error.to_string())
}

/// Removes a sandbox that is still there without a hook; the fence keeps out every other nuke of the slot, and the
/// sandbox itself keeps out charges.
async fn nuke(world: &World, raider: RaiderId, asker: &Asker) -> Result<(), String> {
    let gone = || format!("rig {} is no longer configured", raider.rig);
    let rig = world.city.rig(&raider.rig).ok_or_else(gone)?;
    let removed = async {
        let lone = sandboxes::hookless(world, rig).await?;
        let mut was = lone.iter().filter_map(Hookless::hook);
        let was = was.find(|hook| hook.raider == raider);
        let held = || Refusal::conflict("it was removed, or a raider uses it by now");
        let target = NukeTarget {
            asker: Some(asker.clone()),
            ..NukeTarget::of(was.ok_or_else(held)?, Cause::Operator)
        };
        let _alone = nuke::fence(world, &target, false).await?;
        let judged = nuke::permitted(world, target).await?;
        let (saga, _claim) = nuke::begin(world, &judged).await?;
        nuke::run(world, saga, Some(judged)).await
    };
    removed
        .await
        .map(drop)
        .map_err(|refusal| refusal_text(&refusal))
}

async fn drop_branch(
    world: &World,
    rig: RigName,
    branch: String,
    asker: &Asker,
) -> Result<(), String> {
    let name = branch.clone();
    match effects::repo(world, &rig, move |repo| repo.drop_branch(&name)).await {
        Ok(true) => {}
        Ok(false) => {
            return Err("no other ref reaches its commits, or it is checked out".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    }
    let data = serde_json::json!({ "branch": branch });
    let event = NewEvent::new(EventType::BranchDropped, rig, asker);
    world.store.journal(vec![event.with(data)]);
    Ok(())
}

async fn empty(world: &World) -> Result<(), String> {
    let emptied = async {
        effects::tasks(world, effects::Owner::City, |tasks| tasks.empty_trash()).await?;
        effects::tasks(world, effects::Owner::City, |tasks| tasks.leftovers()).await
    };
    match emptied.await {
        Ok(left) if left.trash.is_empty() => Ok(()),
        Ok(left) => Err(format!("{} entries could not be deleted", left.trash.len())),
        Err(error) => Err(error.to_string()),
    }
}

async fn is_left(world: &World, file: &Path) -> Result<bool, String> {
    let left = effects::tasks(world, effects::Owner::City, |tasks| tasks.leftovers()).await;
    let left = left.map_err(|error| error.to_string())?;
    let mut files = left.outbox.into_iter().map(|(path, _): (PathBuf, _)| path);
    Ok(files.any(|path| path == file))
}
