//! The schemas of typed answers, for `hd schema`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    AckedDrums, Agent, Answered, Attached, Automation, BegunRun, Cancelled, Charged, Charging,
    Cost, Cv, CvForgotten, CvImported, CvLine, Decided, Deps, Doctor, Done, Drum, Escalation,
    Event, HandedOff, HarnessResumed, Hooked, Imported, Inbox, LogText, Metrics, MrDetails, MrRow,
    NotedRelic, Nuke, Ordered, PastRun, Pong, Pruned, PullRequest, Raider, Raised, Rally,
    ReadyRelic, Relic, Reloaded, Repaired, Reported, Restored, Ritual, RitualRow, Salvage, Screen,
    SelfReview, SentDrum, Shown, ShownSalvage, Started, Stashes, Status, StepDone, Stopped, Story,
    Switched, Taken, Totem, Waiting,
};
use crate::control::protocol::OpName;
use crate::domain::work_diff::Diff;

/// The schema of an operation's answer: of its result or, where it answers with a stream, of each item.
pub struct Answer {
    /// The operation.
    pub op: OpName,
    /// The JSON schema.
    pub schema: Schema,
}

/// The operations whose answers have no type, with the reason.
pub const UNTYPED: &[(OpName, &str)] = &[(
    OpName::ConfigShow,
    "it mirrors the keys of city.toml, whose schema `hd config schema` prints",
)];

/// Returns the schemas of all operations but those of [`UNTYPED`].
#[must_use]
pub fn schemas() -> Vec<Answer> {
    let mut all = of_city();
    all.extend(of_children());
    all.extend(of_work());
    all.extend(of_messages());
    all
}

/// Returns the schemas of the city, its supervisor, identities and automations.
fn of_city() -> Vec<Answer> {
    vec![
        of::<Pong>(OpName::Ping),
        of::<Status>(OpName::Status),
        of::<Metrics>(OpName::Metrics),
        of::<Cost>(OpName::Cost),
        of::<Stopped>(OpName::Stop),
        of::<Reloaded>(OpName::Reload),
        of::<Doctor>(OpName::Doctor),
        of::<Cv>(OpName::Cv),
        of::<CvLine>(OpName::CvExport),
        of::<CvImported>(OpName::CvImport),
        of::<CvForgotten>(OpName::CvForget),
        of::<HarnessResumed>(OpName::HarnessResume),
        of::<Vec<Automation>>(OpName::AutoList),
        of::<BegunRun>(OpName::AutoRun),
        of::<Vec<PastRun>>(OpName::AutoHistory),
        of::<Switched>(OpName::AutoEnable),
        of::<Switched>(OpName::AutoDisable),
        of::<Event>(OpName::Events),
        of::<Story>(OpName::Why),
    ]
}

/// Returns the schemas of raiders and agents, their terminals and their verbs about themselves.
fn of_children() -> Vec<Answer> {
    vec![
        of::<Vec<Raider>>(OpName::RaiderList),
        of::<Raider>(OpName::RaiderShow),
        of::<Nuke>(OpName::RaiderNuke),
        of::<Repaired>(OpName::RaiderRepair),
        of::<Ordered>(OpName::RaiderSuspend),
        of::<Ordered>(OpName::RaiderResume),
        of::<Vec<Agent>>(OpName::AgentList),
        of::<Ordered>(OpName::AgentStart),
        of::<Ordered>(OpName::AgentStop),
        of::<Ordered>(OpName::AgentRestart),
        of::<Ordered>(OpName::AgentSuspend),
        of::<Ordered>(OpName::AgentResume),
        of::<Ordered>(OpName::AgentUnquarantine),
        of::<Attached>(OpName::Attach),
        of::<Screen>(OpName::Peek),
        of::<Taken>(OpName::Send),
        of::<Answered>(OpName::Answer),
        of::<LogText>(OpName::Logs),
        of::<Done>(OpName::Done),
        of::<HandedOff>(OpName::Handoff),
        of::<Waiting>(OpName::Wait),
        of::<SelfReview>(OpName::Review),
        of::<Reported>(OpName::HookEvent),
        of::<Rally>(OpName::Rally),
        of::<Hooked>(OpName::Hook),
    ]
}

/// Returns the schemas of relics, their charges, totems, merge requests and salvages.
fn of_work() -> Vec<Answer> {
    vec![
        of::<Started>(OpName::Run),
        of::<Charged>(OpName::Charge),
        of::<Charging>(OpName::ChargePause),
        of::<Charging>(OpName::ChargeResume),
        of::<NotedRelic>(OpName::RelicCreate),
        of::<Shown>(OpName::RelicShow),
        of::<Vec<Relic>>(OpName::RelicList),
        of::<Relic>(OpName::RelicClose),
        of::<Relic>(OpName::RelicReopen),
        of::<NotedRelic>(OpName::RelicEdit),
        of::<Cancelled>(OpName::RelicCancel),
        of::<Relic>(OpName::RelicDepAdd),
        of::<Relic>(OpName::RelicDepRemove),
        of::<Deps>(OpName::RelicDepList),
        of::<Vec<ReadyRelic>>(OpName::RelicReady),
        of::<Relic>(OpName::RelicExport),
        of::<Vec<Imported>>(OpName::RelicImport),
        of::<Vec<RitualRow>>(OpName::RitualList),
        of::<Ritual>(OpName::RitualShow),
        of::<Totem>(OpName::TotemStart),
        of::<Totem>(OpName::TotemShow),
        of::<StepDone>(OpName::StepDone),
        of::<Diff>(OpName::Diff),
        of::<Vec<MrRow>>(OpName::MqList),
        of::<MrDetails>(OpName::MqShow),
        of::<MrRow>(OpName::MqRetry),
        of::<Decided>(OpName::MqApprove),
        of::<Decided>(OpName::MqReject),
        of::<PullRequest>(OpName::MqPr),
        of::<Vec<Salvage>>(OpName::SalvageList),
        of::<Vec<Stashes>>(OpName::SalvageStashes),
        of::<ShownSalvage>(OpName::SalvageShow),
        of::<Restored>(OpName::SalvageRestore),
        of::<Pruned>(OpName::SalvagePrune),
    ]
}

/// Returns the schemas of escalations and drums.
fn of_messages() -> Vec<Answer> {
    vec![
        of::<Raised>(OpName::Escalate),
        of::<Vec<Escalation>>(OpName::Escalations),
        of::<Escalation>(OpName::EscalationsAck),
        of::<SentDrum>(OpName::DrumsSend),
        of::<Inbox>(OpName::DrumsInbox),
        of::<Drum>(OpName::DrumsRead),
        of::<SentDrum>(OpName::DrumsReply),
        of::<AckedDrums>(OpName::DrumsAck),
    ]
}

fn of<T: JsonSchema>(op: OpName) -> Answer {
    // As it is written: a field that is always there is required, also if null.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    Answer { op, schema }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_operation_has_a_schema_or_a_reason_for_having_none() {
        let typed: Vec<_> = schemas().iter().map(|answer| answer.op).collect();
        let untyped: Vec<_> = UNTYPED.iter().map(|(op, _)| *op).collect();
        let named = [typed, untyped].concat();
        let all: BTreeSet<_> = named.iter().copied().collect();
        assert_eq!(all.len(), named.len(), "an operation is named twice");
        let missing: Vec<_> = OpName::ALL.iter().filter(|op| !all.contains(op)).collect();
        assert!(
            missing.is_empty(),
            "operations without a schema: {missing:?}"
        );
    }

    /// A change here is a change of the wire: fields may be added, none goes or changes its meaning.
    #[test]
    fn schemas_are_those_of_the_golden_files() {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/protocol/schemas"),
        );
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        for answer in schemas() {
            let name = answer.op.as_str();
            let text = format!("{:#}", answer.schema.as_value());
            settings.bind(|| insta::assert_snapshot!(name, text));
        }
    }
}
