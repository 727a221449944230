//! `cost`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::read::word;
use crate::domain::usage::ledger::By;

/// `cost`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// From this day on (2026-01-31), or for this time (30d); default: 7d
    #[arg(long, value_name = "D")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Sums by raider, relic, session, rig, day, model or harness; default: day
    #[arg(long, value_name = "WHAT", value_parser = word::<By>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
}
