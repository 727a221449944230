//! The record of handoffs; the brake on rapid ones is `domain/handoff.rs`.

use super::Root;
use super::child_record::ChildRecord;
use crate::actors::records::escalations;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data::NextSession;
use crate::domain::handoff::Pace;
use crate::domain::ids::{ChildId, RelicId};
use crate::domain::message::{self, Body, Escalation, Severity};
use crate::domain::problem::ProblemKind;
use crate::ports::relics::{StoreError, Txn};

/// The particulars of an escalation about a row of rapid handoffs.
struct Row {
    count: u32,
    within: std::time::Duration,
    until: jiff::Timestamp,
}

impl Root {
    /// Journals a handoff, and calls a person about a row of rapid ones or closes that call.
    pub(super) fn record_handoff(&self, id: &ChildId, pace: Pace, at: jiff::Timestamp) {
        match pace {
            Pace::Free { over } => {
                self.journal(NewEvent::new(EventType::AgentRestarted, id, Cause::Handoff));
                if over {
                    self.settle_handoffs(id);
                }
            }
            Pace::Braked {
                wait,
                count,
                within,
                call,
            } => {
                let until = at.checked_add(wait).unwrap_or(jiff::Timestamp::MAX);
                let data = serde_json::json!({
                    "handoffs": count, "within_s": within.as_secs(), "wait_s": wait.as_secs(),
                });
                let event = NewEvent::new(EventType::AgentRestarted, id, Cause::HandoffLoop);
                self.journal(event.with(data).and(&NextSession { until }));
                if call {
                    let row = Row {
                        count,
                        within,
                        until,
                    };
                    self.call_about_handoffs(id, row);
                }
            }
        }
    }

    fn call_about_handoffs(&self, id: &ChildId, row: Row) {
        let relic = self.children.get(id).and_then(ChildRecord::relic);
        let child = id.clone();
        let call = move |txn: &mut dyn Txn| call(txn, &child, relic.clone(), &row);
        let called = self.world.store.begin(call);
        let (world, id) = (std::sync::Arc::clone(&self.world), id.clone());
        tokio::spawn(async move {
            match called.await {
                Ok(()) => world.nudge(message::SHAMAN),
                Err(error) => {
                    tracing::warn!(
                        child = %id,
                        %error,
                        "the escalation about rapid handoffs could not be stored; no person is \
                        called"
                    );
                }
            }
        });
    }

    fn settle_handoffs(&self, id: &ChildId) {
        let child = id.to_string();
        let settled = (self.world.store).begin(move |txn| {
            escalations::close_matching(txn, &[ProblemKind::HandoffLoop], |who, _| who == child)
        });
        let id = id.clone();
        tokio::spawn(async move {
            if let Err(error) = settled.await {
                tracing::warn!(
                    child = %id,
                    %error,
                    "the escalation about rapid handoffs could not be closed; it stays open"
                );
            }
        });
    }
}

fn call(
    txn: &mut dyn Txn,
    id: &ChildId,
    relic: Option<RelicId>,
    row: &Row,
) -> Result<(), StoreError> {
    let child = &id.to_string();
    let address = match id {
        ChildId::Agent(agent) => message::agent(agent),
        ChildId::Raider(_) => child.clone(),
    };
    let notes = txn.inbox(&address)?.into_iter().rev();
    let mut notes = notes.filter_map(|message| match message.body {
        Body::Handoff(note) => note.note,
        _ => None,
    });
    let note = notes.next().unwrap_or_else(|| "(no note)".to_owned());
    let within = humantime::format_duration(std::time::Duration::from_secs(row.within.as_secs()));
    let Row { count, until, .. } = row;
    let evidence = format!(
        "{count} handoffs in a row within {within}, without a commit, a step or a change of its relic.\n\
         Its next session starts at {until:.0}; each further one waits longer, up to ten minutes.\n\
         `hd logs {child}` shows the output of its sessions, `hd agent stop {child}` ends them, \
         `hd agent start {child}` starts the next one now.\n\
         Its last note: {note}"
    );
    let body = Escalation {
        agent: child.clone(),
        relic,
        problem: ProblemKind::HandoffLoop.into(),
        severity: Severity::High,
        evidence,
    };
    escalations::send(txn, "root", Body::Escalation(body))
}
