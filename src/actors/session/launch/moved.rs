//! A raider whose rig's harness was changed takes the new one over with its next session. A raider that was charged
//! with a harness of its own keeps that.

use crate::actors::mail::RootMail;
use crate::actors::records::identities;
use crate::actors::world::World;
use crate::domain::city::City;
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// Moves a hook to the harness of its next session; returns true when that is another one.
///
/// # Errors
/// The store's.
pub(in crate::actors) fn move_on(
    txn: &mut dyn Txn,
    city: &City,
    hook: &mut Hook,
) -> Result<bool, StoreError> {
    let Some(rig) = city.rig(&hook.raider.rig).filter(|_| !hook.is_declared()) else {
        return Ok(false);
    };
    let relic = txn.relic(&hook.relic)?;
    let routed = || rig.raiders.continues(&relic.labels, &hook.harness).clone();
    let next = relic.harness.clone().unwrap_or_else(routed);
    if next == hook.harness || !city.harnesses.contains_key(&next) {
        return Ok(false);
    }
    hook.harness = next;
    identities::go_on_with(txn, city, hook, &hook.harness)?;
    txn.put_hook(hook)?;
    Ok(true)
}

/// Returns the hook with the harness of the session that starts now.
///
/// # Errors
/// The store's.
pub(super) async fn hook_now(world: &World, hook: &Hook) -> Result<Hook, StoreError> {
    let (city, known) = (std::sync::Arc::clone(&world.city), hook.clone());
    let moved = world.store.run(move |txn| {
        let stored = txn.hook(&known.raider)?;
        let same = |stored: &Hook| stored.incarnation == known.incarnation;
        let Some(mut stored) = stored.filter(same) else {
            return Ok((known.clone(), false));
        };
        let moved = move_on(txn, &city, &mut stored)?;
        Ok((stored, moved))
    });
    let (hook, moved) = moved.await?;
    if moved {
        world.directory.tell_root(RootMail::Look);
        world.directory.tell_root(RootMail::Accounts);
    }
    Ok(hook)
}
