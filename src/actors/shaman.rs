//! The shaman: receives escalations, keeps one open per subject and problem
//! (`witness-patrol.md`, escalate).

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::refusal::Refusal;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RelicId;
use crate::domain::message::{self, Body, Escalation};
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{NewRelic, RelicFilter, StoreError, Txn};

/// Prefix of the ids of escalations.
const PREFIX: &str = "esc";

/// Messages to the shaman.
#[derive(Debug)]
pub enum ShamanMsg {
    /// Look into the inbox.
    Look,
}

/// The actor. It has no state: its inbox is rows.
pub struct ShamanActor;

impl Actor for ShamanActor {
    type Msg = ShamanMsg;
    type State = Arc<World>;
    type Arguments = Arc<World>;

    async fn pre_start(
        &self,
        me: ActorRef<ShamanMsg>,
        world: Arc<World>,
    ) -> Result<Arc<World>, ActorProcessingErr> {
        world.directory.set_shaman(me.clone());
        me.cast(ShamanMsg::Look)?;
        Ok(world)
    }

    async fn handle(
        &self,
        _me: ActorRef<ShamanMsg>,
        msg: ShamanMsg,
        world: &mut Arc<World>,
    ) -> Result<(), ActorProcessingErr> {
        *world = world.newest();
        match msg {
            ShamanMsg::Look => {
                let world = Arc::clone(world);
                tokio::spawn(async move {
                    if let Err(error) = read_inbox(&world).await {
                        tracing::warn!(%error, "the shaman could not read its inbox");
                    }
                });
            }
        }
        Ok(())
    }
}

async fn read_inbox(world: &World) -> Result<(), Refusal> {
    let raised = world.store.run(|txn| {
        for message in txn.inbox(message::SHAMAN)? {
            // Everything is settled in this one transaction: two looks cannot both see it.
            txn.handled(message.id)?;
            match message.body {
                Body::Help(body) | Body::RecoveryNeeded(body) | Body::Escalation(body) => {
                    raise(txn, &body)?;
                }
                Body::PolecatDone(_)
                | Body::MergeReady(_)
                | Body::Merged(_)
                | Body::MergeFailed(_)
                | Body::Handoff(_) => {
                    tracing::warn!(
                        id = message.id,
                        "the shaman got a message that is not for it"
                    );
                }
            }
        }
        Ok(())
    });
    Ok(raised.await?)
}

/// Sends an escalation to the shaman, unless it was told of it or keeps an open one about it: every
/// look sees the same trouble again.
///
/// # Errors
/// The store's.
pub async fn call(world: &World, from: &str, body: Escalation) -> Result<(), Refusal> {
    let from = from.to_owned();
    let sent = world.store.run(move |txn| report(txn, &from, &body));
    sent.await?;
    world.nudge(message::SHAMAN);
    Ok(())
}

/// As [`call`], within a transaction.
///
/// # Errors
/// The store's.
pub fn report(txn: &mut dyn Txn, from: &str, body: &Escalation) -> Result<(), StoreError> {
    let told = txn.inbox(message::SHAMAN)?.into_iter().any(|message| {
        matches!(message.body, Body::RecoveryNeeded(told)
            if told.agent == body.agent && told.problem == body.problem && told.relic == body.relic)
    });
    if !told && !is_raised(txn, body)? {
        txn.send(from, message::SHAMAN, Body::RecoveryNeeded(body.clone()))?;
    }
    Ok(())
}

/// Whether a person has been called about this and has not said that it is settled.
fn is_raised(txn: &mut dyn Txn, body: &Escalation) -> Result<bool, StoreError> {
    let open = txn.relics(&RelicFilter {
        kind: Some(RelicKind::Escalation),
        status: Some(RelicStatus::Open),
        prefix: None,
        label: Some(label(body)),
    })?;
    Ok(open.iter().any(|relic| relic.title == body.problem))
}

/// The open escalations about these relics or merge requests.
///
/// # Errors
/// The store's.
pub fn about(txn: &mut dyn Txn, ids: &[&RelicId]) -> Result<Vec<Relic>, StoreError> {
    let mut open = txn.relics(&RelicFilter {
        kind: Some(RelicKind::Escalation),
        status: Some(RelicStatus::Open),
        ..RelicFilter::default()
    })?;
    open.retain(|escalation| {
        let named = |label: &String| {
            let rest = label
                .strip_prefix("about:")
                .and_then(|l| l.rsplit_once(':'));
            rest.is_some_and(|(_, relic)| ids.iter().any(|id| id.as_str() == relic))
        };
        escalation.labels.iter().any(named)
    });
    Ok(open)
}

/// Closes escalations that what happened has settled.
///
/// # Errors
/// The store's.
pub fn settle(txn: &mut dyn Txn, settled: Vec<Relic>, cause: Cause) -> Result<(), StoreError> {
    for mut escalation in settled {
        escalation.status = RelicStatus::Closed;
        escalation.closed = Some(txn.now());
        txn.put_relic(&escalation)?;
        let data = serde_json::json!({ "problem": escalation.title });
        let event = NewEvent::new(EventType::EscalationAcked, &escalation.id, cause);
        txn.record(&event.with(data))?;
    }
    Ok(())
}

/// Slots are given out again: the same name with other work is another matter.
fn label(body: &Escalation) -> String {
    match &body.relic {
        Some(relic) => format!("about:{}:{relic}", body.agent),
        None => format!("about:{}", body.agent),
    }
}

/// One open escalation per subject, work and problem.
fn raise(txn: &mut dyn Txn, body: &Escalation) -> Result<(), StoreError> {
    if is_raised(txn, body)? {
        return Ok(());
    }
    let relic = txn.create_relic(&NewRelic {
        prefix: PREFIX.to_owned(),
        kind: RelicKind::Escalation,
        title: body.problem.clone(),
        body: body.evidence.clone(),
        priority: body.severity as i64,
        labels: vec![label(body)],
        parent: None,
        deps: Vec::new(),
    })?;
    let data = serde_json::json!({
        "id": relic.id, "agent": body.agent, "relic": body.relic, "problem": body.problem,
        "severity": body.severity, "evidence": body.evidence,
    });
    let event = NewEvent::new(EventType::EscalationRaised, &body.agent, Cause::WorkAtRisk);
    txn.record(&event.with(data)).map(|_| ())
}
