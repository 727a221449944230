//! The command line of `hd rig`.

use clap::{Args, Subcommand};

/// Verbs of `hd rig`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RigVerb {
    /// The repositories of city.toml and its includes; needs no supervisor
    List,
    /// Add a repository to city.toml, and reload
    Add(RigAdd),
    /// Remove a repository from city.toml, and reload; its raiders finish their work first, and no file is removed; asks first
    Remove(RigRemove),
}

/// `hd rig add`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RigAdd {
    /// A directory with a repository, or the URL of one
    #[arg(value_name = "PATH|URL")]
    pub source: String,
    /// Its name; default: that of the directory
    #[arg(long)]
    pub name: Option<String>,
    /// The prefix of its relics' ids
    #[arg(long)]
    pub prefix: Option<String>,
    /// The harness of its raiders
    #[arg(long)]
    pub harness: Option<String>,
}

/// `hd rig remove`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RigRemove {
    /// Its name
    pub name: String,
}
