//! Why did the session end? Ground truth decides: a hook that is done, or an outcome on file, makes
//! an end a completion; everything else is a death.

mod by_exit;

use crate::actors::declared;
use jiff::Timestamp;

use crate::actors::effects;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::session::child::{ChildArgs, ChildExit};
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::facts::{RunState, SessionExit, SessionFacts};
use crate::domain::outcome::{self, OutcomeFile};
use crate::domain::prompt::Problem;
use crate::domain::relic::Hook;
use crate::domain::saga::SagaKind;
use crate::ports::sessions::{SessionEvent, SessionHandle};
use crate::ports::tasks::TaskError;

/// Judges the end of a child's session.
pub async fn judge(world: &World, spec: &ChildSpec, event: SessionEvent) -> ChildExit {
    if let Work::Raider { hook, .. } = &spec.work {
        match is_finished(world, hook).await {
            Ok(true) => return ChildExit::Finished,
            Ok(false) => {}
            // What was said is seen when it is started again.
            Err(error) => {
                tracing::warn!(raider = %hook.raider, %error, "why its session ended cannot be seen");
            }
        }
        if let SessionEvent::Exited(session, exit) = &event
            && settled(world, hook, session, exit).await
        {
            return ChildExit::Finished;
        }
    }
    let (cause, exit) = match event {
        SessionEvent::Exited(_, exit) => (exit.cause(), Some(exit)),
        SessionEvent::Lost(..) => (Cause::SessionLost, None),
    };
    let tail = effects::tail(world, &spec.session).await;
    ChildExit::Died { cause, exit, tail }
}

/// Whether the end of this session was the end of its work, since its harness cannot say so itself
/// (`done_on_exit`).
pub async fn settled(
    world: &World,
    hook: &Hook,
    session: &SessionHandle,
    exit: &SessionExit,
) -> bool {
    match by_exit::settle(world, hook, session, exit).await {
        Ok(settled) => settled,
        Err(error) => {
            tracing::warn!(raider = %hook.raider, %error, "what its session ended with cannot be written");
            false
        }
    }
}

/// Whether the session before ended while no supervisor ran, and that was the end of its work.
pub async fn settled_before(args: &ChildArgs, before: Option<&SessionFacts>) -> bool {
    let (Work::Raider { hook, problem }, Some(before)) = (&args.spec.work, before) else {
        return false;
    };
    let RunState::Exited(exit) = &before.state else {
        return false;
    };
    // These are started in spite of how the last one ended.
    if problem.is_some() || args.cause == Cause::Operator {
        return false;
    }
    let handle = SessionHandle {
        id: before.id.clone(),
        token: before.token.clone(),
    };
    settled(&args.world, hook, &handle, exit).await
}

/// Whether no session is wanted for the hook any more: it is over, or the raider said something in
/// its outcome file. What it said may be unacceptable or unreadable: the witness tells it so, and has
/// it started again for that.
///
/// # Errors
/// The outcome file cannot be looked at: it may say anything.
pub async fn is_finished(world: &World, hook: &Hook) -> Result<bool, TaskError> {
    match is_over(world, hook).await {
        Some(true) => Ok(true),
        Some(false) => Ok(outcome(world, hook).await?.0 != OutcomeFile::Empty),
        None => Ok(false),
    }
}

/// Whether the raider said `done`, the hook is gone, or its sandbox is being removed. Nothing while
/// the store cannot be read: then a session is wanted.
///
/// A nuke opens its saga before it has the root end the child: a child that starts later sees the
/// saga here, one that started earlier is ended. So no session ever runs in a sandbox that goes.
pub async fn is_over(world: &World, hook: &Hook) -> Option<bool> {
    let (raider, subject) = (hook.raider.clone(), hook.raider.to_string());
    let read = world.store.run(move |txn| {
        let nuked = txn.saga_of(SagaKind::Nuke, &subject)?.is_some();
        Ok((txn.hook(&raider)?, nuked))
    });
    let (now, nuked) = read.await.ok()?;
    let open = now.is_some_and(|now| now.incarnation == hook.incarnation && now.done.is_none());
    Some(nuked || !open)
}

/// What keeps the outcome on file from being taken; none when nothing does, or that cannot be seen.
pub async fn problem(world: &World, hook: &Hook) -> Option<Problem> {
    match outcome(world, hook).await.ok()?.0 {
        OutcomeFile::Empty => None,
        OutcomeFile::Unclear(why) => Some(Problem::Unclear(why)),
        OutcomeFile::Said(outcome) => {
            let request = declared::request_of(hook, outcome);
            let refused = declared::preview(world, &request, hook).await.err()?;
            problem_of(&refused)
        }
    }
}

/// What the session can do about the refusal of its outcome, if anything.
#[must_use]
pub fn problem_of(refused: &Refusal) -> Option<Problem> {
    match refused.kind {
        RefusalKind::WorkAtRisk => Some(Problem::Dirty(refused.losses.clone())),
        RefusalKind::NoCommits => Some(Problem::NoCommits),
        RefusalKind::BadRequest => Some(Problem::Refused {
            why: refused.message.clone(),
            hint: refused.hint.clone(),
        }),
        RefusalKind::NotFound
        | RefusalKind::NoRoom
        | RefusalKind::NeedsHuman
        | RefusalKind::Parked
        | RefusalKind::Conflict
        | RefusalKind::Changed
        | RefusalKind::Failed
        | RefusalKind::Unavailable
        | RefusalKind::Timeout
        | RefusalKind::Internal => None,
    }
}

/// What the incarnation's outcome file says, and when it was written.
///
/// # Errors
/// It cannot be looked at, which says nothing of what it says.
pub async fn outcome(
    world: &World,
    hook: &Hook,
) -> Result<(OutcomeFile, Option<Timestamp>), TaskError> {
    let dir = world
        .city
        .task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let sandbox = world.city.sandbox(&hook.raider);
    let file = effects::tasks(world, move |tasks| tasks.outcome(&dir, &sandbox)).await?;
    let said = match file.odd {
        Some(why) => OutcomeFile::Unclear(why),
        None => outcome::parse(&file.text, &hook.relic),
    };
    Ok((said, file.written))
}

/// Moves the task directories of raiders that an earlier version charged to where they are looked for now.
pub async fn adopt_tasks(world: &World) {
    let hooks = match world.store.run(|txn| txn.hooks(None)).await {
        Ok(hooks) => hooks,
        Err(error) => return tracing::warn!(%error, "old task directories are not looked for"),
    };
    for hook in hooks {
        let city = &world.city;
        let old = city.old_task_dir(&hook.raider, &hook.relic, hook.incarnation);
        let dir = city.task_dir(&hook.raider, &hook.relic, hook.incarnation);
        let sandbox = city.sandbox(&hook.raider);
        let moved = effects::tasks(world, move |tasks| tasks.adopt(&old, &dir, &sandbox));
        if let Err(error) = moved.await {
            tracing::warn!(raider = %hook.raider, %error, "its task directory is not moved");
        }
    }
}
