//! Requests from tasks and handlers to actors, each with a timeout. Actors never await each other: they send messages.

use std::time::Duration;

use ractor::{RpcReplyPort, concurrency};

use super::refusal::{Refusal, RefusalKind};
use super::world::World;
use crate::actors::mail::{
    Address, ChildRef, ChildSpec, ChildView, EndRefused, Order, PoolView, RootMail,
};
use crate::domain::cause::Cause;
use crate::domain::handoff::Progress;
use crate::domain::ids::ChildId;

/// Timeout of answers that need no work.
const BRIEF: Duration = Duration::from_secs(10);
/// Timeout of answers that wait for a session to start or end; each of these has a shorter limit of its own.
const LONG: Duration = Duration::from_secs(600);

/// Asks an actor.
///
/// # Errors
/// [`RefusalKind::Unavailable`] while the actor restarts, [`RefusalKind::Timeout`] past the limit.
pub async fn ask<M, T>(
    actor: Option<Address<M>>,
    message: impl FnOnce(RpcReplyPort<T>) -> M,
    limit: Duration,
) -> Result<T, Refusal> {
    let actor = actor.ok_or_else(unavailable)?;
    let (reply, answer) = concurrency::oneshot();
    let sent = actor.send_message(message(reply.into()));
    sent.map_err(|_| unavailable())?;
    answered(answer, limit).await
}

/// Asks an actor `count` things with one message. Returns an answer to each.
///
/// # Errors
/// As [`ask`], for each by itself.
pub async fn ask_each<M, T>(
    actor: Option<Address<M>>,
    count: usize,
    message: impl FnOnce(Vec<RpcReplyPort<T>>) -> M,
    limit: Duration,
) -> Vec<Result<T, Refusal>> {
    let (replies, answers): (Vec<_>, Vec<_>) = (0..count).map(|_| concurrency::oneshot()).unzip();
    let message = message(replies.into_iter().map(Into::into).collect());
    // A message that is not taken is dropped with its replies, and each answer says so.
    drop(actor.map(|actor| actor.send_message(message)));
    let answers = answers.into_iter().map(|answer| answered(answer, limit));
    futures_util::future::join_all(answers).await
}

fn unavailable() -> Refusal {
    Refusal::new(
        RefusalKind::Unavailable,
        "that part of the supervisor is restarting",
    )
}

async fn answered<T>(
    answer: concurrency::OneshotReceiver<T>,
    limit: Duration,
) -> Result<T, Refusal> {
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
/// The reason why its session did not start.
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

/// Has the root end a child; returns when no session of it runs.
///
/// # Errors
/// The reason why it could not be ended; [`RefusalKind::Conflict`] when the session or incarnation that was meant is
/// gone and a successor has its name.
pub async fn end(world: &World, meant: ChildRef, order: impl Into<Order>) -> Result<(), Refusal> {
    let order = order.into();
    let message = |reply| RootMail::End {
        meant,
        order,
        reply,
    };
    let answer = ask(world.directory.root(), message, LONG).await?;
    answer.map_err(|refused| {
        let kind = match refused {
            EndRefused::NotEnded { .. } => RefusalKind::Internal,
            EndRefused::Another(_) => RefusalKind::Conflict,
        };
        Refusal::new(kind, refused.to_string())
    })
}

/// Has the root replace a child's session by a fresh one.
///
/// # Errors
/// The reason of the refusal.
pub async fn cycle(world: &World, id: ChildId, order: impl Into<Order>) -> Result<(), Refusal> {
    let session = id.session_id(&world.city.name);
    replace(world, ChildRef::any(id, session), order.into(), None, None).await
}

/// As [`cycle`], but for the session that is meant, and for no successor.
///
/// # Errors
/// The reason of the refusal.
pub async fn cycle_if_same(world: &World, meant: ChildRef, cause: Cause) -> Result<(), Refusal> {
    replace(world, meant, cause.into(), None, None).await
}

/// As [`cycle_if_same`], but for a session that hands off, with the progress of its work.
///
/// # Errors
/// The reason of the refusal.
pub async fn hand_off(world: &World, meant: ChildRef, progress: Progress) -> Result<(), Refusal> {
    replace(world, meant, Cause::Handoff.into(), None, progress).await
}

/// As [`cycle_if_same`], but for a session whose agent is dead: counts a death, with the tail of its terminal.
///
/// # Errors
/// The reason of the refusal.
pub async fn replace_dead(world: &World, meant: ChildRef, tail: String) -> Result<(), Refusal> {
    replace(world, meant, Cause::AgentDead.into(), Some(tail), None).await
}

async fn replace(
    world: &World,
    meant: ChildRef,
    order: Order,
    tail: Option<String>,
    progress: Progress,
) -> Result<(), Refusal> {
    let message = |reply| RootMail::Cycle {
        meant,
        order,
        tail,
        progress,
        reply,
    };
    ask(world.directory.root(), message, BRIEF)
        .await?
        .map_err(Refusal::conflict)
}

/// Returns all children.
///
/// # Errors
/// The root does not answer.
pub async fn views(world: &World) -> Result<Vec<ChildView>, Refusal> {
    ask(world.directory.root(), RootMail::Views, BRIEF).await
}

/// Returns every pool of the configuration with its desired size.
///
/// # Errors
/// The root does not answer.
pub async fn pools(world: &World) -> Result<Vec<PoolView>, Refusal> {
    ask(world.directory.root(), RootMail::Pools, BRIEF).await
}
