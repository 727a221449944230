//! The data of events that programs read: `hd` decides exit codes by it, sagas and automations go on by it. The writer and
//! the readers of such a field share its struct here. Other fields of an event are for people and their scripts, and
//! have no type.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::event::EventType;
use super::ids::{Incarnation, RelicId};
use super::relic::{Completion, RelicStatus};

/// Fields of the data of some types of events.
pub trait EventData: Serialize + DeserializeOwned {
    /// The types of events that may have these fields.
    const KINDS: &'static [EventType];
}

/// A raider was charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Charged {
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The raider's incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
}

impl EventData for Charged {
    const KINDS: &'static [EventType] = &[EventType::RaiderCharged];
}

/// A relic after a charge of it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChargeFailed {
    /// Its status now.
    pub status: RelicStatus,
    /// The error, if one was told.
    pub error: Option<String>,
}

impl EventData for ChargeFailed {
    const KINDS: &'static [EventType] = &[EventType::RelicUpdated];
}

/// A relic after its work could not land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotLanded {
    /// Its status now: open for another raider, or blocked.
    pub status: RelicStatus,
}

impl EventData for NotLanded {
    const KINDS: &'static [EventType] = &[EventType::RelicUpdated];
}

/// A raider declared its work done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The way in which it ends.
    pub exit: Completion,
}

impl EventData for Done {
    const KINDS: &'static [EventType] = &[EventType::RaiderDone];
}

/// A raider asked for a fresh session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandedOff {
    /// Its note for the next session.
    pub note: Option<String>,
}

impl EventData for HandedOff {
    const KINDS: &'static [EventType] = &[EventType::RaiderHandoff];
}

/// The next session waits, because handoffs follow each other too fast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextSession {
    /// The time of its start.
    pub until: Timestamp,
}

impl EventData for NextSession {
    const KINDS: &'static [EventType] = &[EventType::AgentRestarted];
}

/// A merge request went on, or waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeStep {
    /// The reason of a wait, and what a person can do.
    pub note: Option<String>,
    /// The time at which the forge retries by itself; none where it waits for a person.
    pub not_before: Option<Timestamp>,
}

impl EventData for MergeStep {
    const KINDS: &'static [EventType] = &[
        EventType::MrQueued,
        EventType::MrTesting,
        EventType::MrMerging,
        EventType::MrHeld,
        EventType::MrApproved,
        EventType::MrRejected,
        EventType::MrConflict,
    ];
}

/// Work has landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The branch that it landed on.
    pub target: String,
    /// The commit that it landed as.
    pub merge_commit: String,
    /// Set when the target had its content already.
    pub noop: bool,
}

impl EventData for Merged {
    const KINDS: &'static [EventType] = &[EventType::RaiderMerged, EventType::RelicClosed];
}

/// A file in a sandbox had taken the place of a link to the task or the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReplaced {
    /// The raider's incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// Its place now, where it is kept.
    pub file: String,
}

impl EventData for TaskReplaced {
    const KINDS: &'static [EventType] = &[EventType::RaiderTaskReplaced];
}

/// A run of an automation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunEnded {
    /// The number of the run.
    pub run: u64,
    /// The end of its output.
    pub tail: String,
}

impl EventData for RunEnded {
    const KINDS: &'static [EventType] =
        &[EventType::AutomationCompleted, EventType::AutomationFailed];
}

/// A person is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raised {
    /// The relic of the escalation.
    #[schemars(with = "String")]
    pub id: RelicId,
}

impl EventData for Raised {
    const KINDS: &'static [EventType] = &[EventType::EscalationRaised];
}

impl EventData for Condition {
    const KINDS: &'static [EventType] = &[
        EventType::RaiderNeedsInput,
        EventType::RaiderRateLimited,
        EventType::RaiderAuth,
        EventType::RaiderUnclear,
    ];
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schemars::SchemaGenerator;
    use schemars::generate::SchemaSettings;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::cause::Cause;
    use crate::domain::event::{Event, NewEvent};

    fn schema<T: EventData + JsonSchema>(name: &str) -> (String, Value) {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
        let kinds: Vec<_> = T::KINDS.iter().map(|kind| kind.as_str()).collect();
        let told = json!({ "events": kinds, "schema": schema.as_value() });
        (name.to_owned(), told)
    }

    /// A change here is a change of the wire: fields may be added, none goes or changes its meaning.
    #[test]
    fn fields_that_programs_read_are_those_of_the_golden_file() {
        let all: serde_json::Map<_, _> = [
            schema::<Charged>("charged"),
            schema::<ChargeFailed>("charge_failed"),
            schema::<NotLanded>("not_landed"),
            schema::<Done>("done"),
            schema::<HandedOff>("handed_off"),
            schema::<NextSession>("next_session"),
            schema::<MergeStep>("merge_step"),
            schema::<Merged>("merged"),
            schema::<TaskReplaced>("task_replaced"),
            schema::<RunEnded>("run_ended"),
            schema::<Raised>("raised"),
            schema::<Condition>("condition"),
        ]
        .into_iter()
        .collect();
        let mut settings = insta::Settings::clone_current();
        settings
            .set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/protocol"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let text = format!("{:#}", Value::Object(all));
        settings.bind(|| insta::assert_snapshot!("event_data", text));
    }

    fn journalled(event: NewEvent) -> Event {
        Event {
            seq: 1,
            ts: Timestamp::UNIX_EPOCH,
            kind: event.kind.to_string(),
            subject: event.subject,
            cause: event.cause.to_string(),
            data: event.data,
        }
    }

    #[test]
    fn fields_join_the_other_data_and_are_read_of_their_own_types_of_events_only() {
        let held = MergeStep {
            note: Some("the remote refuses it".to_owned()),
            not_before: Some(Timestamp::UNIX_EPOCH),
        };
        let event = NewEvent::new(EventType::MrHeld, "gt-2", Cause::MergeFailed);
        let mut event = journalled(event.with(json!({ "mr": "gt-2" })).and(&held));
        let data = json!({
            "mr": "gt-2", "note": "the remote refuses it", "not_before": "1970-01-01T00:00:00Z",
        });
        assert_eq!(event.data, data);
        assert_eq!(event.read::<MergeStep>(), Some(held));
        assert_eq!(event.read::<Merged>(), None);
        event.kind = "mr.postponed".to_owned();
        assert_eq!((event.known(), event.read::<MergeStep>()), (None, None));
    }

    #[test]
    fn fields_of_another_version_that_do_not_fit_are_not_read() {
        let event = NewEvent::new(
            EventType::RaiderMerged,
            "horde/raiders/Toast",
            Cause::Merged,
        );
        let mut event = journalled(event.with(json!({ "relic": "gt-1", "merge_commit": 7 })));
        assert_eq!(event.read::<Merged>(), None);
        event.cause = "merged_by_the_wind".to_owned();
        assert_eq!(event.cause_known(), None);
    }
}
