//! The command line of `hd ritual`, `hd totem` and `hd step`.

use clap::Subcommand;

use crate::control::protocol::args;

/// Verbs of `hd ritual`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RitualVerb {
    /// All rituals: those of the city, and the built-in ones
    List,
    /// A ritual with its variables and steps
    Show(args::RitualRef),
}

/// Verbs of `hd totem`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TotemVerb {
    /// Start a ritual on a relic: its steps become child relics
    Start(args::TotemStart),
    /// The steps of a relic's totem, and which is the present one
    Show(args::RelicRef),
}

/// Verbs of `hd step`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StepVerb {
    /// From inside a session: a step is done; prints the next one
    Done(args::StepDone),
}
