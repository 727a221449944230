//! `cv`, `cv.export`, `cv.import`, `cv.forget`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::read::count;
use crate::domain::federation::{Header, Line};

/// `cv`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Cv {
    /// The identity, or CITY:IDENTITY of another city; without it, all of them
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Check every hash, those of other cities and of older versions, too; exit 1 where a chain breaks
    #[arg(long)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub verify: bool,
    /// The number of newest entries to show; at most 500
    #[arg(long, value_name = "N", value_parser = count)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// `cv.export`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct CvExport {
    /// Only this identity
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// `cv.forget`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct CvForget {
    /// The city, by its name here
    // `city` is the id of `--city`.
    #[arg(id = "forgotten", value_name = "CITY")]
    pub city: String,
    /// Consent.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "is_default")]
    pub yes: bool,
}

/// `cv.import`: a batch of entries, which is stored whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CvImport {
    /// The city that the entries come from.
    pub header: Header,
    /// The entries, each chain in order.
    pub lines: Vec<Line>,
}
