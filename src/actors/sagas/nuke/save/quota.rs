//! The room for a sandbox's salvage beside all other salvage (`[retention] salvage_max`).

use crate::actors::effects;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::problem::ProblemKind;

/// The remedies for a sandbox that there is no room for.
pub(in crate::actors::sagas::nuke) const HINT: &str =
    "`hd salvage prune` makes room, or raise `[retention] salvage_max`";

/// Refuses salvage that there is no room for, before any of it is written, and calls a person: the sandbox stays.
///
/// # Errors
/// [`RefusalKind::NoRoom`], with the numbers.
pub(in crate::actors::sagas::nuke) async fn check(
    world: &World,
    target: &NukeTarget,
) -> Result<(), Refusal> {
    let Some(numbers) = lacking(world, target).await? else {
        return Ok(());
    };
    let evidence = format!("{numbers}\n{HINT}");
    let about = (ProblemKind::SalvageFull, target.relic.clone());
    super::super::call(world, target, about, evidence).await?;
    Err(refusal(target, &numbers))
}

/// Builds the refusal for lack of room.
pub(in crate::actors::sagas::nuke) fn refusal(target: &NukeTarget, numbers: &str) -> Refusal {
    let message = format!(
        "{} is kept; {}: {numbers}",
        target.raider,
        ProblemKind::SalvageFull
    );
    Refusal::new(RefusalKind::NoRoom, message).hint(HINT)
}

/// Returns the numbers when there is not enough room.
///
/// # Errors
/// The size cannot be measured.
pub(in crate::actors::sagas::nuke) async fn lacking(
    world: &World,
    target: &NukeTarget,
) -> Result<Option<String>, Refusal> {
    let Some(most) = world.city.retention.salvage_max else {
        return Ok(None);
    };
    let (rig, sandbox) = (&target.raider.rig, world.city.sandbox(&target.raider));
    let size = effects::repo_for(world, rig, effects::WorkKind::Sandbox, move |repo| {
        repo.salvage_size(&sandbox)
    })
    .await?;
    let kept = world.store.run(|txn| txn.salvages()).await?;
    let taken: u64 = kept.iter().map(|entry| entry.bytes).sum();
    // A commit takes no room.
    let fits = size == 0 || taken.saturating_add(size) <= most;
    let numbers = || format!("{size} bytes must be saved, {taken} of {most} bytes are used");
    Ok((!fits).then(numbers))
}
