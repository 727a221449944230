//! Agents' reports on their sandboxes, compared with git.

use super::super::super::world::World;
use crate::actors::mail::DoneRequest;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::ids::RaiderId;
use crate::domain::nuke::{self, CleanupStatus};

/// Compares a report with git; records a mismatch and returns it. The saga acts on git's facts.
pub(super) fn compare(
    world: &World,
    request: &DoneRequest,
    git: &GitFacts,
) -> Option<CleanupStatus> {
    let reported = request.cleanup_status?;
    let measured = nuke::mismatch(reported, git)?;
    let event = mismatch(&request.raider, reported, measured);
    world.store.journal(vec![event]);
    Some(measured)
}

/// Returns the event of a mismatch, with the reported and the measured status.
#[must_use]
pub fn mismatch(raider: &RaiderId, reported: CleanupStatus, measured: CleanupStatus) -> NewEvent {
    let data = serde_json::json!({ "reported": reported, "measured": measured });
    let kind = EventType::CleanupStatusMismatch;
    NewEvent::new(kind, raider, Cause::ReportMismatch).with(data)
}
