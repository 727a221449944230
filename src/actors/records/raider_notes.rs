//! The notes of a raider, kept with the merge request that it submitted: a person reviews that when the hook may be gone,
//! and the events of its time deleted.

use super::{handoffs, key_values};
use crate::domain::ids::RelicId;
use crate::domain::merge::MergeRequest;
use crate::domain::raider_notes::{RaiderNote, RaiderNotes};
use crate::ports::relics::{StoreError, Txn};

fn key(mr: &RelicId) -> String {
    format!("raider-notes/{mr}")
}

/// Keeps the present notes of the raider whose work is submitted. The reason is that of this completion; the note of a
/// handoff that was kept before stays where the raider has left no newer one.
///
/// # Errors
/// The store's.
pub fn keep(txn: &mut dyn Txn, mr: &MergeRequest) -> Result<(), StoreError> {
    let mut notes = of(txn, &mr.id)?;
    let hook = txn.hook(&mr.raider)?;
    let own = hook.filter(|hook| hook.incarnation == mr.incarnation);
    let Some(hook) = own else { return Ok(()) };
    if let Some(intent) = &hook.done {
        let reason = intent.reason.as_deref();
        notes.done = reason.and_then(|text| RaiderNote::new(text, intent.at));
    }
    let told = handoffs::last_note(txn, &hook)?;
    let note =
        told.and_then(|told| RaiderNote::new(&told.text, told.at.unwrap_or(hook.charged_at)));
    notes.handoff = note.or(notes.handoff);
    match notes == RaiderNotes::default() {
        true => Ok(()),
        false => key_values::write(txn, &key(&mr.id), &notes),
    }
}

/// Returns the notes with a merge request.
///
/// # Errors
/// The store's.
pub fn of(txn: &mut dyn Txn, mr: &RelicId) -> Result<RaiderNotes, StoreError> {
    Ok(key_values::read(txn, &key(mr))?.unwrap_or_default())
}
