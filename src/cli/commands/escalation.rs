//! `hd escalate` and `hd escalations`: calling people, and their answers.

use super::relic::text_or_stdin;
use crate::cli::args::EscalationsVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::{lists, outcome_lines};
use crate::control::protocol::Op;
use crate::control::protocol::args::{Escalate, Nothing};

pub(super) fn escalate(mut args: Escalate, context: &mut Context) -> Result<(), CliError> {
    args.evidence = text_or_stdin(args.evidence)?;
    context.show(&Op::Escalate(args), outcome_lines::escalated)
}

pub(super) fn escalations(
    verb: Option<EscalationsVerb>,
    context: &mut Context,
) -> Result<(), CliError> {
    match verb {
        None => context.show_list(&Op::Escalations(Nothing {}), lists::escalations),
        Some(EscalationsVerb::Ack(args)) => {
            context.show(&Op::EscalationsAck(args), outcome_lines::acked)
        }
    }
}
