//! Why did the session end? Ground truth decides: a hook that is done, or an outcome on file, makes
//! an end a completion; everything else is a death.

use super::child::ChildExit;
use super::effects;
use super::root::{ChildSpec, Work};
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::outcome::{self, OutcomeFile};
use crate::domain::relic::Hook;
use crate::ports::sessions::SessionEvent;

/// Judges the end of a child's session.
pub async fn judge(world: &World, spec: &ChildSpec, event: SessionEvent) -> ChildExit {
    if let Work::Raider { hook, .. } = &spec.work
        && is_finished(world, hook).await
    {
        return ChildExit::Finished;
    }
    let (cause, exit) = match event {
        SessionEvent::Exited(_, exit) => (Cause::SessionDied, Some(exit)),
        SessionEvent::Lost(..) => (Cause::SessionLost, None),
    };
    let tail = effects::tail(world, &spec.session).await;
    ChildExit::Died { cause, exit, tail }
}

/// Whether the raider said that it is finished, by `done` or by its outcome file. A hook that is
/// gone is finished too. While the store cannot be read, it is not.
pub async fn is_finished(world: &World, hook: &Hook) -> bool {
    let raider = hook.raider.clone();
    let stored = world.store.run(move |txn| txn.hook(&raider)).await;
    match stored {
        Ok(Some(now)) if now.incarnation == hook.incarnation && now.done.is_none() => {}
        Ok(_) => return true,
        Err(_) => return false,
    }
    matches!(outcome(world, hook).await, OutcomeFile::Said(_))
}

/// What the incarnation's outcome file says; unreadable is empty.
pub async fn outcome(world: &World, hook: &Hook) -> OutcomeFile {
    let dir = world
        .city
        .task_dir(&hook.raider.rig, &hook.relic, hook.incarnation);
    let sandbox = world.city.sandbox(&hook.raider);
    match effects::tasks(world, move |tasks| tasks.outcome(&dir, &sandbox)).await {
        Ok(text) => outcome::parse(&text, &hook.relic),
        Err(error) => OutcomeFile::Unclear(error.to_string()),
    }
}
