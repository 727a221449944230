//! Reports of agents on their sandboxes, held against what git says.

use super::super::super::world::World;
use crate::actors::mail::DoneRequest;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::GitFacts;
use crate::domain::ids::RaiderId;
use crate::domain::nuke::{self, CleanupStatus};

/// Records a report that disagrees with what git says, and returns that; what git says is acted on.
pub(super) fn compare(
    world: &World,
    request: &DoneRequest,
    git: &GitFacts,
) -> Option<CleanupStatus> {
    let reported = request.cleanup_status?;
    let measured = nuke::mismatch(reported, git)?;
    let event = mismatch(&request.raider, reported, measured);
    world.store.note(vec![event]);
    Some(measured)
}

/// Returns the event of a report that disagrees: what was reported, and what git says.
#[must_use]
pub fn mismatch(raider: &RaiderId, reported: CleanupStatus, measured: CleanupStatus) -> NewEvent {
    let data = serde_json::json!({ "reported": reported, "measured": measured });
    let kind = EventType::CleanupStatusMismatch;
    NewEvent::new(kind, raider, Cause::ReportMismatch).with(data)
}
