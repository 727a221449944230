//! Arguments of `relic.*`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::read::{not_blank, priority, some, word};
use crate::domain::import::Item;
use crate::domain::relic::{RelicKind, RelicStatus};

/// `relic.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicCreate {
    /// The title, in one line
    #[arg(value_parser = not_blank)]
    pub title: String,
    /// The rest; `-` reads it from standard input
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: String,
    /// The rig; may be left out when the city has one only
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
    /// 0 to 4: larger is more urgent
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = priority)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i64,
    /// A word to find it by; may be repeated
    #[arg(long)]
    #[serde(default, alias = "labels", skip_serializing_if = "is_default")]
    pub label: Vec<String>,
    /// A relic that must be closed first; may be repeated
    #[arg(long, value_name = "RELIC")]
    #[serde(default, alias = "deps", skip_serializing_if = "is_default")]
    pub dep: Vec<String>,
    /// The relic that it is a step of
    #[arg(long, value_name = "RELIC")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// An existing branch that the work begins on, of the remote or of the rig's checkout
    #[arg(long, value_name = "BRANCH")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The person or agent that does it: it is not charged automatically then
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The harness of its raiders, unless a charge names another
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
}

/// The id of a relic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicRef {
    /// The relic
    #[serde(alias = "id")]
    pub relic: String,
}

/// `relic.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicList {
    /// Only this rig's
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
    /// Only these: open, hooked, blocked, deferred or closed
    #[arg(long, value_parser = word::<RelicStatus>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RelicStatus>,
    /// Only these: task, step, merge_request, escalation or wisp
    #[arg(long, value_parser = word::<RelicKind>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RelicKind>,
    /// Only with this label
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The number of relics to show, by priority, then age
    #[arg(long, value_name = "N", value_parser = some)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// `relic.close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicClose {
    /// The relic
    #[serde(alias = "id")]
    pub relic: String,
    /// Why
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Consent, needed for a hooked relic.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// `relic.edit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicEdit {
    /// The relic
    #[serde(alias = "id")]
    pub relic: String,
    /// Another title, in one line
    #[arg(long, value_parser = not_blank)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Another body; `-` reads it from standard input
    #[arg(long, value_name = "TEXT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// 0 to 4: larger is more urgent
    #[arg(long, allow_negative_numbers = true, value_parser = priority)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// A further word to find it by; may be repeated
    #[arg(long)]
    #[serde(default, alias = "labels", skip_serializing_if = "is_default")]
    pub label: Vec<String>,
    /// A label to remove; may be repeated
    #[arg(long, value_name = "LABEL")]
    #[serde(default, skip_serializing_if = "is_default")]
    pub unlabel: Vec<String>,
    /// The person or agent that does it: it is not charged automatically then; '' for none
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The relic that it is a step of; '' for none
    #[arg(long, value_name = "RELIC")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// An existing branch that its next raider begins on; '' for none
    #[arg(long, value_name = "BRANCH")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// `relic.reopen`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicReopen {
    /// The relic
    #[serde(alias = "id")]
    pub relic: String,
    /// A note for the next raider
    #[arg(short = 'm', long, value_name = "NOTE")]
    #[serde(default, alias = "message", skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `relic.cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicCancel {
    /// The relic
    #[serde(alias = "id")]
    pub relic: String,
    /// Why
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Consent.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// `relic.dep.add`, `relic.dep.remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicDep {
    /// The relic that waits
    #[serde(alias = "id")]
    pub relic: String,
    /// The relic that must be closed first
    pub on: String,
}

/// `relic.dep.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicDepList {
    /// The relic
    #[serde(alias = "id")]
    pub relic: String,
    /// The number of relics to show of those that it waits for, and of those that wait for it
    #[arg(long, value_name = "N", value_parser = some)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// `relic.ready`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RelicReady {
    /// Only this rig's
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
    /// The number of relics to show, by priority, then age
    #[arg(long, value_name = "N", value_parser = some)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// `relic.import`: a batch of records, which is stored whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelicImport {
    /// The rig; without it that of the prefix of each record's id, or the only one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
    /// Check the batch, and store nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub check: bool,
    /// The records, each after its dependencies.
    pub relics: Vec<Item>,
}
