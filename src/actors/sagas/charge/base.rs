//! The commit at which a raider's branch begins.

use super::super::super::effects;
use super::super::super::refusal::{Refusal, RefusalKind};
use super::super::super::world::World;
use crate::actors::rig_settings;
use crate::domain::city::Rig;
use crate::domain::existing_branch::{self, NoStart, Start};
use crate::domain::ids::Oid;
use crate::domain::relic::Relic;
use crate::ports::repo::RepoError;

/// The start of a raider's branch.
#[derive(Debug)]
pub(super) struct Base {
    /// The commit.
    pub(super) head: Oid,
    /// Set when it is the tip of the target.
    pub(super) from_target: bool,
    /// The existing branch that it is on, if one was asked for.
    pub(super) start: Option<Start>,
    /// The newest commit of the target that this branch has: if it is taken off the target later, the work does not
    /// bring it back.
    pub(super) began: Option<Oid>,
}

/// Returns the start of the branch: the commit pushed for the relic before, else the existing branch that it begins on,
/// else the target.
pub(super) async fn base(
    world: &World,
    rig: &Rig,
    relic: &Relic,
    target: &str,
) -> Result<Base, Refusal> {
    if let Some(branch) = relic.branch.clone() {
        let pushed = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
            repo.fetch_branch(&branch)
        })
        .await?;
        if let Some(head) = pushed {
            return Ok(Base {
                head,
                from_target: false,
                start: None,
                began: None,
            });
        }
    }
    if let Some(branch) = &relic.starts_on {
        let start = start_on(world, rig, branch, Some(target)).await?;
        let (head, target) = (start.head.clone(), target.to_owned());
        let kind = effects::WorkKind::Network;
        let began = effects::repo_for(world, &rig.name, kind, move |repo| {
            repo.fork_point(&head, &target)
        });
        return Ok(Base {
            head: start.head.clone(),
            from_target: false,
            began: began.await?,
            start: Some(start),
        });
    }
    let (target, name) = (target.to_owned(), target.to_owned());
    let state = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
        repo.fetch_target(&target)
    })
    .await
    .map_err(|error| {
        let is_gone = matches!(error, RepoError::NotFound(_));
        let refusal = Refusal::from(error);
        match is_gone {
            true => refusal.hint(format!(
                "{name} is the branch that the work would land on: push it, or set `target` of [rigs.forge] or \
                 `default_branch` of the rig"
            )),
            false => refusal,
        }
    })?;
    Ok(Base {
        head: state.tip,
        from_target: true,
        start: None,
        began: None,
    })
}

/// Returns the commit of an existing branch for work to begin on. Without a target, the rig's counts.
///
/// # Errors
/// [`RefusalKind::NotFound`] for a branch that is not there, [`RefusalKind::BadRequest`] for the target,
/// [`RefusalKind::Conflict`] for the branch of a raider that works on it; those of the remote.
pub async fn start_on(
    world: &World,
    rig: &Rig,
    branch: &str,
    target: Option<&str>,
) -> Result<Start, Refusal> {
    let usual = match target {
        Some(target) => target.to_owned(),
        None => rig_settings::target(world, rig).await?,
    };
    if usual == branch {
        let why = NoStart::Target(branch.to_owned());
        return Err(Refusal::new(RefusalKind::BadRequest, why.to_string()));
    }
    let (name, wanted) = (rig.name.clone(), branch.to_owned());
    let hooks = world.store.run(move |txn| txn.hooks(Some(&name))).await?;
    if let Some(hook) = hooks.into_iter().find(|hook| hook.branch == wanted) {
        let why = NoStart::InUse {
            branch: wanted,
            raider: hook.raider,
        };
        let hint = "wait until its work is done, or name another branch";
        return Err(Refusal::conflict(why.to_string()).hint(hint));
    }
    let found = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
        repo.find_branch(&wanted)
    });
    existing_branch::choose(branch, &found.await?).map_err(|why| {
        let hint = match &why {
            NoStart::Missing {
                similar: Some(similar),
                ..
            } => format!("did you mean {similar}?"),
            _ => "push it, or create it in the checkout of the rig".to_owned(),
        };
        Refusal::new(RefusalKind::NotFound, why.to_string()).hint(hint)
    })
}
