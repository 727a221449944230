//! The command line of `hd cv`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::control::protocol::args;

/// `hd cv`.
#[derive(Debug, Args)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in crate::cli) struct Cv {
    #[command(subcommand)]
    pub verb: Option<CvVerb>,
    #[command(flatten)]
    pub cv: args::Cv,
}

/// Verbs of `hd cv`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CvVerb {
    /// Write the chains of this city as JSON lines, for `hd cv import` in another one
    Export(CvTo),
    /// Verify the chains of another city, and keep them apart from this city's own
    Import(CvFile),
    /// Delete the chains that were imported from a city; asks first
    Forget(args::CvForget),
}

/// `hd cv export`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct CvTo {
    #[command(flatten)]
    pub of: args::CvExport,
    /// The file; `-` is standard output
    #[arg(required = true)]
    pub file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// `hd cv import`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CvFile {
    /// The file; `-` reads standard input
    pub file: PathBuf,
    /// The name of the city here; default: its own
    #[arg(long = "as", value_name = "NAME")]
    pub as_name: Option<String>,
}
