//! `hd status`: one screen; `--watch` redraws it as the supervisor sends it.

use std::io::{self, IsTerminal};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render;
use crate::control::client::Flow;
use crate::control::protocol::args::Status;
use crate::control::protocol::{Exit, Op};

pub(super) fn run(args: &Status, context: &mut Context) -> Result<(), CliError> {
    let op = Op::Status(args.clone());
    if !args.watch {
        return context.show(&op, render::status::status);
    }
    let on_terminal = io::stdout().is_terminal();
    context.client()?.stream(&op, |status| {
        if on_terminal && !context.json {
            // Moves to the top left and clears the drawing before.
            output::print(b"\x1b[H\x1b[2J")?;
        }
        context.print_raw(op.name(), &status, render::status::status)?;
        Ok::<_, CliError>(Flow::Continue)
    })?;
    Err(CliError::new(
        Exit::Unreachable,
        "the supervisor ended the stream",
    ))
}
