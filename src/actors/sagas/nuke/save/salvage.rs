//! Salvage: the contents of a sandbox, written to refs and recorded (`product.md`, promise 1).

use jiff::Timestamp;

use super::super::missing::strays;
use super::super::{facts, fence, quota};
use crate::actors::effects;
use crate::actors::mail::NukeTarget;
use crate::actors::records::salvages::{self, SalvageSubject};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::prune;
use crate::actors::world::World;
use crate::domain::facts::GitFacts;
use crate::domain::ids::Oid;
use crate::domain::saga::FaultPoint;
use crate::ports::relics::{SalvageEntry, Txn};
use crate::ports::repo::{RepoError, SalvageRecord};

/// Writes and records salvage for a removal. Returns the facts that it was written from.
///
/// # Errors
/// As [`write_salvage`]'s; [`RepoError::PermitStale`] when another state was written, twice.
pub(in crate::actors::sagas::nuke) async fn save(
    world: &World,
    target: &NukeTarget,
) -> Result<GitFacts, Refusal> {
    if let Ok(facts) = save_once(world, target).await? {
        return Ok(facts);
    }
    // A salvage may itself change what git says: a commit whose missing file it saved is whole from then on.
    let facts = match save_once(world, target).await? {
        Ok(facts) => return Ok(facts),
        Err(facts) => facts,
    };
    let what = format!("it changed while it was saved{}", facts.in_files());
    Err(RepoError::PermitStale(what).into())
}

/// Writes and records salvage. Returns the facts from before it: as an error when the sandbox changed meanwhile, even
/// if it is by now as it was, because the refs may hold another state.
async fn save_once(
    world: &World,
    target: &NukeTarget,
) -> Result<Result<GitFacts, GitFacts>, Refusal> {
    let (facts, record) = write_salvage(world, target).await?;
    Ok(match record.fingerprint.as_deref() {
        Some(written) if written == facts.fingerprint => Ok(facts),
        _ => Err(facts),
    })
}

/// Writes and records salvage of the present state. Returns both, with the facts from just before.
///
/// # Errors
/// There is no room, or git could not read or keep everything.
pub(in crate::actors::sagas) async fn write_salvage(
    world: &World,
    target: &NukeTarget,
) -> Result<(GitFacts, SalvageRecord), Refusal> {
    quota::check(world, target).await?;
    let (sandbox, raider) = (world.city.sandbox(&target.raider), target.raider.clone());
    let (incarnation, branch) = (target.incarnation, target.target.clone());
    let (facts, record) = effects::repo_for(
        world,
        &target.raider.rig,
        effects::WorkKind::Sandbox,
        move |repo| {
            let facts = repo.facts(&sandbox, &branch)?;
            let record = repo.salvage(&sandbox, &raider, incarnation)?;
            Ok((facts, record))
        },
    )
    .await?;
    put_on_record(world, target, record.clone()).await?;
    Ok((facts, record))
}

/// Records a salvage that was written.
async fn put_on_record(
    world: &World,
    target: &NukeTarget,
    record: SalvageRecord,
) -> Result<(), Refusal> {
    world.at(FaultPoint::NukeSalvageBefore);
    let (target, id) = (target.clone(), record.id.clone());
    let of = SalvageSubject::from(&target);
    let noted = move |txn: &mut dyn Txn| salvages::record(txn, &of, &record);
    world.store.run(noted).await?;
    world.at(FaultPoint::NukeSalvageAfter);
    // Starts its monotonic age at zero, whatever the wall clock is set to later.
    let _new = prune::age(world, &id, world.clock.now());
    Ok(())
}

/// Salvages an unattended sandbox that stays, once since `since`: unpushed commits wait for a person, and must not
/// depend on the sandbox meanwhile. Commits are saved even when there is no room for the rest.
///
/// # Errors
/// As [`write_salvage`]'s; or another task has claimed the sandbox.
pub async fn safekeep(world: &World, target: &NukeTarget, since: Timestamp) -> Result<(), Refusal> {
    let _alone = fence(world, target, false).await?;
    let (raider, incarnation) = (target.raider.clone(), target.incarnation);
    let kept = world.store.run(|txn| txn.salvages()).await?;
    let own = |entry: &SalvageEntry| {
        let of = (&entry.rig, &entry.raider, entry.incarnation);
        of == (&raider.rig, &raider.name, incarnation) && entry.created >= since
    };
    if kept
        .iter()
        .any(|entry| own(entry) && !is_commit_alone(entry))
    {
        return Ok(());
    }
    match write_salvage(world, target).await {
        Err(refused) if refused.kind == RefusalKind::NoRoom => {
            // A commit takes no room.
            if let Some(git) = facts(world, target).await? {
                keep_commit(world, target, &git.head).await?;
            }
            // HEAD may have left its own branch.
            for head in strays(world, target).await? {
                keep_commit(world, target, &head).await?;
            }
            Err(refused)
        }
        written => written.map(drop),
    }
}

/// Returns true when the salvage holds only a commit.
fn is_commit_alone(entry: &SalvageEntry) -> bool {
    entry.refs.len() == 1 && entry.bytes == 0
}

/// Keeps a commit that becomes unreachable once a raider's branch is deleted on a remote, which may have happened
/// already: a remote-tracking ref does not prove that the remote has it. A commit takes no room.
///
/// # Errors
/// Its reachability is unknown, or it could not be kept.
pub(in crate::actors::sagas::nuke) async fn keep_unheld(
    world: &World,
    target: &NukeTarget,
    head: &Oid,
) -> Result<(), Refusal> {
    let (commit, onto) = (head.clone(), target.target.clone());
    let held = effects::repo_for(
        world,
        &target.raider.rig,
        effects::WorkKind::Sandbox,
        move |repo| repo.holds(&commit, &onto),
    );
    match held.await? {
        true => Ok(()),
        false => keep_commit(world, target, head).await,
    }
}

/// Salvages what git still has of a sandbox whose directory is gone.
///
/// # Errors
/// There is no room, or git could not keep everything.
pub(in crate::actors::sagas::nuke) async fn keep_remains(
    world: &World,
    target: &NukeTarget,
) -> Result<(), Refusal> {
    quota::check(world, target).await?;
    let (sandbox, raider) = (world.city.sandbox(&target.raider), target.raider.clone());
    let incarnation = target.incarnation;
    let kept = effects::repo_for(
        world,
        &target.raider.rig,
        effects::WorkKind::Sandbox,
        move |repo| repo.salvage(&sandbox, &raider, incarnation),
    );
    put_on_record(world, target, kept.await?).await
}

/// Keeps a commit and records it.
///
/// # Errors
/// The commit could not be kept.
pub(in crate::actors::sagas::nuke) async fn keep_commit(
    world: &World,
    target: &NukeTarget,
    head: &Oid,
) -> Result<(), Refusal> {
    let (head, raider, incarnation) = (head.clone(), target.raider.clone(), target.incarnation);
    let kept = effects::repo_for(
        world,
        &target.raider.rig,
        effects::WorkKind::Sandbox,
        move |repo| repo.salvage_head(&head, &raider, incarnation),
    );
    put_on_record(world, target, kept.await?).await
}
