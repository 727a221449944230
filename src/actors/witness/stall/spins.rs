//! A session whose screen changes without progress (`domain::stall::SpinnerWatch` decides).

use super::super::super::refusal::Refusal;
use super::super::super::{conditions, effects};
use super::super::WitnessArgs;
use super::super::inbox::escalate;
use super::observe::{ObservedRaider, observe};
use super::{judge, remember, sound};
use crate::domain::condition::Condition;
use crate::domain::problem::ProblemKind;
use crate::domain::stall::Policy;
use crate::ports::sessions::{SessionError, SessionHandle};

/// Makes the costly observation, and calls a person when that shows no progress either.
pub(super) async fn examine(
    args: &WitnessArgs,
    policy: &Policy,
    seen: ObservedRaider,
) -> Result<(), Refusal> {
    let depth = sound(args, &seen).await?;
    let raider = &seen.hook.raider;
    // That took time: judge the present state.
    let again = observe(args, Some(raider.clone())).await?.pop();
    let Some(seen) = again.filter(|again| again.facts.token == seen.facts.token) else {
        return Ok(());
    };
    judge(args, policy, &seen, None).await?;
    let Some(age) = remember(args, raider, |watch, now| watch.still.commands_since(now)) else {
        return Ok(());
    };
    let id = seen.facts.id.clone();
    let runs = effects::sessions(&args.world, &seen.facts.id, move |provider| {
        let why = "the commands that it runs cannot be listed".to_owned();
        let runs = provider.runs_command(&id, age);
        runs.ok_or(SessionError::Failed { id, why })
    });
    let runs = runs.await?;
    let spun = remember(args, raider, |watch, now| {
        watch.still.sounded(depth, runs, policy, now)
    });
    let Some(spun) = spun.flatten() else {
        return Ok(());
    };
    let minutes = spun.as_secs() / 60;
    let screen = effects::tail(&args.world, &seen.facts.id).await;
    let handle = SessionHandle {
        id: seen.facts.id.clone(),
        token: seen.facts.token.clone(),
    };
    let spins = Condition::Spins {
        text: format!("for {minutes} minutes only its spinner moved"),
        screen: screen.clone(),
    };
    conditions::set_odd(&args.world, &handle, Some(spins));
    let evidence = format!(
        "for {minutes} minutes its screen showed only a spinner or a clock that moves, no file changed, and its \
         processes used little processor time. It may wait for a limit that it does not show, or for a long command. \
         Nothing was done to it: `hd attach {raider}` shows it, `hd agent restart {raider}` starts its session again. The \
         end of its terminal:\n{screen}"
    );
    let called = escalate(args, &seen.hook, ProblemKind::StalledSpins, evidence).await;
    if called.is_err() {
        remember(args, raider, |watch, _| watch.still.was_not_called());
    }
    called
}
