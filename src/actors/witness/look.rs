//! A look: messages, interrupted sagas, raiders without work, waiting work. Each piece is worked on in a task of its
//! own under a claim, so that slow work delays nothing else. Everything comes from the store and the world, so that a
//! look may be repeated, interrupted and resumed at will.

use crate::actors::mail::{ChildRef, NukeTarget};
use crate::actors::sandboxes;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::super::claims::{Claim, ClaimKey};
use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::{self, charge, done, nuke, prune};
use super::super::{ask, effects, glances};
use super::inbox::{self, Handled};
use super::kept_sandboxes::{self, KeptSandbox};
use super::{
    WitnessArgs, broken_sandboxes, charges, merged, nuke_now, observe, quarantined, review,
    session_age, sessionless, stall, stuck_work, unknown_owner, wisps, zombies,
};
use crate::actors::records::{escalations, withdrawals};
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::message::{self, Body, Escalation, Message};
use crate::domain::phase::{RaiderRecord, WorkPhase};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};

/// A piece of work that a look found.
#[derive(Debug, Clone)]
pub enum Piece {
    /// A message.
    Message(Box<Message>),
    /// An open saga, which may have no task.
    Saga(Box<Saga>),
    /// A raider that may be a zombie.
    Suspect(RaiderId),
    /// A raider whose work is over.
    Release(RaiderId),
    /// Relics that wait for a slot.
    Charges(RigName),
}

impl Piece {
    /// Returns the key of the piece's claim.
    pub(super) fn key(&self) -> ClaimKey {
        match self {
            Self::Message(message) => ClaimKey::Message(message.id),
            Self::Saga(saga) => ClaimKey::Saga(saga.id),
            Self::Suspect(raider) => ClaimKey::Suspect(raider.clone()),
            Self::Release(raider) => ClaimKey::Release(raider.clone()),
            Self::Charges(rig) => ClaimKey::Charges(rig.clone()),
        }
    }
}

/// Looks, and starts a task for each piece that is not claimed. A patrol also inspects what no event reports. Returns
/// when the next completion may be stuck.
///
/// # Errors
/// The store cannot be read.
pub async fn run(args: &WitnessArgs, patrol: bool) -> Result<Option<Timestamp>, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig).cloned() else {
        return Ok(None);
    };
    let lone = hookless_names(args).await;
    let views = match patrol {
        true => ask::views(world).await.ok(),
        false => None,
    };
    let seen = wisps::WispEvidence {
        well: views.as_deref().map(observe::well),
        lone: lone.clone(),
    };
    let saw = seen.well.is_some() && seen.lone.is_some();
    let absent = views.map(|views| sessionless::sessionless(world, &views));
    if patrol {
        args.memory.judged_sandboxes.clear();
    }
    let kept = args.memory.judged_sandboxes.all();
    let mut suspects = lone.unwrap_or_default();
    suspects.retain(|raider| !kept.contains(raider));
    let unlooked = match patrol {
        true => review::overdue(args, &rig).await?,
        false => Vec::new(),
    };
    let read = move |txn: &mut dyn Txn| {
        wisps::review(txn, &rig.name, &seen)?;
        if let Some(absent) = &absent {
            sessionless::journal(txn, &rig.name, absent)?;
        }
        if let (true, Some(lone)) = (patrol, &seen.lone) {
            let lone = lone.iter().cloned().collect();
            escalations::still_so(txn, &rig.name, ProblemKind::Nameless, &lone)?;
        }
        pieces(txn, &rig, &kept)
    };
    let (mut pieces, next) = world.store.run(read).await?;
    if patrol {
        quarantined::block(args).await?;
        suspects.extend(zombies::suspects(args).await?);
        call(args).await?;
        glances::patrol(world, &args.rig);
    }
    pieces.extend(suspects.into_iter().map(Piece::Suspect));
    pieces.extend(unlooked.into_iter().map(Piece::Release));
    let mut keys = BTreeSet::new();
    pieces.retain(|piece| keys.insert(piece.key()));
    if patrol && saw {
        let now = world.clock.now();
        world.directory.patrolled(args.rig.clone(), now);
        or_warn!(stuck_work::close_finished(args, &pieces).await, rig = %args.rig,
            "the escalations about finished work could not be closed; the next look retries");
    }
    for piece in pieces {
        if let Some(claim) = world.claims.claim_or_repeat(piece.key()) {
            attend(args, piece, claim);
        }
    }
    stall::start_look(args);
    if patrol {
        session_age::start_look(args);
    }
    Ok(next)
}

/// Returns the raiders of the rig's sandboxes without hook; none when these cannot be listed, which is logged.
async fn hookless_names(args: &WitnessArgs) -> Option<Vec<RaiderId>> {
    let listed = sandboxes::hookless_names(&args.world, &args.rig).await;
    let failed = |error: &Refusal| {
        let what = "the rig's sandboxes cannot be listed";
        let follows = "wisps of sandboxes without hook stay until the next look";
        warn(args, what, error, follows);
    };
    listed.inspect_err(failed).ok()
}

/// Calls a person about a look that was given up, unless an earlier call hangs itself. The next patrol that observes the rig
/// closes the escalation.
pub(super) async fn call_about_hang(args: &WitnessArgs) {
    let key = ClaimKey::HangCall(args.rig.clone());
    let Some(_claim) = args.world.claims.claim(key) else {
        return;
    };
    let body = Escalation::high(
        message::witness(&args.rig),
        ProblemKind::LookHangs,
        "the look was given up and is retried; until one finishes, messages and zombies of this rig are not handled; check for \
            a disk or a network mount that does not answer",
    );
    or_warn!(inbox::raise(args, body).await, rig = %args.rig,
        "the escalation about a hanging look could not be stored; no person is called");
}

/// Logs a failure and what follows. The hold of a rig has its own line, and is the cause of what fails there meanwhile.
pub(super) fn warn(args: &WitnessArgs, what: &str, error: &Refusal, follows: &str) {
    let rig = &args.rig;
    match effects::is_held(&args.world, rig) {
        true => tracing::debug!(%rig, %error, "{what}, because the rig is held"),
        false => tracing::warn!(%rig, %error, "{what}; {follows}"),
    }
}

/// Calls people about broken sandboxes and sandboxes of unknown owner.
async fn call(args: &WitnessArgs) -> Result<(), Refusal> {
    if let Err(error) = broken_sandboxes::call(args).await {
        let what = "the rig's sandboxes cannot be inspected";
        warn(
            args,
            what,
            &error,
            "broken ones are not reported by this patrol",
        );
    }
    if let Err(error) = unknown_owner::call(args).await {
        let what = "the rig's sandboxes without hook cannot be listed";
        warn(args, what, &error, "a person is called if that lasts");
        unknown_owner::unlistable(args, &error).await?;
    }
    Ok(())
}

fn pieces(
    txn: &mut dyn Txn,
    rig: &Rig,
    kept: &BTreeSet<RaiderId>,
) -> Result<(Vec<Piece>, Option<Timestamp>), StoreError> {
    let mut records = txn.raiders(Some(&rig.name))?;
    if withdraw_closed(txn, &records)? {
        records = txn.raiders(Some(&rig.name))?;
    }
    let inbox = txn.inbox(&message::witness(&rig.name))?;
    let mut sagas = txn.sagas(Some(&rig.name))?;
    sagas.retain(|saga| saga.kind != SagaKind::Land);
    let (mut pieces, mut seen_to) = (Vec::new(), kept.clone());
    for record in records.iter().filter(|it| !kept.contains(&it.hook.raider)) {
        let raider = record.hook.raider.clone();
        match WorkPhase::of(record) {
            WorkPhase::Orphaned { .. } => pieces.push(Piece::Suspect(raider)),
            WorkPhase::Over { .. } => {
                seen_to.insert(raider.clone());
                pieces.push(Piece::Release(raider));
            }
            // A saga is a piece of its own.
            WorkPhase::Charging { .. }
            | WorkPhase::Removing { .. }
            | WorkPhase::Submitting { .. } => {}
            WorkPhase::Working
            | WorkPhase::Unbound
            | WorkPhase::Validating { .. }
            | WorkPhase::InReview { .. } => {}
        }
    }
    let (late, next) = zombies::overdue(&records, rig, txn.now());
    pieces.extend(late.into_iter().map(Piece::Suspect));
    for message in inbox {
        if !waits_for(txn, &message, &seen_to)? {
            pieces.push(Piece::Message(Box::new(message)));
        }
    }
    pieces.extend(sagas.into_iter().map(Box::new).map(Piece::Saga));
    pieces.push(Piece::Charges(rig.name.clone()));
    Ok((pieces, next))
}

/// Returns true when the message only waits for a sandbox that was judged and kept, or is being removed: two
/// measurements at once would disturb each other.
fn waits_for(
    txn: &mut dyn Txn,
    message: &Message,
    seen_to: &BTreeSet<RaiderId>,
) -> Result<bool, StoreError> {
    let (raider, incarnation) = match &message.body {
        Body::RaiderDone(done) => (&done.raider, done.incarnation),
        // Before the landing is recorded the message concerns more than the sandbox.
        Body::Merged(merged) if merged::is_told(txn, merged)? => {
            (&merged.raider, merged.incarnation)
        }
        _ => return Ok(false),
    };
    let hook = txn.hook(raider)?;
    let own = hook.is_some_and(|hook| hook.incarnation == incarnation);
    Ok(own && seen_to.contains(raider))
}

/// Withdraws completions that are not pushed yet and whose relic was closed elsewhere. Returns true if there were any.
fn withdraw_closed(txn: &mut dyn Txn, records: &[RaiderRecord]) -> Result<bool, StoreError> {
    let is_closed =
        |record: &&RaiderRecord| record.hook.is_declared() && record.relic == RelicStatus::Closed;
    let mut any = false;
    for record in records.iter().filter(is_closed) {
        withdrawals::withdraw(txn, &record.hook.raider, Cause::RelicClosed)?;
        any = true;
    }
    Ok(any)
}

/// Works on a piece in a task of its own, and tells the witness when it ends. A piece without progress is repeated when
/// a look asked for it meanwhile: the reason for that look may be what was missing.
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
    // In a task of its own: a panic is retried like any failure.
    let attempt = tokio::spawn(async move { work_on(&own, work).await });
    let key = piece.key();
    match attempt.await {
        Ok(Ok(handled)) => {
            stuck_work::passed(args, piece).await;
            handled
        }
        Ok(Err(error)) => {
            let what = format!("a piece of the witness's work failed ({key:?})");
            warn(args, &what, &error, "it is retried, or a person is called");
            stuck_work::stopped(args, piece, error).await
        }
        Err(panic) => {
            tracing::error!(
                rig = %args.rig,
                ?key,
                %panic,
                "a piece of the witness's work panicked; it is retried soon"
            );
            Handled::Soon
        }
    }
}

async fn work_on(args: &WitnessArgs, piece: Piece) -> Result<Handled, Refusal> {
    match piece {
        Piece::Message(message) => inbox::handle(args, *message).await,
        Piece::Saga(saga) => resume(args, saga.id).await,
        Piece::Suspect(raider) => zombies::suspect(args, &raider).await,
        Piece::Release(raider) => release(args, raider).await,
        Piece::Charges(_) => charges::charge_waiting(args).await,
    }
}

/// Resumes a saga at its current step.
async fn resume(args: &WitnessArgs, id: u64) -> Result<Handled, Refusal> {
    let world = &args.world;
    // The task that had claimed it before may have closed it since it was listed.
    let Some(saga) = world.store.run(move |txn| txn.saga(id)).await? else {
        return Ok(Handled::Yes);
    };
    let kind = saga.kind.as_str();
    if let Err(unreadable) = sagas::check(&saga) {
        // The saga stays as it is: a program that can read it may be installed, and a person must know.
        let body = Escalation::high(
            saga.subject,
            stuck_work::of_another_version(saga.kind),
            unreadable.message,
        );
        inbox::raise(args, body).await?;
        return Ok(Handled::AtPatrol);
    }
    let result = match saga.kind {
        SagaKind::Charge => charge::run(world, saga).await.map(|_| ()),
        SagaKind::Done => done::run(world, saga).await,
        SagaKind::Nuke => nuke::run(world, saga, None).await.map(|_| ()),
        SagaKind::Prune => prune::run(world, saga).await,
        SagaKind::Land => Ok(()),
    };
    let Err(error) = result else {
        return Ok(Handled::Yes);
    };
    // A saga that is still open is retried; a closed one is over.
    match world.store.run(move |txn| txn.saga(id)).await {
        Ok(None) => {
            tracing::warn!(
                rig = %args.rig,
                saga = id,
                kind,
                %error,
                "a saga ended with a failure and is closed"
            );
            Ok(Handled::Yes)
        }
        Ok(Some(_)) | Err(_) => Err(error),
    }
}

/// Removes the sandbox of a raider whose work is over; a sandbox with unsaved work stays, and a person is called.
async fn release(args: &WitnessArgs, raider: RaiderId) -> Result<Handled, Refusal> {
    let world = &args.world;
    let found = world.store.run(move |txn| txn.raider(&raider)).await?;
    let (Some(record), Some(rig)) = (found, world.city.rig(&args.rig)) else {
        return Ok(Handled::AtPatrol);
    };
    let phase = WorkPhase::of(&record);
    let hook = record.hook;
    let (cause, since) = match phase {
        WorkPhase::Over { since } => (Cause::DoneCleanPushed, since),
        WorkPhase::InReview { asked, .. } if review::has_expired(args, rig, &hook, asked) => {
            let until = asked.checked_add(rig.witness.review_hold);
            (Cause::ReviewHold, until.unwrap_or(asked))
        }
        WorkPhase::InReview { .. }
        | WorkPhase::Charging { .. }
        | WorkPhase::Removing { .. }
        | WorkPhase::Working
        | WorkPhase::Unbound
        | WorkPhase::Orphaned { .. }
        | WorkPhase::Submitting { .. }
        | WorkPhase::Validating { .. } => return Ok(Handled::AtPatrol),
    };
    if cause == Cause::ReviewHold {
        // A session that waits for its reviewer must not keep the sandbox by writing to it.
        let meant = ChildRef::raider(&hook.raider, hook.incarnation);
        ask::end(world, meant, cause).await?;
    }
    let target = NukeTarget::of(&hook, cause);
    match nuke_now(args, target, false).await {
        Ok(_) => Ok(Handled::Yes),
        // Another task has claimed it, and tells the witness when it ends.
        Err(busy) if busy.is_for_the_patrol() => Ok(Handled::AtPatrol),
        Err(refused) if matches!(refused.kind, RefusalKind::WorkAtRisk | RefusalKind::NoRoom) => {
            let kept = KeptSandbox {
                hook: &hook,
                owns: true,
                since,
                detected: None,
                problem: ProblemKind::FinishedUnsaved,
                refused,
                may_go: true,
            };
            kept_sandboxes::retain(args, kept).await
        }
        Err(error) => Err(error),
    }
}
