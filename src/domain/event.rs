//! Events: the journal's entries. An event per transition, each with its cause (`contract.md`, 2.6).

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::asker::{Asker, AskerData};
use super::cause::Cause;
use super::event_data::EventData;
use super::ids::RelicId;

words! {
    /// The type of an event, `subject.happening`.
    #[expect(missing_docs, reason = "the text beside each is its documentation")]
    EventType {
        ControllerStarted => "controller.started",
        ControllerReady => "controller.ready",
        ControllerStopped => "controller.stopped",
        ConfigReloaded => "config.reloaded",
        ConfigRejected => "config.rejected",
        AgentStarted => "agent.started",
        AgentStopped => "agent.stopped",
        AgentCrashed => "agent.crashed",
        AgentQuarantined => "agent.quarantined",
        AgentUnquarantined => "agent.unquarantined",
        AgentRestarted => "agent.restarted",
        AgentAdopted => "agent.adopted",
        AgentOrphanStopped => "agent.orphan_stopped",
        AgentUnkillable => "agent.unkillable",
        AgentIdleKilled => "agent.idle_killed",
        AgentDrifted => "agent.drifted",
        AgentSuspended => "agent.suspended",
        AgentResumed => "agent.resumed",
        AgentDrained => "agent.drained",
        RaiderCharged => "raider.charged",
        RaiderWorking => "raider.working",
        RaiderHandoff => "raider.handoff",
        RaiderDone => "raider.done",
        RaiderDoneRefused => "raider.done_refused",
        RaiderDoneWithdrawn => "raider.done_withdrawn",
        RaiderZombie => "raider.zombie",
        RaiderRespawned => "raider.respawned",
        RaiderSalvaged => "raider.salvaged",
        RaiderNuked => "raider.nuked",
        RaiderMerged => "raider.merged",
        RaiderMergeFailed => "raider.merge_failed",
        RaiderStalled => "raider.stalled",
        RaiderWaiting => "raider.waiting",
        RaiderHomeless => "raider.homeless",
        RaiderNeedsInput => "raider.needs_input",
        RaiderRateLimited => "raider.rate_limited",
        RaiderAuth => "raider.auth",
        RaiderUnclear => "raider.unclear",
        RaiderResumed => "raider.resumed",
        RaiderAnswered => "raider.answered",
        RaiderNudged => "raider.nudged",
        RaiderRepaired => "raider.repaired",
        RaiderReviewed => "raider.reviewed",
        RaiderStuck => "raider.stuck",
        RaiderTaskReplaced => "raider.task_replaced",
        RaiderPushBlocked => "raider.push_blocked",
        MrQueued => "mr.queued",
        MrTesting => "mr.testing",
        MrMerging => "mr.merging",
        MrHeld => "mr.held",
        MrApproved => "mr.approved",
        MrRejected => "mr.rejected",
        MrConflict => "mr.conflict",
        MrPrOpened => "mr.pr_opened",
        MrMergedElsewhere => "mr.merged_elsewhere",
        ControlForbidden => "control.forbidden",
        SalvagePruned => "salvage.pruned",
        BranchDropped => "branch.dropped",
        WispCreated => "wisp.created",
        WispCollected => "wisp.collected",
        AccountParked => "account.parked",
        AccountResumed => "account.resumed",
        BudgetUnpriced => "budget.unpriced",
        RigSuspended => "rig.suspended",
        RigResumed => "rig.resumed",
        RigDefaultBranch => "rig.default_branch",
        ChargePaused => "charge.paused",
        ChargeResumed => "charge.resumed",
        ForgePaused => "forge.paused",
        ForgeRed => "forge.red",
        StoreDegraded => "store.degraded",
        GroundLost => "ground.lost",
        GroundMended => "ground.mended",
        AutomationFired => "automation.fired",
        AutomationCompleted => "automation.completed",
        AutomationFailed => "automation.failed",
        AutomationSkipped => "automation.skipped",
        AutomationEnabled => "automation.enabled",
        AutomationDisabled => "automation.disabled",
        EscalationRaised => "escalation.raised",
        EscalationAcked => "escalation.acked",
        NotifyFailed => "notify.failed",
        NotifySkipped => "notify.skipped",
        MessageSent => "message.sent",
        DrumsSent => "drums.sent",
        DrumsDelivered => "drums.delivered",
        DrumsRead => "drums.read",
        DrumsAcked => "drums.acked",
        RelicCreated => "relic.created",
        RelicUpdated => "relic.updated",
        RelicClosed => "relic.closed",
        TotemStarted => "totem.started",
        TotemStepDone => "totem.step_done",
        CvImported => "cv.imported",
        CvForgotten => "cv.forgotten",
        CleanupStatusMismatch => "cleanup_status.mismatch",
    }
}

/// The data field that names the caller of the control socket.
const BY: &str = "by";
/// The data field that has the kind and the name of the caller ([`AskerData`](super::asker::AskerData)).
const ASKER: &str = "asker";
/// The data field that names the relic that an event is about, where that is not its subject.
const RELIC: &str = "relic";

/// The origin of an event: a cause, and the caller's name, if a caller asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    cause: Cause,
    by: Option<String>,
}

impl Origin {
    /// Makes an origin of a cause and the name of the caller that asked, if there is one.
    #[must_use]
    pub fn new(cause: Cause, by: Option<String>) -> Self {
        Self { cause, by }
    }

    /// Returns the cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the caller's name, if a caller asked.
    #[must_use]
    pub fn by(&self) -> Option<&String> {
        self.by.as_ref()
    }
}

impl From<Cause> for Origin {
    fn from(cause: Cause) -> Self {
        Self { cause, by: None }
    }
}

impl From<&Asker> for Origin {
    fn from(asker: &Asker) -> Self {
        Self {
            cause: asker.cause,
            by: Some(asker.name.clone()),
        }
    }
}

/// An event before the journal numbered it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Its type.
    pub kind: EventType,
    /// The subject: a raider's full id, an agent, a relic, a rig or the city.
    pub subject: String,
    /// The cause.
    pub cause: Cause,
    /// Details.
    pub data: Value,
}

impl NewEvent {
    /// Makes an event without details, apart from the caller that asked for it, if there is one.
    #[must_use]
    pub fn new(kind: EventType, subject: impl fmt::Display, origin: impl Into<Origin>) -> Self {
        let Origin { cause, by } = origin.into();
        let mut data = Map::new();
        if let Some(name) = by {
            let asker = Asker { cause, name };
            data.insert(ASKER.to_owned(), json!(asker.data()));
            data.insert(BY.to_owned(), Value::String(asker.name));
        }
        Self {
            kind,
            subject: subject.to_string(),
            cause,
            data: Value::Object(data),
        }
    }

    /// Returns the event as one that this caller asked for. Its cause is the kind of caller where it was an operator
    /// until now; other causes stay.
    #[must_use]
    pub fn asked_by(mut self, asker: &Asker) -> Self {
        if self.cause == Cause::Operator {
            self.cause = asker.cause;
        }
        if let Value::Object(data) = &mut self.data {
            data.insert(ASKER.to_owned(), json!(asker.data()));
            data.insert(BY.to_owned(), Value::String(asker.name.clone()));
        }
        self
    }

    /// Returns the event with these details; the caller stays.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        let asked = std::mem::replace(&mut self.data, data);
        if let (Value::Object(asked), Value::Object(data)) = (asked, &mut self.data) {
            let caller = asked
                .into_iter()
                .filter(|(key, _)| [BY, ASKER].contains(&key.as_str()));
            data.extend(caller);
        }
        self
    }

    /// Returns the event with these fields beside its other data.
    #[must_use]
    pub fn and<T: EventData>(mut self, fields: &T) -> Self {
        debug_assert!(
            T::KINDS.contains(&self.kind),
            "{} has other data",
            self.kind
        );
        if let (Value::Object(data), Value::Object(fields)) = (&mut self.data, json!(fields)) {
            data.extend(fields);
        }
        self
    }

    /// Returns true when it names the relic that it is about.
    #[must_use]
    pub fn names_relic(&self) -> bool {
        self.data.get(RELIC).is_some_and(|relic| !relic.is_null())
    }

    /// Adds the relic that it is about.
    pub fn set_relic(&mut self, relic: &RelicId) {
        self.data[RELIC] = json!(relic);
    }
}

/// A journalled event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Grows by one with each event.
    pub seq: u64,
    /// When it happened.
    pub ts: Timestamp,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The subject.
    pub subject: String,
    /// The cause.
    pub cause: String,
    /// Details.
    pub data: Value,
}

impl Event {
    /// Returns its type; none for a type of another version.
    #[must_use]
    pub fn known(&self) -> Option<EventType> {
        EventType::named(&self.kind)
    }

    /// Returns its cause; none for a cause of another version.
    #[must_use]
    pub fn cause_known(&self) -> Option<Cause> {
        Cause::named(&self.cause)
    }

    /// Returns fields of its data. None for an event of another type, and where the data of another version does not fit.
    #[must_use]
    pub fn read<T: EventData>(&self) -> Option<T> {
        let kind = self.known()?;
        T::KINDS
            .contains(&kind)
            .then(|| T::deserialize(&self.data).ok())?
    }

    /// Returns the relic that it is about, where it names one beside its subject.
    #[must_use]
    pub fn relic(&self) -> Option<&str> {
        self.data.get(RELIC)?.as_str()
    }

    /// Returns the caller that asked for it, if it names one.
    #[must_use]
    pub fn asker(&self) -> Option<AskerData> {
        AskerData::deserialize(self.data.get(ASKER)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{EventType, NewEvent};
    use crate::domain::asker::Asker;
    use crate::domain::cause::Cause;

    #[test]
    fn an_event_names_the_caller_that_brought_it_about() {
        let data = || serde_json::json!({ "title": "a" });
        let made = |asker: &Asker| {
            let event = NewEvent::new(EventType::RelicCreated, "gt-1", asker).with(data());
            (
                event.cause,
                event.data["by"].clone(),
                event.data["title"].clone(),
            )
        };
        let clerk = Asker::agent("clerk");
        assert_eq!(made(&clerk), (Cause::Agent, "clerk".into(), "a".into()));
        let person = made(&Asker::person());
        assert_eq!(person, (Cause::Operator, "operator".into(), "a".into()));
        let kind = |asker: &Asker| {
            let event = NewEvent::new(EventType::RelicCreated, "gt-1", asker).with(data());
            event.data["asker"].clone()
        };
        assert_eq!(
            [&clerk, &Asker::person(), &Asker::errand("automation/a")].map(kind),
            [
                json!({ "kind": "agent", "name": "clerk" }),
                json!({ "kind": "person", "name": "operator" }),
                json!({ "kind": "automation", "name": "automation/a" }),
            ]
        );
        let asked = |cause| {
            let event = NewEvent::new(EventType::AgentStopped, "clerk", cause).asked_by(&clerk);
            (event.cause, event.data["by"].clone())
        };
        assert_eq!(asked(Cause::Operator), (Cause::Agent, "clerk".into()));
        assert_eq!(asked(Cause::Repair), (Cause::Repair, "clerk".into()));
        let own = NewEvent::new(EventType::RelicCreated, "gt-1", Cause::Done).with(data());
        assert_eq!(own.data, data());
    }

    #[test]
    fn every_type_has_one_name() {
        let names: std::collections::BTreeSet<_> =
            EventType::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), EventType::ALL.len());
        for kind in EventType::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
