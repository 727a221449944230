//! Wisp GC (`health-patrol.md`): closed wisps older than `wisp_ttl` go, with all their rows.

use super::super::world::World;
use super::before;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::ports::relics::{StoreError, Txn};

/// At most so many go in one transaction: everybody else waits for it.
const PART: usize = 500;
/// At most so many are named in the event.
const NAMED: usize = 100;

/// Collects what has expired.
///
/// # Errors
/// The store's; what went before it is gone, and said.
pub async fn collect(world: &World) -> Result<(), StoreError> {
    let Some(gc) = world.city.daemon.wisp_gc else {
        return Ok(());
    };
    let closed_before = before(world, gc.ttl);
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
