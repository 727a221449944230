//! The results of a declared completion: the merge request and the message to the witness.

use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::super::{land, pack};
use super::Plan;
use crate::actors::declared::{Decided, lands, review};
use crate::actors::records::{identities, raider_notes};
use crate::domain::merge::{MergeRequest, MrState, Review};
use crate::domain::message::{self, Body, RaiderDone};
use crate::domain::relic::RelicKind;
use crate::domain::saga::Saga;
use crate::ports::relics::{NewRelic, StoreError, Txn};

/// Writes the merge request (for completed work with commits) and POLECAT_DONE, in one transaction. A merge request that
/// needs a review is held for it there: what was pushed is what a person reviews, whatever the session writes later.
pub(super) async fn submit(world: &World, saga: &mut Saga, plan: &mut Plan) -> Result<(), Refusal> {
    let needed = review_of(world, plan).await?;
    let rig = plan.raider.rig.clone();
    let hold = world.city.rig(&rig).map(|rig| rig.witness.review_hold);
    plan.keeps_session = needed.is_some() && hold.is_some_and(|hold| !hold.is_zero());
    let (id, data) = (saga.id, pack(plan));
    let city = std::sync::Arc::clone(&world.city);
    let (plan, stored) = (plan.clone(), data.clone());
    world
        .store
        .run(move |txn| {
            if lands(plan.exit, plan.no_change) {
                let prefix = city.rig(&plan.raider.rig).map(|rig| rig.prefix.clone());
                let mr = request_of(txn, &plan, prefix.unwrap_or_else(|| "mr".into()))?;
                raider_notes::keep(txn, &mr)?;
                if let Some(review::Needed { why }) = &needed {
                    land::hold_for_review(txn, mr, &plan.head, why.as_deref())?;
                }
            }
            let done = RaiderDone {
                raider: plan.raider.clone(),
                incarnation: plan.incarnation,
                rig: plan.raider.rig.clone(),
                relic: plan.relic.clone(),
                branch: plan.branch.clone(),
                head: plan.head.clone(),
                exit: plan.exit,
                cleanup_status: plan.cleanup_status,
                gate: needed.as_ref().map(|_| "human".to_owned()),
            };
            let (from, to) = (plan.raider.to_string(), message::witness(&plan.raider.rig));
            // The one about an earlier head has no receiver any more.
            land::forget_done(txn, &plan.raider, plan.incarnation)?;
            txn.send(&from, &to, Body::RaiderDone(done))?;
            txn.step_saga(id, "submit", &stored)
        })
        .await?;
    saga.step = "submit".to_owned();
    saga.data = data;
    world.nudge(&message::witness(&rig));
    Ok(())
}

/// Returns the review that the pushed head needs.
async fn review_of(world: &World, plan: &Plan) -> Result<Option<review::Needed>, Refusal> {
    if !lands(plan.exit, plan.no_change) {
        return Ok(None);
    }
    let needed = review::needed(world, &plan.raider.rig, &plan.head, &plan.target).await?;
    // What a person has begun to review, or has rejected, stays with them.
    // Not that of the plan, which an older version may have journalled.
    let decided = Decided::of(world, &plan.relic).await?;
    let was_rejected = decided.rejected_head().is_some();
    let asked = plan.wants_review || plan.replaces.is_some() || was_rejected;
    Ok(needed.or(asked.then_some(review::Needed { why: None })))
}

/// Returns the merge request of this incarnation that is open; makes it when there is none.
fn request_of(txn: &mut dyn Txn, plan: &Plan, prefix: String) -> Result<MergeRequest, StoreError> {
    let open = txn.mr_of(&plan.relic, &plan.raider, plan.incarnation)?;
    match open.filter(|mr| !mr.is_final()) {
        Some(mr) => Ok(mr),
        None => make_mr(txn, plan, prefix),
    }
}

fn make_mr(txn: &mut dyn Txn, plan: &Plan, prefix: String) -> Result<MergeRequest, StoreError> {
    let work = txn.relic(&plan.relic)?;
    let new = NewRelic {
        prefix,
        kind: RelicKind::MergeRequest,
        title: format!("land {}: {}", plan.relic, work.title),
        body: String::new(),
        priority: work.priority,
        labels: Vec::new(),
        parent: None,
        deps: Vec::new(),
        by: None,
    };
    let id = txn.create_relic(&new)?.id;
    // A rework keeps the queue position of its first attempt.
    let earlier = txn.mrs_of(&plan.relic)?;
    let first = earlier.iter().map(|mr| mr.queued_at).min();
    let queued_at = first.unwrap_or_else(|| txn.now());
    let hook = txn.hook(&plan.raider)?;
    let hook = hook.filter(|hook| hook.incarnation == plan.incarnation && hook.from_target);
    // A branch that is continued keeps its first base.
    let went_on = |mr: &&MergeRequest| work.branch.as_ref() == Some(&mr.branch);
    let began = hook.map(|hook| hook.base);
    // One that began on an existing branch has what that had of the target.
    let attempt = identities::of(txn, &plan.raider, plan.incarnation, &plan.relic)?;
    let began = began.or(attempt.began);
    let began = began.or_else(|| earlier.iter().rfind(went_on)?.began.clone());
    // The pull request of a rejected attempt is that of the branch, which has the later commits now.
    let is_same = |mr: &&MergeRequest| mr.branch == plan.branch && mr.target == plan.target;
    let newest = earlier.iter().rfind(is_same);
    let pr = newest.filter(|mr| mr.state != MrState::Merged);
    let pr = pr.and_then(|mr| mr.pr.clone());
    let mr = MergeRequest {
        id,
        rig: plan.raider.rig.clone(),
        relic: plan.relic.clone(),
        raider: plan.raider.clone(),
        incarnation: plan.incarnation,
        branch: plan.branch.clone(),
        head: plan.head.clone(),
        target: plan.target.clone(),
        state: MrState::Reviewing,
        priority: work.priority,
        queued_at,
        attempts: 0,
        not_before: None,
        gates: Vec::new(),
        conflict_files: Vec::new(),
        merge_commit: None,
        note: None,
        began,
        hold: None,
        held_since: None,
        settled_at: None,
        review: Review::None,
        pr,
        replaced: false,
        decided_at: None,
    };
    txn.put_mr(&mr)?;
    Ok(mr)
}
