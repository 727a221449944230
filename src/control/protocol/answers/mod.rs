//! Answers of the operations, and the items of streams. One definition for both ends: the server writes these structs,
//! and `hd` reads them. Fields may be added; none is renamed or removed (`contract.md`, 2.4). A field that is added
//! later has `#[serde(default)]` unless it may be null: `hd` also reads the answers of an older supervisor, which runs on
//! until its restart.

/// Reads an answer that has several forms: a field tells which, so that an error names what is wrong in that form.
macro_rules! read_by_field {
    ($name:ident { $($field:literal => $variant:ident,)+ _ => $last:ident }) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                use serde::de::Error;
                let value = serde_json::Value::deserialize(from)?;
                $(if value.get($field).is_some() {
                    let form = serde::Deserialize::deserialize(value);
                    return form.map(Self::$variant).map_err(Error::custom);
                })+
                let form = serde::Deserialize::deserialize(value);
                form.map(Self::$last).map_err(Error::custom)
            }
        }
    };
}

mod auto;
mod child;
mod city;
mod cost;
mod cv;
mod drums;
mod events;
mod mq;
mod raider;
mod relic;
mod salvage;
mod schema;
mod session_verbs;
mod status;
mod supervisor;
mod totem;
mod work;

pub use self::auto::{BegunRun, PastRun, Switched};
pub use self::child::{
    Answered, Attached, HarnessResumed, LogText, Ordered, OrderedState, Pane, Screen, Taken,
};
pub use self::city::{Account, Agent, AgentState, Automation, Budget, Pool};
pub use self::cost::{Cost, CostRow, Today, Usage};
pub use self::cv::{Chain, Cv, CvForgotten, CvImported, CvLine};
pub use self::drums::{
    AckedDrums, Delivery, DeliveryState, Drum, DrumHead, Inbox, RalliedDrum, RalliedDrums, SentDrum,
};
pub use self::events::{Event, Story};
pub use self::mq::{Decided, MrDetails, MrRow, PullRequest, ReviewedSession};
pub use self::raider::{Git, OpenEscalation, Raider, RaiderUsage, SelfReview, Session};
pub use self::relic::{
    Cancelled, Change, Charging, Deps, Escalation, Imported, NotedRelic, Raised, ReadyRelic, Relic,
    RelicDetails, RelicLink, Shown,
};
pub use self::salvage::{Kept, Pruned, Restored, Salvage, ShownSalvage, Stashes};
pub use self::schema::{Answer, UNTYPED, schemas};
pub use self::session_verbs::{
    AgentDone, AgentRally, Done, HandedOff, Hooked, Leaves, OutcomeState, RaiderDone, RaiderRally,
    Rally, Reported, SandboxGit, Waiting,
};
pub use self::status::{Blocked, Call, ForgeRow, RelicCounts, Rig, Status, WitnessRow};
pub use self::supervisor::{Doctor, Metrics, Pong, SessionsEnd, Stopped};
pub use self::totem::{Progress, ReadyStep, Ritual, RitualRow, StepDone, Totem, TotemStep};
pub use self::work::{FailedCharge, Nuke, Started, StartedRelic, WaitingRelic};
pub use crate::domain::answers::{Charged, Nuked, Rehearsed, Reloaded, Repaired, Would};
