//! The outcome of a program that can neither run `hd` nor write its outcome file (`done_on_exit`), derived from its
//! exit code and its commits.

use crate::actors::declared;
use jiff::tz::TimeZone;

use crate::actors::effects;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::session::endings::outcome;
use crate::actors::world::World;
use crate::domain::condition::last_words;
use crate::domain::facts::SessionExit;
use crate::domain::outcome::{Outcome, OutcomeFile, render};
use crate::domain::relic::Hook;
use crate::ports::sessions::SessionHandle;

/// Writes the outcome of a session that ended by itself, if its harness is configured so. Returns true when the outcome
/// is on file.
///
/// # Errors
/// The outcome file cannot be read or written, or the store cannot be read.
pub async fn apply(
    world: &World,
    hook: &Hook,
    session: &SessionHandle,
    exit: &SessionExit,
) -> Result<bool, Refusal> {
    let harness = world.city.harnesses.get(&hook.harness);
    let Some(harness) = harness.filter(|harness| harness.done_on_exit && exit.is_success()) else {
        return Ok(false);
    };
    if outcome(world, hook).await?.0 != OutcomeFile::Empty {
        return Ok(true);
    }
    let tail = effects::tail(world, &session.id).await;
    let now = world.clock.now();
    // A limit or login: the root parks its account.
    if last_words(&harness.patterns, &tail, now, &TimeZone::system()).is_some() {
        return Ok(false);
    }
    let passed = Outcome::Passed { reason: None };
    let request = declared::request_of(hook, passed.clone());
    let said = match declared::preview(world, &request, hook).await {
        Ok(()) => passed,
        // The next session is told what keeps its work from being taken.
        Err(Refusal {
            kind: RefusalKind::WorkAtRisk | RefusalKind::BadRequest,
            ..
        }) => passed,
        Err(refused) if refused.kind == RefusalKind::NoCommits => Outcome::Stuck {
            reason: format!("it ended without a commit; its last output:\n{tail}"),
        },
        Err(refused) => {
            tracing::warn!(
                raider = %hook.raider,
                error = %refused,
                "the work of an ended session cannot be measured; no outcome is recorded, and \
                the end counts as a death"
            );
            return Ok(false);
        }
    };
    let dir = world
        .city
        .task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let text = render(&hook.relic, &said);
    let owner = effects::Owner::Rig(hook.raider.rig.clone());
    effects::tasks(world, owner, move |tasks| tasks.write_outcome(&dir, &text)).await?;
    Ok(true)
}
