//! The rehearsal of a nuke: its result, without touching anything.

use super::super::{admitted, busy, check, fenced, quota, turn};
use super::ignored;
use super::measure::measure;
use super::measure::unreadable;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::answers::{Rehearsed, Would};
use crate::domain::facts::Probed;
use crate::domain::problem::ProblemKind;

/// Rehearses a nuke.
///
/// # Errors
/// The raider is claimed or gone, or it cannot be judged, as for the nuke itself.
pub async fn rehearse(
    world: &World,
    target: &NukeTarget,
    salvage: bool,
) -> Result<Rehearsed, Refusal> {
    admit(world, target, salvage).await?;
    let safe = Rehearsed {
        raider: target.raider.clone(),
        incarnation: target.incarnation,
        safe: true,
        losses: Vec::new(),
        message: None,
        hint: None,
        status: None,
        would: Would::Nuke,
        ignored: ignored::list(world, target).await,
    };
    let refused = match check(world, target).await {
        Ok(saves) if saves.is_empty() => return Ok(safe),
        Ok(saves) => return unasked(world, target, safe, saves).await,
        Err(refused) => refused,
    };
    if refused.kind != RefusalKind::WorkAtRisk {
        // The losses are unknown; the nuke would refuse in the same way.
        return Err(refused);
    }
    let mut would = Would::Refuse;
    let (mut message, mut hint) = (refused.message, refused.hint);
    if salvage {
        would = match measure(world, target).await? {
            Probed::Unknown(why) => {
                let refused = unreadable(target, why);
                (message, hint) = (refused.message, refused.hint);
                Would::Refuse
            }
            Probed::Known(_) => match quota::lacking(world, target).await? {
                None => Would::Salvage,
                Some(numbers) => {
                    message = format!("{message}; {}: {numbers}", ProblemKind::SalvageFull);
                    hint = Some(quota::HINT.to_owned());
                    Would::Refuse
                }
            },
        };
    }
    Ok(Rehearsed {
        safe: false,
        losses: refused.losses,
        message: Some(message),
        hint,
        status: refused.status,
        would,
        ..safe
    })
}

/// Checks the room for what is salvaged unasked.
async fn unasked(
    world: &World,
    target: &NukeTarget,
    safe: Rehearsed,
    losses: Vec<String>,
) -> Result<Rehearsed, Refusal> {
    Ok(match quota::lacking(world, target).await? {
        None => Rehearsed {
            losses,
            would: Would::Salvage,
            ..safe
        },
        Some(numbers) => {
            let refused = quota::refusal(target, &numbers);
            Rehearsed {
                safe: false,
                losses,
                message: Some(refused.message),
                hint: refused.hint,
                would: Would::Refuse,
                ..safe
            }
        }
    })
}

/// Returns an error when a nuke would not be admitted now; takes no claim.
async fn admit(world: &World, target: &NukeTarget, salvage: bool) -> Result<(), Refusal> {
    turn(world, target).await;
    match world.claims.is_claimed(&fenced(target)) {
        true => Err(busy(target)),
        false => admitted(world, target, salvage).await,
    }
}
