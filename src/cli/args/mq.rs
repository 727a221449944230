//! The command line of `hd mq`.

use clap::{Args, Subcommand};

use crate::control::protocol::args;

/// Verbs of `hd mq`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum MqVerb {
    /// Merge requests in the order they land
    List(MqList),
    /// A merge request, with the results of its gates
    Show(args::MrRef),
    /// Retry one now
    Retry(args::MrRef),
    /// Let one that waits for a person land
    Approve(args::MqApprove),
    /// Reject one that waits for a person: its live session, or a fresh raider, gets the work with your note
    Reject(args::MqReject),
    /// Open a pull request for one, its relic or its raider, by the command `pr` of the rig
    Pr(args::MqPr),
}

/// `hd mq list`.
#[derive(Debug, Args)]
#[group(skip)]
pub(in crate::cli) struct MqList {
    #[command(flatten)]
    pub rig: args::InRig,
    /// The finished ones, too; --json always has them
    #[arg(long)]
    pub all: bool,
}
