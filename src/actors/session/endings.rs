//! Judges why a session ended. Observed facts decide: a hook that is done, or an outcome on file, makes an end a
//! completion; everything else is a death.

mod by_exit;

use crate::actors::declared::{self, outcome_file};
use jiff::Timestamp;

use crate::actors::effects;
use crate::actors::mail::{ChildSpec, Work};
use crate::actors::outbox;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::session::child::ChildArgs;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::child::ChildExit;
use crate::domain::facts::{RunState, SessionExit, SessionFacts};
use crate::domain::outcome::OutcomeFile;
use crate::domain::phase::WorkPhase;
use crate::domain::prompt::Problem;
use crate::domain::relic::Hook;
use crate::ports::sessions::{SessionEvent, SessionHandle};

/// Judges the end of a child's session.
pub async fn judge(world: &World, spec: &ChildSpec, event: SessionEvent) -> ChildExit {
    if let Work::Raider { hook, problem } = &spec.work {
        // Looked for before the store is read, which has a completion before its file goes.
        let waits = outbox::has_completion_of(world, hook).await;
        // It is handled as soon as the rig is prepared, and no session starts before.
        if waits && effects::is_held(world, &hook.raider.rig) {
            return ChildExit::Finished;
        }
        match is_finished(world, hook).await {
            Ok(true) => return ChildExit::Finished,
            Ok(false) => {}
            // It may have declared its outcome: the next start judges that, and starts nothing before.
            Err(error) if problem.is_none() => return ChildExit::Unseen(error.to_string()),
            // A session that was started for its outcome is started whatever that is.
            Err(error) => {
                tracing::warn!(
                    raider = %hook.raider,
                    %error,
                    "the store or the outcome file cannot be read; the end of the session is \
                    judged without it"
                );
            }
        }
        // What it declared itself counts more than its exit code.
        if let SessionEvent::Exited(session, exit) = &event
            && !waits
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

/// Returns true when the end of this session was the end of its work, for a harness that cannot report an outcome
/// itself (`done_on_exit`).
pub async fn settled(
    world: &World,
    hook: &Hook,
    session: &SessionHandle,
    exit: &SessionExit,
) -> bool {
    match by_exit::apply(world, hook, session, exit).await {
        Ok(settled) => settled,
        Err(error) => {
            tracing::warn!(
                raider = %hook.raider,
                %error,
                "the outcome of a session that ended by its exit code cannot be recorded; the \
                end counts as a death"
            );
            false
        }
    }
}

/// Returns true when the last session ended while no supervisor ran, and its exit ended the work (`done_on_exit`).
pub async fn settled_before(args: &ChildArgs, before: Option<&SessionFacts>) -> bool {
    let (Work::Raider { hook, problem }, Some(before)) = (&args.spec.work, before) else {
        return false;
    };
    let RunState::Exited(exit) = &before.state else {
        return false;
    };
    // Starts for a problem or by an operator happen regardless of how the last session ended.
    if problem.is_some() || args.cause == Cause::Operator {
        return false;
    }
    // What it declared itself counts.
    if outbox::has_completion_of(&args.world, hook).await {
        return false;
    }
    let handle = SessionHandle {
        id: before.id.clone(),
        token: before.token.clone(),
    };
    settled(&args.world, hook, &handle, exit).await
}

/// Returns true when the hook needs no session any more: it is over, or the raider wrote an outcome file. An
/// unacceptable or unreadable outcome counts, too: the witness tells the raider, and has it started again for that.
///
/// # Errors
/// The outcome file cannot be read, or the store: what the raider declared is unknown.
pub async fn is_finished(world: &World, hook: &Hook) -> Result<bool, Refusal> {
    match work_is_over(world, hook).await {
        Some(true) => Ok(true),
        Some(false) => Ok(outcome(world, hook).await?.0 != OutcomeFile::Empty),
        None => Ok(false),
    }
}

/// Returns true when the raider ran `hd done`, the hook is gone, or its sandbox is being removed. None while the store
/// cannot be read: then a session is wanted.
///
/// A nuke opens its saga before it has the root end the child: a child that starts later sees the saga here, one that
/// started earlier is ended. So no session ever runs in a sandbox that is being removed.
pub async fn work_is_over(world: &World, hook: &Hook) -> Option<bool> {
    let raider = hook.raider.clone();
    let now = world.store.run(move |txn| txn.raider(&raider)).await.ok()?;
    let own = now.filter(|now| now.hook.incarnation == hook.incarnation);
    Some(own.is_none_or(|now| WorkPhase::of(&now).is_finished()))
}

/// Returns why the outcome on file is not acceptable; none when it is acceptable or cannot be read.
pub async fn problem(world: &World, hook: &Hook) -> Option<Problem> {
    match outcome(world, hook).await.ok()?.0 {
        OutcomeFile::Empty => None,
        OutcomeFile::Unclear(why) => Some(Problem::Unclear(why)),
        OutcomeFile::Complete(outcome) => {
            let request = declared::request_of(hook, outcome);
            let refused = declared::preview(world, &request, hook).await.err()?;
            problem_of(&refused)
        }
    }
}

/// Returns what the session can mend about the refusal of its outcome, if anything.
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

/// Returns the content of the incarnation's outcome file, and when it was written. A file that counts no longer is empty.
///
/// # Errors
/// The file cannot be read, or the store, which tells whether the file counts.
pub async fn outcome(
    world: &World,
    hook: &Hook,
) -> Result<(OutcomeFile, Option<Timestamp>), Refusal> {
    let seen = outcome_file::read(world, hook).await?;
    if seen.is_void {
        return Ok((OutcomeFile::Empty, None));
    }
    Ok((seen.said, seen.written))
}
