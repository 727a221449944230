//! Drums: mail between raiders, agents and people, with an event for each change.

use serde_json::json;

use crate::domain::drum::{self, Drum, DrumHead, Mailbox, NewDrum};
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{StoreError, Txn};

/// Sends a drum.
///
/// # Errors
/// [`StoreError::Conflict`] when the mailbox is full, or its work is closed.
pub fn send(
    txn: &mut dyn Txn,
    new: &NewDrum,
    origin: impl Into<Origin>,
) -> Result<Drum, StoreError> {
    if let Some(why) = refusal(txn, new)? {
        return Err(StoreError::Conflict(why));
    }
    put(txn, new, origin)
}

/// Sends a drum if the mailbox takes it; returns the reason why it does not.
///
/// # Errors
/// The store's.
pub fn offer(
    txn: &mut dyn Txn,
    new: &NewDrum,
    origin: impl Into<Origin>,
) -> Result<Option<String>, StoreError> {
    let refusal = refusal(txn, new)?;
    if refusal.is_none() {
        put(txn, new, origin)?;
    }
    Ok(refusal)
}

fn refusal(txn: &mut dyn Txn, new: &NewDrum) -> Result<Option<String>, StoreError> {
    if let Mailbox::Work(relic) = &new.mailbox
        && txn.relic(relic)?.status == RelicStatus::Closed
    {
        let why = format!(
            "the work of {} on {relic} is closed: no raider would read it",
            new.to
        );
        return Ok(Some(why));
    }
    let waiting = txn.count_drums(&new.mailbox, &new.from)?;
    let full = drum::is_full(waiting);
    Ok(full.map(|why| {
        format!(
            "the mailbox of {} is full: {why} to be acknowledged",
            new.to
        )
    }))
}

fn put(txn: &mut dyn Txn, new: &NewDrum, origin: impl Into<Origin>) -> Result<Drum, StoreError> {
    let drum = txn.add_drum(new)?;
    journal(txn, EventType::DrumsSent, &drum.head, origin)?;
    Ok(drum)
}

/// Returns a drum; notes that its receiver has read it, if the reader is its receiver.
///
/// # Errors
/// [`StoreError::NotFound`].
pub fn read(
    txn: &mut dyn Txn,
    id: u64,
    is_receiver: bool,
    origin: impl Into<Origin>,
) -> Result<Drum, StoreError> {
    let mut drum = txn.drum(id)?;
    if is_receiver && drum.head.read.is_none() {
        drum.head.read = Some(txn.now());
        txn.put_drum(&drum.head)?;
        journal(txn, EventType::DrumsRead, &drum.head, origin)?;
    }
    Ok(drum)
}

/// Acknowledges a drum: it leaves the inbox. Deletes the oldest acknowledged drums of its mailbox.
///
/// # Errors
/// [`StoreError::NotFound`].
pub fn acknowledge(
    txn: &mut dyn Txn,
    id: u64,
    origin: impl Into<Origin>,
) -> Result<DrumHead, StoreError> {
    let mut head = txn.drum(id)?.head;
    if head.acked.is_none() {
        head.acked = Some(txn.now());
        txn.put_drum(&head)?;
        journal(txn, EventType::DrumsAcked, &head, origin)?;
        txn.trim_drums(&head.mailbox, drum::KEPT_MAX)?;
    }
    Ok(head)
}

/// Notes that a live session was told of a drum.
///
/// # Errors
/// [`StoreError::NotFound`].
pub fn delivered(
    txn: &mut dyn Txn,
    id: u64,
    origin: impl Into<Origin>,
) -> Result<DrumHead, StoreError> {
    let mut head = txn.drum(id)?.head;
    head.delivered = Some(txn.now());
    txn.put_drum(&head)?;
    journal(txn, EventType::DrumsDelivered, &head, origin)?;
    Ok(head)
}

/// Records the event about a drum. The texts are in the store, and only the subject is in the journal.
fn journal(
    txn: &mut dyn Txn,
    kind: EventType,
    head: &DrumHead,
    origin: impl Into<Origin>,
) -> Result<(), StoreError> {
    let relic = match &head.mailbox {
        Mailbox::Work(relic) => Some(relic),
        Mailbox::People | Mailbox::Agent(_) => None,
    };
    let data = json!({
        "id": head.id, "from": head.from, "to": head.to, "subject": head.subject, "answers": head.answers,
        "relic": relic,
    });
    let event = NewEvent::new(kind, &head.to, origin);
    txn.record(&event.with(data)).map(|_| ())
}
