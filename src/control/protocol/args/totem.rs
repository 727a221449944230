//! Arguments of `ritual.*`, `totem.*` and `step.done`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::read::pairs;

/// The name of a ritual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RitualRef {
    /// The ritual
    #[serde(alias = "ritual")]
    pub name: String,
}

/// `totem.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct TotemStart {
    /// The ritual that it is made from
    pub ritual: String,
    /// The relic that it is for
    pub relic: String,
    /// The value of a variable of the ritual; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    #[serde(
        default,
        alias = "vars",
        deserialize_with = "pairs",
        skip_serializing_if = "is_default"
    )]
    pub var: Vec<String>,
}

/// `step.done`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct StepDone {
    /// The step; without it, the present one. With it, a repeated call changes nothing
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A note: for the next step, where that begins in a fresh session, and for the journal
    #[arg(short, long, value_name = "NOTE")]
    #[serde(
        default,
        alias = "m",
        alias = "note",
        skip_serializing_if = "Option::is_none"
    )]
    pub message: Option<String>,
}
