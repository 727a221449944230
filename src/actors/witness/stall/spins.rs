//! A session whose screen only moves (`domain::stall::Still` decides).

use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::WitnessArgs;
use super::super::inbox::escalate;
use super::seen::{Seen, see};
use super::{note, remember, rows, sound};
use crate::domain::stall::Policy;

/// Looks at what is costly to see, and calls a person when nothing happens there either.
pub(super) async fn look(args: &WitnessArgs, policy: &Policy, seen: Seen) -> Result<(), Refusal> {
    let depth = sound(args, &seen).await?;
    let raider = &seen.hook.raider;
    // That took its time: what is judged is what is to be seen now.
    let again = see(args, Some(raider.clone())).await?.pop();
    let Some(seen) = again.filter(|again| again.facts.token == seen.facts.token) else {
        return Ok(());
    };
    note(args, policy, &seen, None).await?;
    let spun = remember(args, raider, |watch, now| {
        watch.still.sounded(depth, policy, now)
    });
    let Some(spun) = spun.flatten() else {
        return Ok(());
    };
    let minutes = spun.as_secs() / 60;
    let screen = effects::tail(&args.world, &seen.facts.id).await;
    let evidence = format!(
        "for {minutes} minutes its screen showed only a spinner or a clock that moves, no file changed, and its \
         processes used little processor time. It may wait for a limit that it does not show, or for a long command. \
         Nothing was done to it: `hd attach {raider}` shows it, `hd agent restart {raider}` starts its session again. The \
         end of its terminal:\n{screen}"
    );
    let called = escalate(args, &seen.hook, rows::SPINS, evidence).await;
    if called.is_err() {
        remember(args, raider, |watch, _| watch.still.was_not_called());
    }
    called
}
