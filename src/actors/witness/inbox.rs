//! One look: messages, interrupted sagas, finished raiders, waiting work. All of it from the store
//! and the world, so that it may be repeated, interrupted and resumed at will.

use std::time::Duration;

use ractor::ActorRef;
use tokio::task::JoinSet;

use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::charge::ChargeRequest;
use super::super::sagas::{charge, done, nuke};
use super::super::world::Claim;
use super::super::{ask, effects, shaman};
use super::{WitnessArgs, WitnessMsg, merged, nuke_now, resume, rework, validate};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::RunState;
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::domain::merge::MrState;
use crate::domain::message::{self, Body, Escalation, Message, Severity};
use crate::domain::relic::{Hook, Relic, RelicKind, RelicStatus};
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{RelicFilter, StoreError, Txn};

/// The label of a relic that a fresh raider must rework, whatever `auto_charge` says.
pub const REWORK: &str = "rework";

/// What handling a message came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// It is marked handled.
    Yes,
    /// Not yet; try again soon.
    Soon,
    /// Not before something changes; the patrol looks again.
    AtPatrol,
}

/// Looks. True when something should be tried again soon.
pub async fn look(args: &WitnessArgs, me: &ActorRef<WitnessMsg>) -> Result<bool, Refusal> {
    let mut retry = read(args).await?;
    let rig = args.rig.clone();
    let (sagas, hooks) = args
        .world
        .store
        .run(move |txn| {
            withdraw_closed(txn, &rig)?;
            Ok((txn.sagas(Some(&rig))?, txn.hooks(Some(&rig))?))
        })
        .await?;
    for saga in sagas.iter().filter(|saga| saga.kind != SagaKind::Land) {
        overdue(args, saga).await;
        resume(args, me, saga.id).await;
    }
    retry |= release_closed(args, &hooks, &sagas).await?;
    retry |= release_finished(args, hooks, &sagas).await?;
    retry |= charge_waiting(args, me).await?;
    Ok(retry)
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

/// Handles the inbox. One message that cannot be handled holds up no other.
async fn read(args: &WitnessArgs) -> Result<bool, Refusal> {
    let to = message::witness(&args.rig);
    let messages = args.world.store.run(move |txn| txn.inbox(&to)).await?;
    let mut handling = JoinSet::new();
    for message in messages {
        let Some(claim) = args.world.claims.claim(format!("message/{}", message.id)) else {
            continue;
        };
        let args = args.clone();
        handling.spawn(async move {
            let id = message.id;
            let result = handle(&args, message).await;
            drop(claim);
            (id, result)
        });
    }
    let mut retry = false;
    while let Some(joined) = handling.join_next().await {
        match joined {
            Ok((_, Ok(Handled::Yes | Handled::AtPatrol))) => {}
            Ok((_, Ok(Handled::Soon))) => retry = true,
            Ok((id, Err(error))) => {
                tracing::warn!(rig = %args.rig, id, %error, "a message could not be handled yet");
                retry = true;
            }
            Err(panic) => {
                tracing::error!(rig = %args.rig, %panic, "handling a message panicked");
                retry = true;
            }
        }
    }
    Ok(retry)
}

async fn handle(args: &WitnessArgs, message: Message) -> Result<Handled, Refusal> {
    let id = message.id;
    match message.body {
        Body::PolecatDone(done) => validate::polecat_done(args, id, done).await,
        Body::Merged(body) => merged::merged(args, id, body).await,
        Body::MergeFailed(failed) => rework::merge_failed(args, id, failed).await,
        Body::MergeReady(_)
        | Body::Help(_)
        | Body::RecoveryNeeded(_)
        | Body::Escalation(_)
        | Body::Handoff(_) => {
            tracing::warn!(id, "a witness got a message that is not for witnesses");
            args.world.store.run(move |txn| txn.handled(id)).await?;
            Ok(Handled::Yes)
        }
    }
}

/// Class 3, stuck in done: its push goes nowhere without the remote being to blame, and its
/// session still runs (`witness-patrol.md`). The session is ended; the saga goes on.
async fn overdue(args: &WitnessArgs, saga: &Saga) {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return;
    };
    let Ok(raider) = saga.subject.parse::<RaiderId>() else {
        return;
    };
    let age = Duration::try_from(world.clock.now() - saga.progress_at).unwrap_or_default();
    let late = saga.kind == SagaKind::Done && age > rig.witness.done_intent_timeout;
    if !late || done::blocked(saga).is_some() {
        return;
    }
    let facts = effects::facts(world, &raider.session_id()).await;
    if !facts.is_ok_and(|facts| facts.is_some_and(|facts| facts.state == RunState::Running)) {
        return;
    }
    let data = serde_json::json!({ "class": "stuck_in_done", "age_s": age.as_secs() });
    let event = NewEvent::new(EventType::RaiderZombie, &raider, Cause::DoneTimeout);
    world.store.note(vec![event.with(data)]);
    let session = raider.session_id();
    let ended = ask::end(world, ChildId::Raider(raider), session, Cause::DoneTimeout).await;
    if let Err(error) = ended {
        tracing::warn!(rig = %args.rig, %error, "a session stuck in done could not be ended");
    }
}

/// Removes the sandboxes of raiders whose work the queue has, or that left nothing to land. True
/// when something should be tried again soon.
async fn release_finished(
    args: &WitnessArgs,
    hooks: Vec<Hook>,
    sagas: &[Saga],
) -> Result<bool, Refusal> {
    let mut retry = false;
    for hook in hooks.into_iter().filter(|hook| hook.done.is_some()) {
        let subject = hook.raider.to_string();
        if sagas.iter().any(|saga| saga.subject == subject) || !is_released(args, &hook).await? {
            continue;
        }
        match nuke_now(args, nuke_target(&hook, Cause::DoneCleanPushed), false).await {
            Ok(_) => {}
            // Somebody is at it, and tells the witness when it is over.
            Err(busy) if busy.kind == RefusalKind::Conflict => {}
            Err(refused) if refused.kind == RefusalKind::WorkAtRisk => {
                let evidence = refused.losses.join("\n");
                escalate(
                    args,
                    &hook,
                    "a finished sandbox holds unsaved work",
                    evidence,
                )
                .await?;
            }
            Err(error) => {
                tracing::warn!(raider = subject, %error, "a finished sandbox was kept");
                retry |= error.is_passing();
            }
        }
    }
    Ok(retry)
}

/// Class 4, relic closed elsewhere (`witness-patrol.md`; `4-rules.md`, done): the session is ended,
/// then the safety protocol decides. True when something should be tried again soon.
async fn release_closed(
    args: &WitnessArgs,
    hooks: &[Hook],
    sagas: &[Saga],
) -> Result<bool, Refusal> {
    let mut retry = false;
    for hook in hooks.iter().filter(|hook| hook.done.is_none()) {
        let (subject, id) = (hook.raider.to_string(), hook.relic.clone());
        let relic = args.world.store.run(move |txn| txn.relic(&id)).await?;
        let busy = sagas.iter().any(|saga| saga.subject == subject);
        if relic.status != RelicStatus::Closed || busy {
            continue;
        }
        let Some(_claim) = args.world.claims.claim(format!("release/{subject}")) else {
            continue;
        };
        let (child, session) = (
            ChildId::Raider(hook.raider.clone()),
            hook.raider.session_id(),
        );
        if let Err(error) = ask::end(&args.world, child, session, Cause::RelicClosed).await {
            // One that cannot be ended holds up no other.
            tracing::warn!(raider = subject, %error, "a raider without work runs on");
            continue;
        }
        let data = serde_json::json!({ "class": "bead_closed", "relic": hook.relic });
        match nuke_now(args, nuke_target(hook, Cause::RelicClosed), false).await {
            Ok(_) => {
                let event =
                    NewEvent::new(EventType::RaiderZombie, &hook.raider, Cause::RelicClosed);
                args.world.store.note(vec![event.with(data)]);
            }
            Err(refused) if refused.kind == RefusalKind::WorkAtRisk => {
                let evidence = refused.losses.join("\n");
                let problem = "its relic was closed elsewhere, and its sandbox holds work";
                escalate(args, hook, problem, evidence).await?;
            }
            Err(error) => {
                tracing::warn!(raider = subject, %error, "a raider without work was kept");
                retry |= error.is_passing();
            }
        }
    }
    Ok(retry)
}

/// Whether the witness let go of the raider: POLECAT_DONE is handled, and its merge request, if it
/// has one, waits for nobody who would want the sandbox.
async fn is_released(args: &WitnessArgs, hook: &Hook) -> Result<bool, Refusal> {
    let (to, hook) = (message::witness(&args.rig), hook.clone());
    let released = args.world.store.run(move |txn| {
        let pending = txn.inbox(&to)?.into_iter().any(|message| {
            matches!(message.body, Body::PolecatDone(done)
                if done.raider == hook.raider && done.incarnation == hook.incarnation)
        });
        let mr = txn.mr_of(&hook.relic, &hook.raider, hook.incarnation)?;
        let waits = mr.is_some_and(|mr| mr.state == MrState::Reviewing);
        // MERGE_READY may be on its way: the forge pins the head before it takes it.
        Ok(!pending && !waits)
    });
    Ok(released.await?)
}

/// Sends an escalation about a raider to the shaman, who keeps one per subject and problem. Every
/// patrol may see the same problem: it is told once, until a person has settled it.
pub async fn escalate(
    args: &WitnessArgs,
    hook: &Hook,
    problem: &str,
    evidence: String,
) -> Result<(), Refusal> {
    let body = Escalation {
        agent: hook.raider.to_string(),
        relic: Some(hook.relic.clone()),
        problem: problem.to_owned(),
        severity: Severity::High,
        evidence,
    };
    raise(args, body).await
}

/// Sends an escalation, unless the shaman has it: every look sees the same trouble again.
pub async fn raise(args: &WitnessArgs, body: Escalation) -> Result<(), Refusal> {
    let from = message::witness(&args.rig);
    let sent = args
        .world
        .store
        .run(move |txn| shaman::report(txn, &from, &body));
    sent.await?;
    args.world.nudge(message::SHAMAN);
    Ok(())
}

/// Charges what waits for a slot: reworks always, ready relics when the rig says so. Slots are held
/// one after another, so that priority and age decide who gets them; the rest of each charge runs by
/// itself. True when something should be tried again soon.
async fn charge_waiting(args: &WitnessArgs, me: &ActorRef<WitnessMsg>) -> Result<bool, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return Ok(false);
    };
    let filter = RelicFilter {
        kind: Some(RelicKind::Task),
        status: Some(RelicStatus::Open),
        prefix: Some(rig.prefix.clone()),
        label: None,
    };
    let all = rig.raiders.auto_charge;
    let waiting = world.store.run(move |txn| ready(txn, &filter, all)).await?;
    if waiting.is_empty() {
        return Ok(false);
    }
    // A full rig is not worth a fetch per relic; a freed slot makes the witness look again.
    let mut free = charge::free_slots(world, rig).await?;
    for relic in waiting {
        if free == 0 {
            break;
        }
        let rework = relic.labels.iter().any(|label| label == REWORK);
        let request = ChargeRequest {
            relic: relic.id,
            harness: None,
            name: None,
            target: None,
            cause: if rework {
                Cause::MergeFailed
            } else {
                Cause::Config
            },
        };
        match charge::begin(world, rig, request).await {
            Ok((saga, claim)) => {
                free -= 1;
                carry_out(args, me, saga, claim);
            }
            // Somebody was faster, at this relic or at the slot.
            Err(refused) if refused.kind == RefusalKind::Conflict => {}
            Err(error) => {
                tracing::warn!(rig = %args.rig, %error, "waiting work could not be charged");
                // What will pass is the remote or the store: the other relics need it as well.
                return Ok(error.is_passing());
            }
        }
    }
    Ok(false)
}

/// Runs a charge that has its slot. One that failed is tried again when something has changed, not
/// at once: what was unwound would only fail again.
fn carry_out(args: &WitnessArgs, me: &ActorRef<WitnessMsg>, saga: Saga, claim: Claim) {
    let (args, me) = (args.clone(), me.clone());
    tokio::spawn(async move {
        let charged = charge::run(&args.world, saga).await;
        drop(claim);
        if let Err(error) = charged {
            tracing::warn!(rig = %args.rig, %error, "waiting work could not be charged");
            if error.is_passing() {
                // A successor looks for itself.
                let _restarted = me.cast(WitnessMsg::SagaEnded { retry: true });
            }
        }
    });
}

/// Open relics that may be charged without anybody's asking, the most urgent first.
fn ready(txn: &mut dyn Txn, filter: &RelicFilter, all: bool) -> Result<Vec<Relic>, StoreError> {
    let mut ready = Vec::new();
    for relic in txn.relics(filter)? {
        let rework = relic.labels.iter().any(|label| label == REWORK);
        let mut unmet = false;
        for dep in &relic.deps {
            unmet |= txn.relic(dep)?.status != RelicStatus::Closed;
        }
        if (all || rework) && !unmet {
            ready.push(relic);
        }
    }
    Ok(ready)
}

/// What a nuke of this raider would be about.
#[must_use]
pub fn nuke_target(hook: &Hook, cause: Cause) -> nuke::Target {
    nuke::Target {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        target: hook.target.clone(),
        cause,
        relic: Some(hook.relic.clone()),
    }
}
