//! Sandboxes without hook whose owner is unknown, and rigs whose sandboxes cannot be listed: they are left alone, and
//! hold their slots. A person is called when that lasts.

use super::super::refusal::Refusal;
use super::inbox::raise;
use super::{WitnessArgs, wisps};
use crate::actors::records::escalations;
use crate::actors::{effects, sandboxes};
use crate::domain::facts::Probed;
use crate::domain::message::{self, Escalation};
use crate::domain::problem::ProblemKind;
use crate::ports::relics::Txn;

/// Calls a person for each whose owner has been unknown as long as a new raider is spared; closes the escalations of
/// those that can be read again.
///
/// # Errors
/// Store, directory or repository cannot be read: nothing is known then.
pub(super) async fn call(args: &WitnessArgs) -> Result<(), Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return Ok(());
    };
    let lone = sandboxes::hookless(world, rig).await?;
    let unowned = lone.iter().filter(|lone| lone.hook().is_none());
    let unowned = unowned.map(|lone| lone.raider.clone()).collect();
    let unread = lone.into_iter().filter_map(|lone| match lone.was {
        Probed::Unknown(why) => Some((lone.raider, why)),
        Probed::Known(_) => None,
    });
    let unread: Vec<_> = unread.collect();
    let these = unread.iter().map(|(raider, _)| raider.clone()).collect();
    let kept = &args.memory.judged_sandboxes;
    let since = kept.record_unknown_owners(&these, world.clock.mono());
    for (raider, why) in unread {
        let lasted = world.clock.mono().saturating_sub(since[&raider]);
        if lasted < rig.witness.spawn_grace {
            continue;
        }
        let path = world.city.sandbox(&raider);
        let evidence = format!(
            "{} holds its slot and is kept until its owner can be read; fix the cause of the error: {why}",
            path.display()
        );
        wisps::track_unowned(args, &raider, &evidence).await?;
        let body = Escalation::high(&raider, ProblemKind::Unread, evidence);
        raise(args, body).await?;
    }
    let name = rig.name.clone();
    kept.record_listable();
    let settled = move |txn: &mut dyn Txn| {
        let witness = message::witness(&name);
        wisps::unowned(txn, &name, &unowned)?;
        escalations::close_matching(txn, &[ProblemKind::SandboxesUnseen], |who, _| {
            who == witness
        })?;
        escalations::still_so(txn, &name, ProblemKind::Unread, &these)
    };
    Ok(world.store.run(settled).await?)
}

/// Calls a person when the rig's sandboxes could not be listed for as long. A person was already called for a held rig,
/// and its time is no time of failure.
///
/// # Errors
/// The store's.
pub(super) async fn unlistable(args: &WitnessArgs, why: &Refusal) -> Result<(), Refusal> {
    let world = &args.world;
    if effects::is_held(world, &args.rig) {
        args.memory.judged_sandboxes.record_held();
        return Ok(());
    }
    let now = world.clock.mono();
    let since = args.memory.judged_sandboxes.record_unlistable(now);
    let grace = world.city.rig(&args.rig).map(|rig| rig.witness.spawn_grace);
    if grace.is_none_or(|grace| now.saturating_sub(since) < grace) {
        return Ok(());
    }
    let body = Escalation::high(
        message::witness(&args.rig),
        ProblemKind::SandboxesUnseen,
        format!(
            "{why}\nuntil they can be listed, no sandbox without a session is removed; fix the cause of the error"
        ),
    );
    raise(args, body).await
}
