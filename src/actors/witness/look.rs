//! One look: messages, interrupted sagas, raiders without work, waiting work. Each is worked on in a
//! task of its own under a claim, so that what is slow holds up nothing else. All of it comes from
//! the store and the world, so that it may be repeated, interrupted and resumed at will.

use std::time::Duration;

use jiff::Timestamp;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::root::Meant;
use super::super::sagas::{self, charge, claim_key, done, nuke, prune};
use super::super::world::Claim;
use super::super::{ask, effects};
use super::inbox::{self, Handled, escalate, nuke_target};
use super::{WitnessArgs, charges, nuke_now, stall, wisps};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::RunState;
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::merge::MrState;
use crate::domain::message::{self, Body, Escalation, Message, Severity};
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{EventFilter, StoreError, Txn};

/// A piece of work that a look found.
#[derive(Debug, Clone)]
pub enum Piece {
    /// A message.
    Message(Box<Message>),
    /// An open saga that may be nobody's.
    Saga(Box<Saga>),
    /// A saga of `done` that may take too long.
    Overdue(Box<Saga>),
    /// A raider that has no work any more.
    Release(RaiderId),
    /// Relics that wait for a slot.
    Charges(RigName),
}

impl Piece {
    /// The key of its claim.
    fn key(&self) -> String {
        match self {
            Self::Message(message) => format!("message/{}", message.id),
            Self::Saga(saga) => claim_key(saga.id),
            Self::Overdue(saga) => format!("overdue/{}", saga.id),
            Self::Release(raider) => format!("release/{raider}"),
            Self::Charges(rig) => format!("charges/{rig}"),
        }
    }

    /// Whom it is about, and what it means for people that it cannot go on.
    fn trouble(&self) -> (String, String) {
        match self {
            Self::Message(message) => {
                let raider = message.body.raider().map(ToString::to_string);
                let problem = "what became of its work cannot be dealt with".to_owned();
                (raider.unwrap_or_else(|| message.from.clone()), problem)
            }
            Self::Saga(saga) | Self::Overdue(saga) => {
                let problem = format!("its {} cannot go on", saga.kind.as_str());
                (saga.subject.clone(), problem)
            }
            Self::Release(raider) => {
                let problem = "it has no work any more and cannot be removed".to_owned();
                (raider.to_string(), problem)
            }
            Self::Charges(rig) => {
                let problem = "waiting work cannot be charged".to_owned();
                (message::witness(rig), problem)
            }
        }
    }
}

/// Why a raider has no work any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The queue has its work, or it left nothing to land.
    Finished,
    /// Class 4: its relic was closed elsewhere (`witness-patrol.md`).
    Closed,
}

/// Looks, and sets to work whatever nobody is at.
///
/// # Errors
/// The store cannot be read.
pub async fn look(args: &WitnessArgs) -> Result<(), Refusal> {
    let rig = args.rig.clone();
    for piece in args.world.store.run(move |txn| pieces(txn, &rig)).await? {
        if let Some(claim) = args.world.claims.claim_or_repeat(piece.key()) {
            attend(args, piece, claim);
        }
    }
    stall::set_out(args);
    Ok(())
}

fn pieces(txn: &mut dyn Txn, rig: &RigName) -> Result<Vec<Piece>, StoreError> {
    withdraw_closed(txn, rig)?;
    wisps::review(txn, rig, None)?;
    let inbox = txn.inbox(&message::witness(rig))?;
    let mut sagas = txn.sagas(Some(rig))?;
    sagas.retain(|saga| saga.kind != SagaKind::Land);
    let mut pieces = Vec::new();
    for hook in txn.hooks(Some(rig))? {
        let subject = hook.raider.to_string();
        let busy = sagas.iter().any(|saga| saga.subject == subject);
        if !busy && over(txn, &hook, &inbox)?.is_some() {
            pieces.push(Piece::Release(hook.raider));
        }
    }
    pieces.extend(inbox.into_iter().map(Box::new).map(Piece::Message));
    for saga in sagas {
        let saga = Box::new(saga);
        if saga.kind == SagaKind::Done {
            pieces.push(Piece::Overdue(saga.clone()));
        }
        pieces.push(Piece::Saga(saga));
    }
    pieces.push(Piece::Charges(rig.clone()));
    Ok(pieces)
}

/// A completion that is not pushed yet, of work that was closed elsewhere, is for nobody.
fn withdraw_closed(txn: &mut dyn Txn, rig: &RigName) -> Result<(), StoreError> {
    for hook in txn.hooks(Some(rig))? {
        if hook.done.is_some() && txn.relic(&hook.relic)?.status == RelicStatus::Closed {
            done::withdraw(txn, &hook.raider, Cause::RelicClosed)?;
        }
    }
    Ok(())
}

/// Whether the raider's work is over: closed elsewhere; or POLECAT_DONE is handled, and its merge
/// request, if it has one, waits for nobody who would want the sandbox.
fn over(txn: &mut dyn Txn, hook: &Hook, inbox: &[Message]) -> Result<Option<Over>, StoreError> {
    if hook.done.is_none() {
        let closed = txn.relic(&hook.relic)?.status == RelicStatus::Closed;
        return Ok(closed.then_some(Over::Closed));
    }
    let pending = inbox.iter().any(|message| {
        matches!(&message.body, Body::PolecatDone(done)
            if done.raider == hook.raider && done.incarnation == hook.incarnation)
    });
    let mr = txn.mr_of(&hook.relic, &hook.raider, hook.incarnation)?;
    let waits = mr.is_some_and(|mr| mr.state == MrState::Reviewing);
    // MERGE_READY may be on its way: the forge pins the head before it takes it.
    Ok((!pending && !waits).then_some(Over::Finished))
}

/// Works on it in a task of its own; its end tells the witness. What nothing could be done about is
/// done once more when a look wanted it meanwhile: whatever made that look may be what was missing.
pub fn attend(args: &WitnessArgs, piece: Piece, mut claim: Claim) {
    let args = args.clone();
    tokio::spawn(async move {
        loop {
            let handled = attempt(&args, &piece).await;
            match claim.give_back() {
                Some(again) if handled == Handled::AtPatrol => claim = again,
                free => {
                    drop(free);
                    return args.ended(handled);
                }
            }
        }
    });
}

async fn attempt(args: &WitnessArgs, piece: &Piece) -> Handled {
    let (own, work) = (args.clone(), piece.clone());
    // In a task of its own: what panics is tried again like anything else.
    let attempt = tokio::spawn(async move { work_on(&own, work).await });
    let key = piece.key();
    match attempt.await {
        Ok(Ok(handled)) => handled,
        Ok(Err(error)) => {
            tracing::warn!(rig = %args.rig, key, %error, "a piece of work could not go on");
            stopped(args, piece, error).await
        }
        Err(panic) => {
            tracing::error!(rig = %args.rig, key, %panic, "a piece of work panicked");
            Handled::Soon
        }
    }
}

/// When to try again what could not go on: soon, when it may pass by itself or somebody else was at it.
/// What will not pass is a person's, and is tried at each look all the same.
async fn stopped(args: &WitnessArgs, piece: &Piece, error: Refusal) -> Handled {
    let passes = error.is_passing() || error.kind == RefusalKind::Conflict;
    if passes || args.world.is_stopping() {
        return Handled::Soon;
    }
    if error.kind == RefusalKind::NoRoom {
        return Handled::AtPatrol;
    }
    let (agent, problem) = piece.trouble();
    let mut evidence = vec![error.message];
    evidence.extend(error.losses);
    evidence.extend(error.hint);
    let body = Escalation {
        agent,
        relic: None,
        problem,
        severity: Severity::High,
        evidence: evidence.join("\n"),
    };
    match inbox::raise(args, body).await {
        Ok(()) => Handled::AtPatrol,
        Err(_) => Handled::Soon,
    }
}

async fn work_on(args: &WitnessArgs, piece: Piece) -> Result<Handled, Refusal> {
    match piece {
        Piece::Message(message) => inbox::handle(args, *message).await,
        Piece::Saga(saga) => resume(args, saga.id).await,
        Piece::Overdue(saga) => overdue(args, *saga).await,
        Piece::Release(raider) => release(args, raider).await,
        Piece::Charges(_) => charges::charge_waiting(args).await,
    }
}

/// Takes up a saga where it was left.
async fn resume(args: &WitnessArgs, id: u64) -> Result<Handled, Refusal> {
    let world = &args.world;
    // Whoever had claimed it before may have closed it since it was listed.
    let Some(saga) = world.store.run(move |txn| txn.saga(id)).await? else {
        return Ok(Handled::Yes);
    };
    let kind = saga.kind.as_str();
    if let Err(unreadable) = sagas::check(&saga) {
        // Left as it is: a program that can read it may come, and a person must know.
        let body = Escalation {
            agent: saga.subject,
            relic: None,
            problem: format!("its {kind} was begun by another version and cannot go on"),
            severity: Severity::High,
            evidence: unreadable.message,
        };
        inbox::raise(args, body).await?;
        return Ok(Handled::AtPatrol);
    }
    let result = match saga.kind {
        SagaKind::Charge => charge::run(world, saga).await.map(|_| ()),
        SagaKind::Done => done::run(world, saga).await,
        SagaKind::Nuke => nuke::run(world, saga).await.map(|_| ()),
        SagaKind::Prune => prune::run(world, saga).await,
        SagaKind::Land => Ok(()),
    };
    let Err(error) = result else {
        return Ok(Handled::Yes);
    };
    // A saga that is still open is tried again; a closed one is over.
    match world.store.run(move |txn| txn.saga(id)).await {
        Ok(None) => {
            tracing::warn!(rig = %args.rig, saga = id, kind, %error, "a saga ended without success");
            Ok(Handled::Yes)
        }
        Ok(Some(_)) | Err(_) => Err(error),
    }
}

/// Class 3, stuck in done: its push goes nowhere without the remote being to blame, and its
/// session still runs (`witness-patrol.md`). The session is ended; the saga goes on.
async fn overdue(args: &WitnessArgs, saga: Saga) -> Result<Handled, Refusal> {
    let world = &args.world;
    let (Some(rig), Ok(raider)) = (world.city.rig(&args.rig), saga.subject.parse::<RaiderId>())
    else {
        return Ok(Handled::AtPatrol);
    };
    let age = world.age(&claim_key(saga.id), saga.progress_at);
    if age <= rig.witness.done_intent_timeout || done::blocked(&saga).is_some() {
        return Ok(Handled::AtPatrol);
    }
    let seen = effects::facts(world, &raider.session_id()).await;
    let Some(seen) = (seen.ok().flatten()).filter(|seen| seen.state == RunState::Running) else {
        return Ok(Handled::AtPatrol);
    };
    let subject = saga.subject.clone();
    let said = world
        .store
        .run(move |txn| note_stuck(txn, &subject, saga.opened_at, age));
    said.await?;
    let meant = Meant::raider(&raider, seen.incarnation).only(seen.token);
    match ask::end(world, meant, Cause::DoneTimeout).await {
        // A session that came since is not stuck.
        Err(refused) if refused.kind == RefusalKind::Conflict => Ok(Handled::AtPatrol),
        ended => ended.map(|()| Handled::Yes),
    }
}

/// Says once per saga that a raider is stuck in done: its session may be hard to end.
fn note_stuck(
    txn: &mut dyn Txn,
    raider: &str,
    since: Timestamp,
    age: Duration,
) -> Result<(), StoreError> {
    let said = txn.events(&EventFilter {
        kind: Some(EventType::RaiderZombie.as_str().to_owned()),
        subject: Some(raider.to_owned()),
        ..EventFilter::default()
    })?;
    if said.iter().any(|event| event.ts >= since) {
        return Ok(());
    }
    let data = serde_json::json!({ "class": "stuck_in_done", "age_s": age.as_secs() });
    let event = NewEvent::new(EventType::RaiderZombie, raider, Cause::DoneTimeout);
    txn.record(&event.with(data)).map(|_| ())
}

/// Removes the sandbox of a raider that has no work any more; one that holds unsaved work stays, and
/// a person is called. The session of work that was closed elsewhere is ended whatever becomes of its
/// sandbox (`4-rules.md`, done).
async fn release(args: &WitnessArgs, raider: RaiderId) -> Result<Handled, Refusal> {
    let world = &args.world;
    let (wanted, to) = (raider.clone(), message::witness(&args.rig));
    let found = world.store.run(move |txn| {
        let Some(hook) = txn.hook(&wanted)? else {
            return Ok(None);
        };
        let inbox = txn.inbox(&to)?;
        Ok(over(txn, &hook, &inbox)?.map(|over| (hook, over)))
    });
    let Some((hook, over)) = found.await? else {
        return Ok(Handled::AtPatrol);
    };
    let (cause, problem) = match over {
        Over::Finished => (
            Cause::DoneCleanPushed,
            "a finished sandbox holds unsaved work",
        ),
        Over::Closed => (
            Cause::RelicClosed,
            "its relic was closed elsewhere, and its sandbox holds work",
        ),
    };
    if over == Over::Closed {
        let meant = Meant::raider(&raider, hook.incarnation);
        ask::end(world, meant, cause).await?;
    }
    match nuke_now(args, nuke_target(&hook, cause), false).await {
        Ok(_) => {
            if over == Over::Closed {
                let data = serde_json::json!({ "class": "bead_closed", "relic": hook.relic });
                let event = NewEvent::new(EventType::RaiderZombie, &raider, cause);
                world.store.note(vec![event.with(data)]);
            }
            Ok(Handled::Yes)
        }
        // Somebody is at it, and tells the witness when it is over; or has called a person.
        Err(kept) if matches!(kept.kind, RefusalKind::Conflict | RefusalKind::NoRoom) => {
            Ok(Handled::AtPatrol)
        }
        Err(refused) if refused.kind == RefusalKind::WorkAtRisk => {
            let evidence = format!(
                "{}\n`hd raider nuke {raider} --salvage` keeps it and frees the slot",
                refused.losses.join("\n")
            );
            escalate(args, &hook, problem, evidence).await?;
            Ok(Handled::AtPatrol)
        }
        Err(error) => Err(error),
    }
}
