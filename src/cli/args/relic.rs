//! The command line of `hd relic`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::control::protocol::args;

/// Verbs of `hd relic`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RelicVerb {
    /// Make a relic
    Create(args::RelicCreate),
    /// A relic in full
    Show(args::RelicRef),
    /// Relics, by priority then age
    List(args::RelicList),
    /// The open relics whose dependencies are all closed, by priority then age
    Ready(args::RelicReady),
    /// Change title, body, priority, labels, assignee or parent of a relic
    Edit(RelicEditing),
    /// Dependencies: the relics that one waits for
    #[command(subcommand)]
    Dep(DepVerb),
    /// Close a relic; a hooked one only with confirmation
    Close(args::RelicClose),
    /// Reopen a blocked, deferred or closed relic
    Reopen(args::RelicReopen),
    /// End the work on a relic for good: stop and remove its raider, save its work, close it; asks first
    Cancel(args::RelicCancel),
    /// Write all relics as JSON lines, for `hd relic import`
    Export(RelicTo),
    /// Make or update relics from an export of a city, of beads, or from GitHub issues
    Import(RelicFile),
}

/// Verbs of `hd relic dep`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DepVerb {
    /// Let a relic wait for another
    Add(args::RelicDep),
    /// Let a relic wait for another no longer
    Remove(args::RelicDep),
    /// The relics that one waits for, and those that wait for it
    List(args::RelicDepList),
}

/// `hd relic edit`.
#[derive(Debug, Args)]
#[group(skip)]
pub(in crate::cli) struct RelicEditing {
    #[command(flatten)]
    pub edit: args::RelicEdit,
    /// A file with another body; `-` reads it from standard input
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    pub body_file: Option<PathBuf>,
}

/// `hd relic export`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RelicTo {
    /// The file; default: standard output
    pub file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// `hd relic import`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RelicFile {
    /// The file; `-` reads standard input
    pub file: PathBuf,
    /// The rig; default: that of the prefix of each id, or the only one
    #[arg(long)]
    pub rig: Option<String>,
    /// The format: jsonl, beads or github; default: recognised by the first record
    #[arg(long, value_parser = args::format)]
    pub format: Option<crate::domain::import::Format>,
}
