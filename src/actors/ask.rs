//! Questions to actors from tasks and handlers, each with a limit. Actors never ask each other:
//! they send.

use std::time::Duration;

use ractor::{RpcReplyPort, concurrency};

use super::refusal::{Refusal, RefusalKind};
use super::world::World;
use crate::actors::mail::{Address, ChildSpec, ChildView, EndRefused, Meant, PoolView, RootMail};
use crate::domain::cause::Cause;
use crate::domain::handoff::Progress;
use crate::domain::ids::ChildId;

/// Answers that need no work.
const BRIEF: Duration = Duration::from_secs(10);
/// Answers that wait for a session to start or end; each has a limit of its own below this one.
const LONG: Duration = Duration::from_secs(600);

/// Asks an actor.
///
/// # Errors
/// [`RefusalKind::Unavailable`] while it is restarted, [`RefusalKind::Timeout`] past the limit.
pub async fn ask<M, T>(
    actor: Option<Address<M>>,
    message: impl FnOnce(RpcReplyPort<T>) -> M,
    limit: Duration,
) -> Result<T, Refusal> {
    let unavailable = || {
        Refusal::new(
            RefusalKind::Unavailable,
            "that part of the supervisor is being restarted",
        )
    };
    let actor = actor.ok_or_else(unavailable)?;
    let (reply, answer) = concurrency::oneshot();
    let sent = actor.send_message(message(reply.into()));
    sent.map_err(|_| unavailable())?;
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|_dropped| unavailable()),
        Err(_) => {
            let message = format!("no answer within {limit:?}");
            Err(Refusal::new(RefusalKind::Timeout, message))
        }
    }
}

/// Has the root bring a child up.
///
/// # Errors
/// Why its session did not start.
pub async fn want(world: &World, spec: ChildSpec, cause: Cause) -> Result<(), Refusal> {
    let spec = Box::new(spec);
    let message = |reply| RootMail::Want {
        spec,
        cause,
        reply: Some(reply),
    };
    let answer = ask(world.directory.root(), message, LONG).await?;
    answer.map_err(|why| {
        let message = format!("its session did not start: {why}");
        Refusal::new(RefusalKind::Failed, message)
    })
}

/// Has the root end a child; returns when nothing of it runs.
///
/// # Errors
/// Why it could not be ended; [`RefusalKind::Conflict`] when what was meant is gone and another has its
/// name.
pub async fn end(world: &World, meant: Meant, cause: Cause) -> Result<(), Refusal> {
    let message = |reply| RootMail::End {
        meant,
        cause,
        reply,
    };
    let answer = ask(world.directory.root(), message, LONG).await?;
    answer.map_err(|refused| {
        let kind = match refused {
            EndRefused::Undead { .. } => RefusalKind::Internal,
            EndRefused::Another(_) => RefusalKind::Conflict,
        };
        Refusal::new(kind, refused.to_string())
    })
}

/// Has the root end a child's session and start a fresh one.
///
/// # Errors
/// Why not.
pub async fn cycle(world: &World, id: ChildId, cause: Cause) -> Result<(), Refusal> {
    let session = id.session_id(&world.city.name);
    cycle_meant(world, Meant::any(id, session), cause).await
}

/// The same for the session that is meant, and no successor.
///
/// # Errors
/// Why not.
pub async fn cycle_meant(world: &World, meant: Meant, cause: Cause) -> Result<(), Refusal> {
    replace(world, meant, cause, None, None).await
}

/// The same for a session that hands off, with what it has to show for its work.
///
/// # Errors
/// Why not.
pub async fn hand_off(world: &World, meant: Meant, progress: Progress) -> Result<(), Refusal> {
    replace(world, meant, Cause::Handoff, None, progress).await
}

/// The same for a session that is dead inside: a death, told with the end of its terminal.
///
/// # Errors
/// Why not.
pub async fn replace_dead(world: &World, meant: Meant, tail: String) -> Result<(), Refusal> {
    replace(world, meant, Cause::AgentDead, Some(tail), None).await
}

async fn replace(
    world: &World,
    meant: Meant,
    cause: Cause,
    tail: Option<String>,
    progress: Progress,
) -> Result<(), Refusal> {
    let message = |reply| RootMail::Cycle {
        meant,
        cause,
        tail,
        progress,
        reply,
    };
    ask(world.directory.root(), message, BRIEF)
        .await?
        .map_err(Refusal::conflict)
}

/// What children there are.
///
/// # Errors
/// The root does not answer.
pub async fn views(world: &World) -> Result<Vec<ChildView>, Refusal> {
    ask(world.directory.root(), RootMail::Views, BRIEF).await
}

/// Every pool of the configuration, as the root sizes it.
///
/// # Errors
/// The root does not answer.
pub async fn pools(world: &World) -> Result<Vec<PoolView>, Refusal> {
    ask(world.directory.root(), RootMail::Pools, BRIEF).await
}
