//! A merge request that waits for the review of a person.

use std::time::Duration;

use super::record::{record_mr, retry_later, take};
use super::{Plan, changed_paths};
use crate::actors::declared::review;
use crate::actors::effects;
use crate::actors::mail::LandOutcome;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::Oid;
use crate::domain::merge::{MergeRequest, Review};
use crate::domain::message::{self, Body, RaiderDone};
use crate::domain::queue::Step;
use crate::domain::relic::Completion;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// Holds a merge request until a person reviews this head. A person is told when it did not wait before, or waits with
/// another head now.
///
/// # Errors
/// The store's.
pub fn hold_for_review(
    txn: &mut dyn Txn,
    mut mr: MergeRequest,
    head: &Oid,
    why: Option<&str>,
) -> Result<(), StoreError> {
    let is_news = !mr.awaits_person() || mr.head != *head;
    let id = &mr.id;
    let is_replaced = mr.was_shown_before(head);
    let because = why.map_or_else(String::new, |why| format!(", because {why}"));
    let which = match (mr.review, is_replaced) {
        (Review::Approved, _) => "its branch was changed after the approval; ",
        (Review::None | Review::Wanted | Review::Rejected, true) => {
            "its head was replaced during the review; "
        }
        (Review::None | Review::Wanted | Review::Rejected, false) => "",
    };
    // A script that repeats its approval must not approve what was not shown to a person.
    let named = match is_replaced || mr.review == Review::Approved {
        true => format!(" --head {}", head.short()),
        false => String::new(),
    };
    let note =
        format!("{which}needs a review{because}: hd mq approve {id}{named} or hd mq reject {id}");
    let head = head.clone();
    // False where the merge request left its review since it was read.
    if take(txn, &mut mr, &Step::Verified { head, note })? && is_news {
        ask_person(txn, &mr)?;
    }
    Ok(())
}

/// Journals that a merge request waits for a person, and tells them.
fn ask_person(txn: &mut dyn Txn, mr: &MergeRequest) -> Result<(), StoreError> {
    record_mr(txn, EventType::MrHeld, mr, Cause::Done)?;
    let data = serde_json::json!({ "question": mr.note, "mr": mr.id, "relic": mr.relic });
    let event = NewEvent::new(EventType::RaiderNeedsInput, &mr.raider, Cause::Done);
    txn.record(&event.with(data)).map(drop)
}

/// The time in which a push whose answer was lost may still arrive: a remote may go on with it after its client gave up.
const ARRIVES: Duration = Duration::from_secs(600);

/// Returns true when a person may have to review a merge without approval.
fn compares(rig: &Rig, mr: &MergeRequest) -> bool {
    let policy = &rig.forge;
    let configured = policy.review_human || !policy.human_review_paths.is_empty();
    configured && mr.review != Review::Approved
}

/// Returns why a person must review what a merge would land; none when it may land. The merge can change other paths than
/// the branch did when it was submitted, and the configuration may be another one since. An approval is of the head, so
/// that a merge of an approved head is not asked about again.
///
/// # Errors
/// The paths cannot be listed at present.
pub(super) fn due(
    rig: &Rig,
    mr: &MergeRequest,
    changed: &Result<Vec<String>, RepoError>,
) -> Result<Option<String>, Refusal> {
    if !compares(rig, mr) {
        return Ok(None);
    }
    if rig.forge.review_human {
        return Ok(Some("`review` of its rig is \"human\" now".to_owned()));
    }
    review::of_paths(&rig.forge, changed.clone())
}

/// Has a person review what is about to be pushed, if the configuration that holds now wants it. Returns none when it may be
/// pushed. While an earlier push may still arrive at the remote, the merge request waits for it: a person must not be asked about
/// work that lands anyway.
pub(super) async fn before_push(
    world: &World,
    mr: &MergeRequest,
    plan: &Plan,
    saga: u64,
) -> Result<Option<LandOutcome>, Refusal> {
    let waits = match reason_before_push(world, mr, plan).await {
        Ok(None) => return Ok(None),
        Ok(Some(why)) if may_arrive(world, plan, saga) => {
            let why = format!(
                "it needs a review, because {why}; but a push of it was not answered, and may still arrive: a person reviews \
                 it if it has not arrived after {} minutes",
                ARRIVES.as_secs() / 60
            );
            retry_later(world, mr.clone(), why).await?
        }
        Ok(Some(why)) => return_to_review(world, mr.clone(), why, Some(saga)).await?,
        Err(error) => {
            let why = format!("it is not known now whether a person must review it: {error}");
            retry_later(world, mr.clone(), why).await?
        }
    };
    Ok(Some(waits))
}

/// Returns true while an earlier push of the saga may still be carried out.
fn may_arrive(world: &World, plan: &Plan, saga: u64) -> bool {
    let age = |at| world.age(&format!("push/{saga}"), at);
    plan.pushed_at.is_some_and(|at| age(at) < ARRIVES)
}

/// Returns why a person must review what is about to be pushed; none when it may land, or has landed: the answer of an earlier
/// push may have been lost.
async fn reason_before_push(
    world: &World,
    mr: &MergeRequest,
    plan: &Plan,
) -> Result<Option<String>, Refusal> {
    let newest = world.directory.newest();
    let world = newest.as_deref().unwrap_or(world);
    let Some(rig) = world.city.rig(&mr.rig) else {
        return Ok(None);
    };
    if !compares(rig, mr) {
        return Ok(None);
    }
    let changed = changed_paths(world, rig, mr, &plan.new).await;
    if matches!(changed, Err(RepoError::NotFound(_))) {
        // A garbage collection took the tested commit: the push finds that, and what is made anew is compared.
        return Ok(None);
    }
    let Some(why) = due(rig, mr, &changed)? else {
        return Ok(None);
    };
    let (target, new) = (plan.target.clone(), plan.new.clone());
    let landed = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
        repo.landed(&target, &new)
    });
    match landed.await.map_err(Refusal::from)? {
        true => Ok(None),
        false => Ok(Some(why)),
    }
}

/// Takes a merge request out of its attempt, for the review of a person, and closes the saga of its push. Its raider may
/// be gone: the witness gets the declaration of its work again, and passes the head on when it is approved.
pub(super) async fn return_to_review(
    world: &World,
    mr: MergeRequest,
    why: String,
    saga: Option<u64>,
) -> Result<LandOutcome, Refusal> {
    let witness = message::witness(&mr.rig);
    let to = witness.clone();
    let returned = world.store.run(move |txn| {
        if let Some(id) = saga {
            txn.close_saga(id)?;
        }
        let mut mr = txn.mr(&mr.id)?;
        let id = &mr.id;
        let note =
            format!("needs a review, because {why}: hd mq approve {id} or hd mq reject {id}");
        if !take(txn, &mut mr, &Step::NeedsReview { note })? {
            return Ok(());
        }
        let done = RaiderDone {
            raider: mr.raider.clone(),
            incarnation: mr.incarnation,
            rig: mr.rig.clone(),
            relic: mr.relic.clone(),
            branch: mr.branch.clone(),
            head: mr.head.clone(),
            exit: Completion::Completed,
            cleanup_status: None,
            gate: Some("human".to_owned()),
        };
        txn.send(&message::forge(&mr.rig), &to, Body::RaiderDone(done))?;
        ask_person(txn, &mr)
    });
    returned.await?;
    world.nudge(&witness);
    Ok(LandOutcome::Withdrawn)
}
