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
    take(txn, &mut mr, &Step::Verified { head, note })?;
    if is_news {
        record_mr(txn, EventType::MrHeld, &mr, Cause::Done)?;
        let data = serde_json::json!({ "question": mr.note, "mr": mr.id, "relic": mr.relic });
        let event = NewEvent::new(EventType::RaiderNeedsInput, &mr.raider, Cause::Done);
        txn.record(&event.with(data))?;
    }
    Ok(())
}
