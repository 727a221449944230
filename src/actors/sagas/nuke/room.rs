//! Whether what a sandbox holds still fits beside all other salvage (`[retention] salvage_max`).

use super::super::super::effects;
use super::super::super::refusal::{Refusal, RefusalKind};
use super::super::super::shaman;
use super::super::super::world::World;
use super::Target;
use crate::domain::message::{self, Escalation, Severity};

/// Refuses salvage that there is no room for, before any of it is written, and calls a person: the
/// sandbox stays.
///
/// # Errors
/// [`RefusalKind::NoRoom`], with the numbers.
pub(super) async fn check(world: &World, target: &Target) -> Result<(), Refusal> {
    let Some(most) = world.city.retention.salvage_max else {
        return Ok(());
    };
    let (rig, sandbox) = (&target.raider.rig, world.city.sandbox(&target.raider));
    let size = effects::repo(world, rig, move |repo| repo.salvage_size(&sandbox)).await?;
    let kept = world.store.run(|txn| txn.salvages()).await?;
    let taken: u64 = kept.iter().map(|entry| entry.bytes).sum();
    // Commits alone take no room.
    if size == 0 || taken.saturating_add(size) <= most {
        return Ok(());
    }
    let problem = "its sandbox holds more than salvage has room for";
    let hint = "`hd salvage prune` makes room, or raise `[retention] salvage_max`";
    let numbers = format!("{size} bytes are to be saved, {taken} of {most} are taken");
    let body = Escalation {
        agent: target.raider.to_string(),
        relic: target.relic.clone(),
        problem: problem.to_owned(),
        severity: Severity::High,
        evidence: format!("{numbers}\n{hint}"),
    };
    shaman::call(world, &message::witness(rig), body).await?;
    let message = format!("{} is kept, {problem}: {numbers}", target.raider);
    Err(Refusal::new(RefusalKind::NoRoom, message).hint(hint))
}
