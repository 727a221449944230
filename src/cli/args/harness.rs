//! `hd harness`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::control::protocol::args;
use crate::kit::cases::Case;

/// Verbs of `hd harness`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum HarnessVerb {
    /// Every harness that a rig or an agent can name, and whether its program is there; needs no
    /// supervisor
    List,
    /// All settings of one harness, as its sessions will be started; needs no supervisor
    Show {
        /// The harness
        name: String,
    },
    /// Resume the sessions of its account now, after a login or the end of a limit
    Resume(args::HarnessRef),
    /// Answer in your own settings of its program what it would ask for at its start; shows the change,
    /// asks, and keeps a copy of each file. Needs no supervisor
    Setup(HarnessSetup),
    /// Try a harness as it is configured, in a city made for it and against a model that follows a
    /// script; needs no network
    Test(HarnessTest),
}

/// `hd harness setup`.
#[derive(Debug, Args)]
pub(in crate::cli) struct HarnessSetup {
    /// The harness
    pub name: String,
    /// Show the change, and leave everything as it is
    #[arg(long)]
    pub dry_run: bool,
}

/// `hd harness test`.
#[derive(Debug, Args)]
pub(in crate::cli) struct HarnessTest {
    /// The harness
    pub name: String,
    /// Only this case: start, prompt, commit, done, two, question, limit, login, kill, handoff or
    /// stop; may be repeated
    #[arg(long, value_name = "CASE")]
    pub case: Vec<Case>,
    /// The limit of a single step of the program: to start, to commit, to ask
    #[arg(long, value_name = "T", value_parser = duration, default_value = "90s")]
    pub limit: Duration,
    /// Do not wait for the end of the limit in its case, which takes minutes: the model takes requests again at
    /// once, and the accounts are resumed as by `hd harness resume`
    #[arg(long)]
    pub short: bool,
    /// Keep the city with its logs, and print its path
    #[arg(long)]
    pub keep: bool,
    /// Write what its terminal showed in each condition into this directory, one file each
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

/// Reads a duration.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected numbers, each with a unit, such as 90s or 5m".to_owned())
}
