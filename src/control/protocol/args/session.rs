//! Verbs that end or hold up a session: `handoff`, `wait`, `review`, `agent.restart`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::read::{not_blank, word};
use crate::domain::self_review::Verdict;

/// `handoff`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// A note for your successor
    #[arg(short, long, value_name = "NOTE")]
    #[serde(
        default,
        alias = "m",
        alias = "note",
        skip_serializing_if = "Option::is_none"
    )]
    pub message: Option<String>,
    /// Your successor goes on with this conversation; without it, it begins a fresh one
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub resume: bool,
}

/// `wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The duration, 24h at most: 30s, 10m, 2h; 0s ends a wait
    pub duration: String,
    /// The reason
    #[arg(long, value_parser = not_blank)]
    pub reason: String,
}

/// `review`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// The result of the review. `passed`: it found nothing. `failed`: it found something to repair. `stuck`: the work
    /// cannot go on without a person; as `hd done --status escalated`
    #[arg(value_parser = word::<Verdict>)]
    pub verdict: Verdict,
    /// The findings of the review; required for `stuck`
    #[arg(short, long, value_name = "NOTE")]
    #[serde(
        default,
        alias = "m",
        alias = "note",
        skip_serializing_if = "Option::is_none"
    )]
    pub message: Option<String>,
}

/// `agent.restart`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// `Toast`, `horde/Toast`, `horde/raiders/Toast`, or an agent's name
    pub name: String,
    /// Begin a fresh conversation; without it, the last one goes on where the harness can resume it
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub fresh: bool,
}
