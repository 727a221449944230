//! A merge request that waits for the review of a person.

use super::record::{record_mr, take};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::Oid;
use crate::domain::merge::{MergeRequest, Review};
use crate::domain::queue::Step;
use crate::ports::relics::{StoreError, Txn};

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
    let note = match (mr.review, why) {
        // A script that repeats its approval must not approve what was not shown to a person.
        (Review::Approved, _) => format!(
            "its branch was changed after the approval; needs a review: hd mq approve {id} --head {} or hd mq reject {id}",
            head.short()
        ),
        (Review::None | Review::Wanted, Some(why)) => {
            format!("needs a review, because {why}: hd mq approve {id} or hd mq reject {id}")
        }
        (Review::None | Review::Wanted, None) => {
            format!("needs a review: hd mq approve {id} or hd mq reject {id}")
        }
    };
    let head = head.clone();
    take(txn, &mut mr, &Step::Verified { head, note })?;
    if is_news {
        record_mr(txn, EventType::MrHeld, &mr, Cause::Done)?;
        let data = serde_json::json!({ "question": mr.note, "mr": mr.id, "relic": mr.relic });
        let event = NewEvent::new(EventType::RaiderNeedsInput, &mr.raider, Cause::Done);
        txn.record(&event.with(data))?;
    }
    Ok(())
}
