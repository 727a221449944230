//! Arguments of the operations. One definition for both ends: the keys of a request are the
//! positional names and long flags of `hd`, because these structs are `hd`'s own arguments.
//!
//! Names of objects are plain text here: the handler decides whether `gt-9` or `horde/Toast` exists (`not_found`), and
//! an invalid name does not exist either.

mod consent;
mod cost;
mod cv;
mod done;
mod drums;
mod read;
mod relic;
mod session;
mod task;
mod totem;

use clap::Args;
use serde::{Deserialize, Serialize};

pub use self::consent::Consent;
pub use self::cost::Cost;
pub use self::cv::{Cv, CvExport, CvForget, CvImport};
pub use self::drums::{DrumRef, DrumsAck, DrumsInbox, DrumsReply, DrumsSend};
use self::read::{count, ids, tasks, text_or_number, word};
pub use self::relic::{
    RelicCancel, RelicClose, RelicCreate, RelicDep, RelicDepList, RelicEdit, RelicImport,
    RelicList, RelicReady, RelicRef, RelicReopen,
};
pub use self::session::{Handoff, Restart, Review, Wait};
pub use self::task::{Task, TaskFields};
pub use self::totem::{RitualRef, StepDone, TotemStart};
use crate::domain::import::Format;
use crate::domain::message::Severity;
use crate::domain::nuke::CleanupStatus;
use crate::domain::relic::Completion;

/// No arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A raider or agent by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// `Toast`, `horde/Toast`, `horde/raiders/Toast`, or an agent's name
    pub name: String,
}

/// `diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// A raider, a merge request, or a relic
    pub name: String,
}

/// The name of a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct HarnessRef {
    /// The harness
    pub name: String,
}

/// An optional rig; none means all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct InRig {
    /// Only this rig
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
}

/// A rig by a flag; none means all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct InRigFlag {
    /// Only this rig
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Stay, and show changes as they happen
    #[arg(short, long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch: bool,
}

/// `stop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Leave the agents running; the next start adopts them
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_sessions: bool,
}

/// `reload`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Only print the effect on each agent
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub dry_run: bool,
}

/// `doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Doctor {
    /// Fix what can be fixed; no work is ever lost
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub fix: bool,
}

/// `run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The work; several texts are several relics
    #[arg(required_unless_present = "file", value_name = "TASK", value_parser = task::task)]
    #[serde(alias = "tasks", deserialize_with = "tasks")]
    pub task: Vec<Task>,
    /// The rig; may be left out when the city has one only
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
    /// A relic that must be closed first
    #[arg(long, value_name = "RELIC")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The harness instead of the rig's own
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// An existing branch that the work begins on, of the remote or of the rig's checkout
    #[arg(long, value_name = "BRANCH")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// `charge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// The relic
    pub relic: String,
    /// The rig; default: that of the prefix of the relic's id
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<String>,
    /// The harness instead of the rig's own
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// The slot instead of the next free one
    #[arg(long, value_name = "SLOT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The branch that the work lands on
    #[arg(long, value_name = "BRANCH")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// `done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The outcome: completed, escalated or deferred
    #[arg(long, default_value = "completed", value_parser = word::<Completion>)]
    #[serde(default = "completed")]
    pub status: Completion,
    /// The state of your sandbox: clean, has_uncommitted, has_stash or has_unpushed
    #[arg(long, value_parser = word::<CleanupStatus>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_status: Option<CleanupStatus>,
    /// No change was needed; needs --reason, a clean tree and no commits
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_change: bool,
    /// For deferred: not before this time
    #[arg(long, value_name = "T")]
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text_or_number"
    )]
    pub until: Option<String>,
    /// Why, in your words
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `hook-event`: an event of a harness, as its hook gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookEvent {
    /// The kind of hooks: the `hooks` of the harness
    pub hooks: String,
    /// The event
    pub event: serde_json::Value,
}

/// `escalate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Escalate {
    /// The problem for a person, in one line
    pub problem: String,
    /// The severity: low, medium, high or critical
    #[arg(long, default_value = "medium", value_parser = word::<Severity>)]
    #[serde(default = "medium")]
    pub severity: Severity,
    /// Your observations; `-` reads them from standard input
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    #[serde(default, skip_serializing_if = "is_default")]
    pub evidence: String,
    /// From outside a session: the raider or agent that it is about
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

/// The id of an escalation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct EscalationRef {
    /// The escalation, as `hd escalations` names it
    pub id: String,
}

/// `raider.nuke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RaiderNuke {
    /// `Toast`, `horde/Toast` or `horde/raiders/Toast`
    pub name: String,
    /// Write everything that would be lost to salvage refs first
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub salvage: bool,
    /// Say what would happen, and do nothing; exit code 5 when it would be refused
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub dry_run: bool,
    /// Only this incarnation, as `--dry-run` says it; the name may have been given out again since
    #[arg(long, value_name = "N", value_parser = count)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: Option<u64>,
    /// Consent.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// `raider.repair`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RaiderRepair {
    /// `Toast`, `horde/Toast` or `horde/raiders/Toast`
    pub name: String,
    /// Consent.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// `send`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// A raider or an agent
    pub name: String,
    /// The text to submit to its terminal
    #[arg(required_unless_present = "keys", conflicts_with = "keys")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Keys to type instead, whatever is on the screen: "Down Enter", "C-c", "2"
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Send the text although a person began a line there: both become one message
    #[arg(long, conflicts_with = "keys")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// A raider or an agent
    pub name: String,
    /// Number, key or text of a choice; or the answer in words, where the dialog takes any
    pub choice: String,
}

/// `logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// A raider or an agent
    pub name: String,
    /// The maximum number of bytes of the end
    #[arg(long, value_parser = count)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The raw output of its program, instead of the text on its screen
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub raw: bool,
}

/// The id of a merge request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct MrRef {
    /// The merge request
    #[serde(alias = "id")]
    pub mr: String,
}

/// `mq.pr`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct MqPr {
    /// The merge request
    #[serde(alias = "id")]
    pub mr: String,
    /// Open one although an address is known: the pull request of that was closed at the host
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub anew: bool,
}

/// `mq.approve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct MqApprove {
    /// The merge request
    #[serde(alias = "id")]
    pub mr: String,
    /// Approve this commit only: refused if the branch has another head by now
    #[arg(long, value_name = "COMMIT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// `mq.reject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct MqReject {
    /// The merge request
    #[serde(alias = "id")]
    pub mr: String,
    /// Required: the reason, for the raider that goes on with the work
    #[arg(long, value_name = "TEXT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The caller agrees
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// The name of an automation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct AutoRef {
    /// The automation: `nightly`, or `horde/nightly` of a rig
    pub name: String,
}

/// `auto.history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct AutoHistory {
    /// Only this automation's
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Follow new events as they happen
    #[arg(short, long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub follow: bool,
    /// Only those after this number, and whether some of these are not kept any more; without it
    /// all, or with --follow only new ones
    #[arg(long, value_name = "SEQ", value_parser = count)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Only this type, or `prefix.*`
    #[arg(long = "type", value_name = "T")]
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The id of a salvage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct SalvageRef {
    /// The salvage, as `hd salvage list` names it
    pub id: String,
}

/// `salvage.restore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct SalvageRestore {
    /// The salvage, as `hd salvage list` names it
    pub id: String,
    /// The directory; default `<city>/<rig>/restored/<id>`
    #[arg(long, value_name = "DIR")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// `salvage.prune`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct SalvagePrune {
    /// The salvages, as `hd salvage list` names them; default: the expired ones
    #[arg(value_name = "ID")]
    #[serde(
        default,
        alias = "ids",
        deserialize_with = "ids",
        skip_serializing_if = "is_default"
    )]
    pub id: Vec<String>,
    /// All that are older than this, instead of what `[retention] salvage` says
    #[arg(long, value_name = "DURATION", conflicts_with = "id")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<String>,
    /// Consent.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// Reads a format of `hd relic import`.
///
/// # Errors
/// The formats that there are.
pub fn format(text: &str) -> Result<Format, String> {
    word(text)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn medium() -> Severity {
    Severity::Medium
}

fn completed() -> Completion {
    Completion::Completed
}
