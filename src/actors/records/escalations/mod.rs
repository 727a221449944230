//! Escalations as relics: the problems that people were called for, and their resolution (`witness-patrol.md`,
//! escalate).

mod closing;

use crate::actors::records::key_values;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use serde_json::json;

use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::drum;
use crate::domain::escalation::{self, EscalationState, Open, Repeat};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data::Raised;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::Problem;
use crate::domain::relic::{Hook, Relic, RelicKind, RelicStatus};
use crate::domain::shown;
use crate::ports::relics::{NewRelic, RelicFilter, StoreError, Txn};

pub use self::closing::{
    about, close, close_matching, close_where, landed, standing, still_so, vanished,
};

/// Prefix of the ids of escalations.
const PREFIX: &str = "esc";

/// An escalation with its stored state.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The relic, as listed and shown.
    pub relic: Relic,
    /// The stored state.
    pub standing: EscalationState,
}

impl Entry {
    /// Reads the stored state of an escalation.
    ///
    /// # Errors
    /// The store's.
    pub fn read(txn: &mut dyn Txn, relic: Relic) -> Result<Self, StoreError> {
        let known = key_values::read(txn, &key(&relic.id))?;
        // Raised by an older version: no state was stored.
        let standing = known.unwrap_or_else(|| EscalationState::raised(relic.created));
        Ok(Self { relic, standing })
    }

    pub(in crate::actors) fn write(&self, txn: &mut dyn Txn) -> Result<(), StoreError> {
        txn.put_relic(&self.relic)?;
        key_values::write(txn, &key(&self.relic.id), &self.standing)
    }

    /// Returns the problem, from its labels.
    #[must_use]
    pub fn problem(&self) -> Problem {
        Problem::stored(&self.relic.labels, &self.relic.title)
    }

    /// Returns the subject, from its label, and its work if any.
    #[must_use]
    pub fn about(&self) -> (&str, Option<RelicId>) {
        let mut labels = self.relic.labels.iter();
        let about = labels.find_map(|label| label.strip_prefix("about:"));
        let about = about.unwrap_or_default();
        let relic = |(who, relic): (_, &str)| Some((who, RelicId::new(relic).ok()?));
        match about.rsplit_once(':').and_then(relic) {
            Some((who, relic)) => (who, Some(relic)),
            None => (about, None),
        }
    }

    /// Returns subject and text of a drum about the escalation.
    #[must_use]
    pub fn letter(&self) -> (String, String) {
        let relic = &self.relic;
        let severity = json!(escalation::severity(relic.priority));
        let severity = severity.as_str().unwrap_or_default();
        let subject = format!("escalation {} ({severity}): {}", relic.id, relic.title);
        let subject = shown::line(&subject)
            .chars()
            .take(drum::SUBJECT_MAX)
            .collect();
        let (agent, about) = self.about();
        let about = about.map_or_else(String::new, |about| format!(", at work on {about}"));
        let body = format!(
            "about: {agent}{about}\nseverity: {severity}\nin full: hd relic show {}\n\n{}\n\n{}",
            relic.id, relic.title, relic.body
        );
        let end = body.floor_char_boundary(drum::BODY_MAX);
        (subject, body[..end].to_owned())
    }

    /// Records the event that calls people, or calls them again.
    pub(in crate::actors) fn raised(
        &self,
        txn: &mut dyn Txn,
        cause: Cause,
    ) -> Result<(), StoreError> {
        let (agent, about) = self.about();
        let relic = &self.relic;
        let about = match about {
            Some(work) => Some(work),
            None => crate::actors::store::about::work_of(txn, agent)?,
        };
        let data = json!({
            "agent": agent, "relic": about, "problem": relic.title,
            "code": self.problem().kind(), "severity": escalation::severity(relic.priority), "evidence": relic.body,
            "again": self.standing.again,
        });
        let raised = Raised {
            id: relic.id.clone(),
        };
        let event = NewEvent::new(EventType::EscalationRaised, agent, cause);
        txn.record(&event.with(data).and(&raised)).map(|_| ())
    }

    /// Merges a repeated report into the open escalation.
    fn repeat(
        &mut self,
        txn: &mut dyn Txn,
        body: &Escalation,
        cause: Cause,
    ) -> Result<(), StoreError> {
        let (open, repeat) = self.after(txn, body);
        if repeat == Repeat::Known {
            return Ok(());
        }
        self.relic.priority = open.severity as i64;
        self.relic.body = open.evidence;
        self.standing = open.standing;
        self.write(txn)?;
        if repeat == Repeat::Louder {
            return self.raised(txn, cause);
        }
        let data = json!({ "problem": body.problem.text(), "evidence": body.evidence });
        let event = NewEvent::new(EventType::RelicUpdated, &self.relic.id, cause);
        txn.record(&event.with(data)).map(|_| ())
    }

    fn after(&self, txn: &dyn Txn, body: &Escalation) -> (Open, Repeat) {
        let mut open = Open {
            severity: escalation::severity(self.relic.priority),
            problem: self.problem(),
            evidence: self.relic.body.clone(),
            standing: self.standing.clone(),
        };
        let repeat = open.repeat(body, txn.now());
        (open, repeat)
    }
}

fn key(id: &RelicId) -> String {
    format!("escalation:{id}")
}

/// Deletes the stored state of a closed escalation.
pub(in crate::actors) fn forget(txn: &mut dyn Txn, id: &RelicId) -> Result<(), StoreError> {
    txn.set(&key(id), None)
}

/// Returns all open escalations, the most urgent first.
///
/// # Errors
/// The store's.
pub fn open(txn: &mut dyn Txn) -> Result<Vec<Entry>, StoreError> {
    labelled(txn, None)
}

fn labelled(txn: &mut dyn Txn, label: Option<String>) -> Result<Vec<Entry>, StoreError> {
    let relics = txn.relics(&RelicFilter {
        kind: Some(RelicKind::Escalation),
        status: Some(RelicStatus::Open),
        prefix: None,
        label,
        limit: None,
    })?;
    relics
        .into_iter()
        .map(|relic| Entry::read(txn, relic))
        .collect()
}

/// Returns the open escalation that this report would repeat.
///
/// # Errors
/// The store's.
pub fn find(txn: &mut dyn Txn, body: &Escalation) -> Result<Option<Entry>, StoreError> {
    let mut body = body.clone();
    complete(txn, &mut body)?;
    let mut open = labelled(txn, Some(escalation::subject(&body)))?;
    let is = |entry: &Entry| entry.problem().is_same(&body.problem);
    Ok(match open.iter().position(is) {
        Some(place) => Some(open.swap_remove(place)),
        None if open.len() < escalation::OPEN_MAX => None,
        None => open.into_iter().max_by_key(|entry| entry.relic.created),
    })
}

/// Adds the present work of a raider to a report about it: the outcome of the work settles the escalation.
fn complete(txn: &mut dyn Txn, body: &mut Escalation) -> Result<Option<Hook>, StoreError> {
    let Ok(raider) = body.agent.parse::<RaiderId>() else {
        return Ok(None);
    };
    let hook = txn.hook(&raider)?;
    if body.relic.is_none() {
        body.relic = hook.as_ref().map(|hook| hook.relic.clone());
    }
    Ok(hook.filter(|hook| Some(&hook.relic) == body.relic.as_ref()))
}

/// Sends a message to the shaman, unless it adds nothing: every look sees the same problem again, and reports are
/// repeated until they are answered.
///
/// # Errors
/// The store's.
pub fn send(txn: &mut dyn Txn, from: &str, mut body: Body) -> Result<(), StoreError> {
    if let Some(call) = called_mut(&mut body) {
        call.evidence = escalation::bounded(&call.evidence);
    }
    let Some(said) = called(&body) else {
        return Ok(());
    };
    let waits = txn.inbox(message::SHAMAN)?.into_iter().any(|message| {
        called(&message.body).is_some_and(|told| {
            let worse = said.severity > told.severity;
            told.agent == said.agent
                && told.relic == said.relic
                && !worse
                && told.problem.is_same(&said.problem)
                && escalation::gist(&told.evidence) == escalation::gist(&said.evidence)
        })
    });
    let known = match find(txn, said)? {
        Some(entry) => entry.after(txn, said).1 == Repeat::Known,
        None => false,
    };
    if !waits && !known {
        txn.send(from, message::SHAMAN, body)?;
    }
    Ok(())
}

/// Returns the escalation in a message, if there is any.
pub(in crate::actors) fn called(body: &Body) -> Option<&Escalation> {
    match body {
        Body::Help(call) | Body::RecoveryNeeded(call) | Body::Escalation(call) => Some(call),
        Body::RaiderDone(_)
        | Body::MergeReady(_)
        | Body::Merged(_)
        | Body::MergeFailed(_)
        | Body::Handoff(_) => None,
    }
}

fn called_mut(body: &mut Body) -> Option<&mut Escalation> {
    match body {
        Body::Help(call) | Body::RecoveryNeeded(call) | Body::Escalation(call) => Some(call),
        Body::RaiderDone(_)
        | Body::MergeReady(_)
        | Body::Merged(_)
        | Body::MergeFailed(_)
        | Body::Handoff(_) => None,
    }
}

/// Handles every message in the inbox.
///
/// # Errors
/// The store's.
pub fn read_inbox(txn: &mut dyn Txn) -> Result<(), StoreError> {
    for message in txn.inbox(message::SHAMAN)? {
        // All in this one transaction: two looks cannot handle the same message.
        txn.handled(message.id)?;
        if called(&message.body).is_some() {
            raise(txn, &message.body)?;
        } else {
            let id = message.id;
            tracing::warn!(
                id,
                "the shaman received a message of a kind that it does not handle; it is marked \
                as handled"
            );
        }
    }
    Ok(())
}

/// Raises or repeats the open escalation for this subject, work and cause.
fn raise(txn: &mut dyn Txn, message: &Body) -> Result<(), StoreError> {
    let Some(mut body) = called(message).cloned() else {
        return Ok(());
    };
    body.evidence = escalation::bounded(&body.evidence);
    let cause = message.cause();
    if let Some(mut entry) = find(txn, &body)? {
        return entry.repeat(txn, &body, cause);
    }
    let hook = complete(txn, &mut body)?;
    let mut standing = EscalationState::raised(txn.now());
    if let (Body::RecoveryNeeded(_), Some(hook)) = (message, &hook) {
        standing.sandbox = Some(hook.incarnation);
    }
    standing.relic = match &body.relic {
        Some(relic) => closing::status(txn, relic)?,
        None => None,
    };
    let relic = txn.create_relic(&NewRelic {
        prefix: PREFIX.to_owned(),
        kind: RelicKind::Escalation,
        title: body.problem.text().to_owned(),
        body: body.evidence.clone(),
        priority: body.severity as i64,
        labels: [Some(escalation::subject(&body)), body.problem.label()]
            .into_iter()
            .flatten()
            .collect(),
        parent: None,
        deps: Vec::new(),
        by: None,
    })?;
    key_values::write(txn, &key(&relic.id), &standing)?;
    Entry { relic, standing }.raised(txn, cause)
}

/// Acknowledges an escalation: it stays open, and is not raised again.
///
/// # Errors
/// [`StoreError::NotFound`] and [`StoreError::Conflict`] when it is no open escalation.
pub fn acknowledge(txn: &mut dyn Txn, id: &RelicId, asker: &Asker) -> Result<Entry, StoreError> {
    let relic = txn.relic(id)?;
    if relic.kind != RelicKind::Escalation {
        return Err(StoreError::Conflict(format!("{id} is not an escalation")));
    }
    if relic.status == RelicStatus::Closed {
        return Err(StoreError::Conflict(format!("{id} is closed already")));
    }
    let mut entry = Entry::read(txn, relic)?;
    if !entry.standing.acked {
        entry.standing.acked = true;
        key_values::write(txn, &key(id), &entry.standing)?;
        let code = entry.problem().kind();
        let data = json!({ "problem": entry.relic.title, "code": code, "closed": false });
        let event = NewEvent::new(EventType::EscalationAcked, id, asker);
        txn.record(&event.with(data))?;
    }
    Ok(entry)
}

/// The end of a problem that a person is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// It is over when the subject's sandbox is gone (RECOVERY_NEEDED).
    WithSandbox,
    /// It is over when the work is, whatever becomes of a sandbox (ESCALATION).
    WithWork,
}

/// Calls a person by a message to the shaman. Not sent when the shaman knows the problem already.
///
/// # Errors
/// The store's.
pub async fn call(world: &World, from: &str, ends: Ends, body: Escalation) -> Result<(), Refusal> {
    let body = match ends {
        Ends::WithSandbox => Body::RecoveryNeeded(body),
        Ends::WithWork => Body::Escalation(body),
    };
    send_to_shaman(world, from, body).await
}

async fn send_to_shaman(world: &World, from: &str, body: Body) -> Result<(), Refusal> {
    let from = from.to_owned();
    let sent = world.store.run(move |txn| send(txn, &from, body.clone()));
    sent.await?;
    world.nudge(message::SHAMAN);
    Ok(())
}

/// Does the same as [`call`] with [`Ends::WithSandbox`], within a transaction.
///
/// # Errors
/// The store's.
pub fn report(txn: &mut dyn Txn, from: &str, body: &Escalation) -> Result<(), StoreError> {
    send(txn, from, Body::RecoveryNeeded(body.clone()))
}
