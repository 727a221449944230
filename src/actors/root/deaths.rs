//! The record of a death: its event, and the blocked relic of a raider that is quarantined.

use std::sync::Arc;

use super::Root;
use crate::actors::mail::Work;
use crate::actors::records::quarantine;
use crate::domain::cause::Cause;
use crate::domain::child::{ChildExit, Death};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, Generation};
use crate::domain::message;
use crate::domain::quarantine_report::QuarantineReport;

impl Root {
    /// Journals the end of a child, and its quarantine if one follows. An end that the restart type accepts as good is
    /// no crash.
    pub(super) fn record_death(&mut self, id: &ChildId, death: Death) {
        let Some(record) = self.children.get(id) else {
            return;
        };
        let mut data = describe(death.exit.as_ref(), record.generation);
        if let Some(tail) = death.tail {
            data["tail"] = tail.into();
        }
        if let Work::Raider { hook, .. } = &record.spec.work {
            data["relic"] = hook.relic.as_str().into();
            if death.how.as_ref().is_some_and(|exit| exit.code == Some(0)) {
                data["why"] = "ended without an accepted hd done or outcome".into();
            }
        }
        let event = |kind| NewEvent::new(kind, id, death.cause);
        let events = match (death.by_person, death.is_good, death.rests) {
            (true, _, false) => vec![event(EventType::AgentRestarted).with(data)],
            (true, _, true) | (false, true, _) => {
                vec![event(EventType::AgentStopped).with(data)]
            }
            (false, false, true) => vec![
                event(EventType::AgentCrashed).with(data),
                event(EventType::AgentStopped),
            ],
            (false, false, false) => vec![event(EventType::AgentCrashed).with(data)],
        };
        self.world.store.journal(events);
        if let Some(deaths) = death.quarantine {
            self.record_quarantine(id, deaths);
        }
    }

    /// Journals that a child is quarantined. A raider's relic is blocked until an operator acts or its work is done,
    /// and an escalation is opened; if the store refuses the write, the witness retries at its patrol.
    fn record_quarantine(&self, id: &ChildId, deaths: QuarantineReport) {
        let data = serde_json::json!({
            "until": deaths.until, "deaths": deaths.count, "within_s": deaths.within.map(|within| within.as_secs()),
            "last": deaths.died_of(),
        });
        let event = NewEvent::new(EventType::AgentQuarantined, id, Cause::TooManyDeaths);
        self.journal(event.with(data));
        let hook = match self.children.get(id).map(|record| &record.spec.work) {
            Some(Work::Raider { hook, .. }) => Arc::clone(hook),
            Some(Work::Agent(_)) | None => return,
        };
        // The write takes its place in the store's queue here, so that an operator's later action is written after it.
        let blocking = (self.world.store).begin(move |txn| quarantine::block(txn, &hook, &deaths));
        let (world, id) = (Arc::clone(&self.world), id.clone());
        tokio::spawn(async move {
            match blocking.await {
                Ok(()) => world.nudge(message::SHAMAN),
                Err(error) => {
                    tracing::warn!(
                        child = %id,
                        %error,
                        "the relic of a quarantined raider could not be blocked; the witness \
                        retries at its patrol"
                    );
                }
            }
        });
    }

    /// Journals that the sandbox of a child is missing.
    pub(super) fn record_no_sandbox(&self, id: &ChildId, why: String) {
        let hint = format!("`hd raider repair {id}` rebuilds it");
        let data = serde_json::json!({ "error": why, "hint": hint });
        let event = NewEvent::new(EventType::RaiderHomeless, id, Cause::StartFailed);
        self.journal(event.with(data));
    }
}

/// Returns the data of the event.
fn describe(exit: Option<&ChildExit>, generation: Generation) -> serde_json::Value {
    let generation = generation.0.saturating_sub(1);
    match (exit, exit.and_then(ChildExit::error)) {
        (_, Some(error)) => serde_json::json!({ "error": error }),
        (Some(ChildExit::Died { exit, tail, .. }), None) => serde_json::json!({
            "code": exit.as_ref().and_then(|exit| exit.code),
            "signal": exit.as_ref().and_then(|exit| exit.signal),
            "generation": generation, "tail": tail,
        }),
        (_, None) => serde_json::json!({ "generation": generation }),
    }
}
