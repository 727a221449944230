//! Notes of handoffs. A raider's note belongs to one incarnation: its slot may be given to another raider, and that one
//! may even work on the same relic.
//!
//! ```text
//!  hd handoff ──► message HANDOFF, unread ──► the next session starts with it ──► read
//!            └──► the last note, under a key ──► `hd rally`, until the next handoff
//!  end of the hook ──► both are gone
//! ```
//!
//! Versions before this one stored no incarnation. An unread note without one belongs to the raider in whose time it was
//! sent. The last note has no time then: it counts for the first incarnation of a slot only, which has no predecessor.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::key_values;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data::HandedOff;
use crate::domain::ids::{Incarnation, RaiderId, RelicId};
use crate::domain::message::{Body, Handoff, Message};
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// The first incarnation of a slot.
const FIRST: Incarnation = Incarnation(1);

/// The last handoff of a slot.
#[derive(Serialize, Deserialize)]
struct LastNote {
    relic: Option<RelicId>,
    note: Option<String>,
    #[serde(default)]
    incarnation: Option<Incarnation>,
    #[serde(default)]
    at: Option<Timestamp>,
}

/// A note as `hd rally` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldNote {
    /// The text.
    pub text: String,
    /// When it was written; none for a note of an earlier version.
    pub at: Option<Timestamp>,
}

fn key(raider: &RaiderId) -> String {
    format!("handoff/{raider}")
}

/// Sends a raider's note to its next session. It replaces older notes that are still unread: the newest counts.
///
/// # Errors
/// The store's.
pub fn send(txn: &mut dyn Txn, hook: &Hook, mut note: Handoff) -> Result<(), StoreError> {
    note.incarnation = Some(hook.incarnation);
    let address = hook.raider.to_string();
    take(txn, &address)?;
    let data = json!({
        "relic": note.relic, "resume": note.resume, "totem_step": note.totem_step,
    });
    let said = HandedOff {
        note: note.note.clone(),
    };
    // The note itself is read once, by the first prompt; a session that compacts asks for it again.
    let last = LastNote {
        relic: note.relic.clone(),
        note: note.note.clone(),
        incarnation: note.incarnation,
        at: Some(txn.now()),
    };
    key_values::write(txn, &key(&hook.raider), &last)?;
    txn.send(&address, &address, Body::Handoff(note))?;
    let event = NewEvent::new(EventType::RaiderHandoff, &address, Cause::Handoff);
    txn.record(&event.with(data).and(&said)).map(|_| ())
}

/// Marks the notes of a mailbox as read.
///
/// # Errors
/// The store's.
pub fn take(txn: &mut dyn Txn, address: &str) -> Result<(), StoreError> {
    for old in txn.inbox(address)? {
        if matches!(old.body, Body::Handoff(_)) {
            txn.handled(old.id)?;
        }
    }
    Ok(())
}

/// Forgets the notes of a raider whose hook ends.
pub(super) fn forget(txn: &mut dyn Txn, raider: &RaiderId) -> Result<(), StoreError> {
    take(txn, &raider.to_string())?;
    txn.set(&key(raider), None)
}

/// Returns the note of the last handoff of a raider, read or not; none when that left none.
///
/// # Errors
/// The store's.
pub fn last_note(txn: &mut dyn Txn, hook: &Hook) -> Result<Option<ToldNote>, StoreError> {
    let last: Option<LastNote> = key_values::read(txn, &key(&hook.raider))?;
    let own = last.filter(|last| {
        let by = last.incarnation.unwrap_or(FIRST);
        by == hook.incarnation && last.relic.as_ref() == Some(&hook.relic)
    });
    let told = own.and_then(|last| {
        Some(ToldNote {
            text: last.note?,
            at: last.at,
        })
    });
    Ok(told)
}

/// Returns the notes that wait for the next session of a raider, the oldest first, with their messages.
///
/// # Errors
/// The store's.
pub fn unread(txn: &mut dyn Txn, hook: &Hook) -> Result<Vec<(u64, Handoff)>, StoreError> {
    let notes = txn.inbox(&hook.raider.to_string())?.into_iter();
    let own = notes.filter_map(
        |Message {
             id, sent_at, body, ..
         }| match body {
            Body::Handoff(note) if is_of(&note, sent_at, hook) => Some((id, note)),
            _ => None,
        },
    );
    Ok(own.collect())
}

/// Returns true when a session of this hook wrote the note.
fn is_of(note: &Handoff, sent_at: Timestamp, hook: &Hook) -> bool {
    let own = match note.incarnation {
        Some(incarnation) => incarnation == hook.incarnation,
        None => sent_at >= hook.charged_at,
    };
    own && note.relic.as_ref() == Some(&hook.relic)
}

/// Returns the step of the note that waits for the raider's next session.
///
/// # Errors
/// The store's.
pub fn handed_off(txn: &mut dyn Txn, hook: &Hook) -> Result<Option<String>, StoreError> {
    let newest = unread(txn, hook)?.pop();
    Ok(newest.and_then(|(_, note)| note.totem_step))
}

/// Returns the step that the last handoff note of an agent is about.
///
/// # Errors
/// The store's.
pub fn next_step(txn: &mut dyn Txn, address: &str) -> Result<Option<String>, StoreError> {
    let notes = txn.inbox(address)?.into_iter().rev();
    let mut notes = notes.filter_map(|message| match message.body {
        Body::Handoff(note) => Some(note.totem_step),
        _ => None,
    });
    Ok(notes.next().flatten())
}
