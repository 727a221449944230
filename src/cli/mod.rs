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
use error::CliError;

use crate::control::protocol::Exit;

/// Runs `hd` with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse().map_err(CliError::suggesting) {
        Ok(cli) => cli,
        Err(wrong) if wrong.use_stderr() && wants_json() => {
            let error = CliError::of_parser(&wrong);
            error.report(true);
            return error.exit.into();
        }
        // Help and version are printed as text in any case.
        Err(wrong) => wrong.exit(),
    };
    let mut context = Context::new(&cli);
    match commands::run(cli.verb, &mut context) {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            error.report(cli.json);
            error.exit.into()
        }
    }
}

/// Returns true when the arguments that the parser refused have `--json` among their flags.
fn wants_json() -> bool {
    let words = std::env::args_os().skip(1);
    let mut flags = words.take_while(|word| word != "--");
    flags.any(|word| word == "--json")
}
