//! Why did the session end? Ground truth decides: a hook that is done, or an outcome on file, makes
//! an end a completion; everything else is a death.

use jiff::Timestamp;

use super::child::ChildExit;
use super::effects;
use super::root::{ChildSpec, Work};
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::outcome::{self, OutcomeFile};
use crate::domain::relic::Hook;
use crate::domain::saga::SagaKind;
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

/// Whether no session is wanted for the hook any more: the raider said that it is finished, by
/// `done` or by its outcome file; the hook is gone; or its sandbox is being removed. While the store
/// cannot be read, one is wanted.
///
/// A nuke opens its saga before it has the root end the child: a child that starts later sees the
/// saga here, one that started earlier is ended. So no session ever runs in a sandbox that goes.
pub async fn is_finished(world: &World, hook: &Hook) -> bool {
    let (raider, subject) = (hook.raider.clone(), hook.raider.to_string());
    let read = world.store.run(move |txn| {
        let nuked = txn.saga_of(SagaKind::Nuke, &subject)?.is_some();
        Ok((txn.hook(&raider)?, nuked))
    });
    match read.await {
        Ok((Some(now), false)) if now.incarnation == hook.incarnation && now.done.is_none() => {}
        Ok(_) => return true,
        Err(_) => return false,
    }
    matches!(outcome(world, hook).await.0, OutcomeFile::Said(_))
}

/// What the incarnation's outcome file says, and when it was written.
pub async fn outcome(world: &World, hook: &Hook) -> (OutcomeFile, Option<Timestamp>) {
    let dir = world
        .city
        .task_dir(&hook.raider.rig, &hook.relic, hook.incarnation);
    let sandbox = world.city.sandbox(&hook.raider);
    match effects::tasks(world, move |tasks| tasks.outcome(&dir, &sandbox)).await {
        Ok(file) => (outcome::parse(&file.text, &hook.relic), file.written),
        Err(error) => (OutcomeFile::Unclear(error.to_string()), None),
    }
}
