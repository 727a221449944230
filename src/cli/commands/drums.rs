//! `hd drums`: mail between raiders, agents and people.

use std::io::{self, IsTerminal};

use super::relic::text_or_stdin;
use crate::cli::args::DrumsVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::drums;
use crate::control::protocol::Op;

pub(super) fn run(verb: DrumsVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        DrumsVerb::Send(mut args) => {
            args.message = message(args.message)?;
            context.show(&Op::DrumsSend(args), drums::sent)
        }
        DrumsVerb::Inbox(args) => context.show(&Op::DrumsInbox(args), drums::inbox),
        DrumsVerb::Read(args) => context.show(&Op::DrumsRead(args), drums::drum),
        DrumsVerb::Reply(mut args) => {
            args.message = message(args.message)?;
            context.show(&Op::DrumsReply(args), drums::sent)
        }
        DrumsVerb::Ack(args) => context.show(&Op::DrumsAck(args), drums::acked),
    }
}

/// Returns the text of a drum. Without one on the command line it comes from standard input; a terminal there means a
/// drum without a text.
fn message(text: Option<String>) -> Result<Option<String>, CliError> {
    let text = match text {
        Some(text) => text,
        None if io::stdin().is_terminal() => return Ok(None),
        None => "-".to_owned(),
    };
    let text = text_or_stdin(text)?;
    Ok(Some(text.trim_end().to_owned()))
}
