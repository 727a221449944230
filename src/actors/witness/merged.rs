//! MERGED: accepted only when the remote's target has the commit; then relic and hook are closed, the outcome recorded,
//! the branch deleted, and any kept sandbox removed (`witness-patrol.md`, signal path; `product.md`). Earlier
//! attempts at the relic that never landed become salvage before their branches are deleted.

use super::super::effects;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::closing;
use super::inbox::Handled;
use super::{WitnessArgs, nuke_now};
use crate::actors::mail::NukeTarget;
use crate::actors::records::escalations::{self, Ends};
use crate::actors::records::identities::{self, Ended};
use crate::actors::records::salvages::{self, SalvageSubject};
use crate::domain::attempt::Outcome;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data;
use crate::domain::merge::MergeRequest;
use crate::domain::message::{self, Escalation, Merged};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::FaultPoint;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// Handles MERGED. Idempotent: every step may have been done before.
///
/// # Errors
/// The remote or the store is not available at present.
pub async fn merged(args: &WitnessArgs, id: u64, merged: Merged) -> Result<Handled, Refusal> {
    let world = &args.world;
    let (target, commit) = (merged.target.clone(), merged.merge_commit.clone());
    let landed = effects::repo_for(world, &args.rig, effects::WorkKind::Network, move |repo| {
        repo.landed(&target, &commit)
    })
    .await?;
    if !landed {
        let (commit, target) = (&merged.merge_commit, &merged.target);
        let body = Escalation::high(
            &merged.raider,
            ProblemKind::MergeNotOnTarget,
            format!("{} names {commit}, which is not on {target}", merged.mr),
        )
        .on(merged.relic.clone());
        escalations::call(world, &message::witness(&args.rig), Ends::WithWork, body).await?;
        return Ok(Handled::AtPatrol);
    }
    world.at(FaultPoint::MergedCloseBefore);
    let body = merged.clone();
    let requests = world.store.run(move |txn| close(txn, &body)).await?;
    world.at(FaultPoint::MergedCloseAfter);
    // The branch keeps the sandbox's commits reachable: it is deleted after the sandbox.
    match release(args, &merged).await? {
        Handled::Yes => {}
        later => return Ok(later),
    }
    for (nth, mr) in requests.iter().enumerate() {
        if mr.id == merged.mr || is_held(args, mr).await? {
            // Of several attempts of one raider, the branch has the head of the last one.
            let later = &requests[nth + 1..];
            let deletes_branch = later.iter().all(|later| later.branch != mr.branch);
            tidy(args, mr, deletes_branch).await?;
        }
    }
    world.store.run(move |txn| txn.handled(id)).await?;
    Ok(Handled::Yes)
}

/// Closes the relic, unless it was closed during the push, and journals the landing once. Returns the merge requests of
/// the relic that are over.
fn close(txn: &mut dyn Txn, merged: &Merged) -> Result<Vec<MergeRequest>, StoreError> {
    let mut all = txn.mrs_of(&merged.relic)?;
    if !is_told(txn, merged)? {
        let mut relic = txn.relic(&merged.relic)?;
        let closes = relic.status != RelicStatus::Closed;
        if closes {
            relic.status = RelicStatus::Closed;
            relic.closed = Some(txn.now());
            relic.context = None;
            // What was on that branch has landed: a reopened relic begins on the target.
            relic.starts_on = None;
            txn.put_relic(&relic)?;
        }
        let data = serde_json::json!({
            "raider": merged.raider, "incarnation": merged.incarnation,
            "mr": merged.mr, "branch": merged.branch, "head": merged.head,
        });
        let landed = event_data::Merged {
            relic: relic.id.clone(),
            target: merged.target.clone(),
            merge_commit: merged.merge_commit.to_string(),
            noop: merged.noop,
        };
        let event = NewEvent::new(EventType::RaiderMerged, &merged.raider, Cause::Merged);
        txn.record(&event.with(data.clone()).and(&landed))?;
        if closes {
            let event = NewEvent::new(EventType::RelicClosed, &relic.id, Cause::Merged);
            txn.record(&event.with(data).and(&landed))?;
            closing::close_steps(txn, &relic, &Cause::Merged.into())?;
        }
        // Work that changed nothing says nothing about the agent, unless the change came to the target from its branch.
        let outcome = match merged.noop && !merged.elsewhere {
            true => Outcome::NoChange,
            false => Outcome::Merged,
        };
        let ended = Ended {
            raider: &merged.raider,
            incarnation: merged.incarnation,
            relic: &merged.relic,
            mr: Some(&merged.mr),
            outcome,
            failure: None,
            declared: None,
        };
        identities::end(txn, &ended)?;
        escalations::landed(txn, &[&merged.relic, &merged.mr])?;
        if let Some(mr) = all.iter_mut().find(|mr| mr.id == merged.mr) {
            mr.settled_at = Some(txn.now());
            txn.put_mr(mr)?;
        }
    }
    all.retain(|mr| mr.is_final() || mr.id == merged.mr);
    Ok(all)
}

/// Returns true when the landing of this merge request is recorded.
///
/// # Errors
/// The store's.
pub(super) fn is_told(txn: &mut dyn Txn, merged: &Merged) -> Result<bool, StoreError> {
    let told = |mr: &MergeRequest| mr.id == merged.mr && mr.settled_at.is_some();
    Ok(txn.mrs_of(&merged.relic)?.iter().any(told))
}

/// Returns true when the work of an attempt that did not land is held by more than its branch and its pin: the target
/// has it all the same, or salvage does from now on.
async fn is_held(args: &WitnessArgs, mr: &MergeRequest) -> Result<bool, Refusal> {
    let world = &args.world;
    let attempt = mr.clone();
    let kept = effects::repo_for(world, &args.rig, effects::WorkKind::Sandbox, move |repo| {
        let MergeRequest { head, target, .. } = &attempt;
        // An equal patch does not hold the commit; if unknown, the commit is salvaged.
        if repo.landed(target, head).unwrap_or(false) {
            return Ok(None);
        }
        let kept = repo.salvage_head(head, &attempt.raider, attempt.incarnation);
        kept.map(Some)
    });
    match kept.await {
        Ok(None) => Ok(true),
        Ok(Some(record)) => {
            let about = SalvageSubject::of(mr, Cause::Superseded);
            let noted = world
                .store
                .run(move |txn| salvages::record(txn, &about, &record));
            noted.await?;
            Ok(true)
        }
        Err(RepoError::NotFound(why)) => {
            tracing::warn!(
                mr = %mr.id,
                why,
                "the commits of an earlier attempt are only on its remote branch; the branch is \
                kept"
            );
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Deletes the pin and, if wanted, the branch on the remote. A branch that moved since is kept.
async fn tidy(args: &WitnessArgs, mr: &MergeRequest, deletes_branch: bool) -> Result<(), Refusal> {
    let (branch, head, id) = (mr.branch.clone(), mr.head.clone(), mr.id.clone());
    let rig = args.rig.clone();
    let tidied = effects::repo_for(
        &args.world,
        &args.rig,
        effects::WorkKind::Network,
        move |repo| {
            let delete = || repo.delete_branch(&branch, &head);
            match if deletes_branch { delete() } else { Ok(()) } {
                Ok(()) => {}
                Err(RepoError::Moved { found, .. }) => {
                    tracing::warn!(
                        %rig,
                        branch,
                        found,
                        "a landed branch has new commits on the remote; it is kept"
                    );
                }
                // The remote's rules forbid it; the landing stored.
                Err(RepoError::Rejected(why)) => {
                    tracing::warn!(
                        %rig,
                        branch,
                        why,
                        "the remote refuses to delete a landed branch; it is kept"
                    );
                }
                Err(error) => return Err(error),
            }
            repo.unpin(&id)
        },
    );
    Ok(tidied.await?)
}

/// Removes a kept sandbox; a sandbox that holds work stays, and its branch with it.
async fn release(args: &WitnessArgs, merged: &Merged) -> Result<Handled, Refusal> {
    let raider = merged.raider.clone();
    let hook = args.world.store.run(move |txn| txn.hook(&raider)).await?;
    let Some(hook) = hook.filter(|hook| hook.incarnation == merged.incarnation) else {
        return Ok(Handled::Yes);
    };
    match nuke_now(args, NukeTarget::of(&hook, Cause::Merged), false).await {
        Ok(_) => Ok(Handled::Yes),
        Err(kept) if matches!(kept.kind, RefusalKind::WorkAtRisk | RefusalKind::NoRoom) => {
            Ok(Handled::AtPatrol)
        }
        // Another task has claimed it, and tells the witness when it ends.
        Err(busy) if busy.is_for_the_patrol() => Ok(Handled::AtPatrol),
        Err(error) => Err(error),
    }
}
