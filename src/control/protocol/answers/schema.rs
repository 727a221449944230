//! The schemas of typed answers, for `hd schema`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    Agent, Automation, Cancelled, Charging, Cv, CvImported, CvLine, Decided, Deps, Drum, DrumHead,
    EditedRelic, Event, Imported, Inbox, MrDetails, MrRow, PullRequest, Raider, ReadyRelic, Relic,
    Ritual, RitualRow, SelfReview, SentDrum, Shown, Status, StepDone, Story, Totem,
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

/// Returns the schemas of all operations whose answers have a type.
#[must_use]
pub fn schemas() -> Vec<Answer> {
    vec![
        of::<Status>(OpName::Status),
        of::<Cv>(OpName::Cv),
        of::<CvLine>(OpName::CvExport),
        of::<CvImported>(OpName::CvImport),
        of::<Diff>(OpName::Diff),
        of::<Charging>(OpName::ChargePause),
        of::<Charging>(OpName::ChargeResume),
        of::<Vec<Raider>>(OpName::RaiderList),
        of::<Raider>(OpName::RaiderShow),
        of::<Vec<Agent>>(OpName::AgentList),
        of::<Vec<Automation>>(OpName::AutoList),
        of::<Vec<MrRow>>(OpName::MqList),
        of::<MrDetails>(OpName::MqShow),
        of::<MrRow>(OpName::MqRetry),
        of::<Decided>(OpName::MqApprove),
        of::<Decided>(OpName::MqReject),
        of::<PullRequest>(OpName::MqPr),
        of::<Relic>(OpName::RelicCreate),
        of::<Shown>(OpName::RelicShow),
        of::<Vec<Relic>>(OpName::RelicList),
        of::<Relic>(OpName::RelicClose),
        of::<Relic>(OpName::RelicReopen),
        of::<SelfReview>(OpName::Review),
        of::<EditedRelic>(OpName::RelicEdit),
        of::<Cancelled>(OpName::RelicCancel),
        of::<Relic>(OpName::RelicDepAdd),
        of::<Relic>(OpName::RelicDepRemove),
        of::<Deps>(OpName::RelicDepList),
        of::<Vec<ReadyRelic>>(OpName::RelicReady),
        of::<Relic>(OpName::RelicExport),
        of::<Vec<Imported>>(OpName::RelicImport),
        of::<SentDrum>(OpName::DrumsSend),
        of::<Inbox>(OpName::DrumsInbox),
        of::<Drum>(OpName::DrumsRead),
        of::<SentDrum>(OpName::DrumsReply),
        of::<DrumHead>(OpName::DrumsAck),
        of::<Vec<RitualRow>>(OpName::RitualList),
        of::<Ritual>(OpName::RitualShow),
        of::<Totem>(OpName::TotemStart),
        of::<Totem>(OpName::TotemShow),
        of::<StepDone>(OpName::StepDone),
        of::<Event>(OpName::Events),
        of::<Story>(OpName::Why),
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
    use std::path::Path;

    use super::*;

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
