//! A merge request that waits for the review of a person.

use super::record::{record_mr, take};
use crate::actors::declared::review;
use crate::actors::mail::Attempt;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::Oid;
use crate::domain::merge::{MergeRequest, Review};
use crate::domain::message::{self, Body, RaiderDone};
use crate::domain::queue::Step;
use crate::domain::relic::Exit;
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
        (Review::None | Review::Wanted, true) => "its head was replaced during the review; ",
        (Review::None | Review::Wanted, false) => "",
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

/// Returns true when the paths of a merge decide whether a person must review it.
pub(super) fn compares(rig: &Rig, mr: &MergeRequest) -> bool {
    !rig.forge.human_review_paths.is_empty() && mr.review != Review::Approved
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
    review::of_paths(&rig.forge, changed.clone())
}

/// Takes a merge request out of its attempt, for the review of a person, and closes the saga of its push. Its raider may
/// be gone: the witness gets the declaration of its work again, and passes the head on when it is approved.
pub(super) async fn return_to_review(
    world: &World,
    mr: MergeRequest,
    why: String,
    saga: Option<u64>,
) -> Result<Attempt, Refusal> {
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
            exit: Exit::Completed,
            cleanup_status: None,
            gate: Some("human".to_owned()),
        };
        txn.send(&message::forge(&mr.rig), &to, Body::RaiderDone(done))?;
        ask_person(txn, &mr)
    });
    returned.await?;
    world.nudge(&witness);
    Ok(Attempt::Withdrawn)
}
