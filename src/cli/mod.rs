//! `hd`: a thin client of the control socket. Data goes to standard output, messages to standard error.
//!
//! ```text
//!   args (clap) ──► commands (one file per group of verbs) ──► client ──► supervisor
//!                        │
//!                        └──► render (tables for people)  or  the result itself (--json)
//! ```

mod answer;
mod args;
mod city;
mod commands;
mod context;
mod environment;
mod error;
mod output;
mod render;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;
use context::Context;

use crate::control::protocol::Exit;

/// Runs `hd` with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut context = Context::new(&cli);
    match commands::run(cli.verb, &mut context) {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            error.report(cli.json);
            error.exit.into()
        }
    }
}
