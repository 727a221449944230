//! Refused completions in the journal: each reason once in a row, because an agent may repeat its request.

use serde_json::json;

use crate::actors::refusal::Refusal;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// The losses that the event names.
const LOSSES_MAX: usize = 20;

/// Journals that the completion of the hook's work was refused.
///
/// # Errors
/// The store's.
pub fn record(txn: &mut dyn Txn, hook: &Hook, refused: &Refusal) -> Result<(), StoreError> {
    let losses = &refused.losses;
    let data = json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "why": refused.message,
        "losses": losses[..losses.len().min(LOSSES_MAX)], "losses_total": losses.len(),
    });
    let (key, now) = (format!("refused-done/{}", hook.raider), data.to_string());
    if txn.get(&key)?.as_ref() == Some(&now) {
        return Ok(());
    }
    txn.set(&key, Some(&now))?;
    let event = NewEvent::new(EventType::RaiderDoneRefused, &hook.raider, Cause::Done);
    txn.record(&event.with(data)).map(drop)
}
