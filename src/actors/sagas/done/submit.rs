//! The results of a declared completion: the merge request and the message to the witness.

use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::super::pack;
use super::Plan;
use crate::domain::merge::{MergeRequest, MrState, Review};
use crate::domain::message::{self, Body, RaiderDone};
use crate::domain::relic::{Exit, RelicKind};
use crate::domain::saga::Saga;
use crate::ports::relics::{NewRelic, StoreError, Txn};

/// Writes the merge request (for completed work with commits) and POLECAT_DONE, in one transaction.
pub(super) async fn submit(world: &World, saga: &mut Saga, plan: &Plan) -> Result<(), Refusal> {
    let (id, data) = (saga.id, pack(plan));
    let city = std::sync::Arc::clone(&world.city);
    let (plan, stored) = (plan.clone(), data.clone());
    let rig = plan.raider.rig.clone();
    world
        .store
        .run(move |txn| {
            let lands = plan.exit == Exit::Completed && !plan.no_change;
            if lands
                && txn
                    .mr_of(&plan.relic, &plan.raider, plan.incarnation)?
                    .is_none()
            {
                let prefix = city.rig(&plan.raider.rig).map(|rig| rig.prefix.clone());
                make_mr(txn, &plan, prefix.unwrap_or_else(|| "mr".into()))?;
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
                gate: plan.wants_review.then(|| "human".to_owned()),
            };
            let (from, to) = (plan.raider.to_string(), message::witness(&plan.raider.rig));
            txn.send(&from, &to, Body::RaiderDone(done))?;
            txn.step_saga(id, "submit", &stored)
        })
        .await?;
    saga.step = "submit".to_owned();
    saga.data = data;
    world.nudge(&message::witness(&rig));
    Ok(())
}

fn make_mr(txn: &mut dyn Txn, plan: &Plan, prefix: String) -> Result<(), StoreError> {
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
    let began = began.or_else(|| earlier.iter().rfind(went_on)?.began.clone());
    txn.put_mr(&MergeRequest {
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
        review: if plan.wants_review {
            Review::Wanted
        } else {
            Review::None
        },
    })
}
