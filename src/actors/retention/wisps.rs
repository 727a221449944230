//! Wisp GC (`health-patrol.md`): deletes closed wisps older than `wisp_ttl`, with all their rows.

use super::super::world::World;
use super::Clocks;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::ports::relics::{StoreError, Txn};

/// Maximum number of wisps deleted in one transaction, which delays all other jobs.
const PART: usize = 500;
/// Maximum number of wisps named in the event.
const NAMED: usize = 100;

/// Deletes expired wisps.
///
/// # Errors
/// The store's; earlier parts stay deleted, and were journalled.
pub async fn collect(world: &World) -> Result<(), StoreError> {
    let Some(gc) = world.city.daemon.wisp_gc else {
        return Ok(());
    };
    // No jump of the wall clock makes them older.
    let clocks = Clocks::look(world);
    let closed_before = clocks.jumps.before(gc.ttl, clocks.wall, clocks.since_boot);
    while !world.is_stopping() {
        let city = world.city.name.clone();
        let part = move |txn: &mut dyn Txn| {
            let wisps = txn.collect_wisps(closed_before, PART)?;
            if !wisps.is_empty() {
                let named = &wisps[..wisps.len().min(NAMED)];
                let data = serde_json::json!({ "count": wisps.len(), "ids": named });
                let event = NewEvent::new(EventType::WispCollected, &city, Cause::Expired);
                txn.record(&event.with(data))?;
            }
            Ok(wisps.len())
        };
        if world.store.run(part).await? < PART {
            break;
        }
    }
    Ok(())
}
