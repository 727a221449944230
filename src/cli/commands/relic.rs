//! `hd relic`: units of work.

use std::io;
use std::path;

use serde_json::Value;

use crate::cli::args::RelicVerb;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::render::{lists, outcome_lines, show};
use crate::control::protocol::Op;
use crate::control::protocol::args::{RelicClose, RelicRef};

pub(super) fn run(verb: RelicVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        RelicVerb::Create(mut args) => {
            args.body = text_or_stdin(args.body)?;
            context.show(&Op::RelicCreate(args), outcome_lines::relic)
        }
        RelicVerb::Show(args) => context.show(&Op::RelicShow(args), show::relic),
        RelicVerb::List(args) => context.show(&Op::RelicList(args), lists::relics),
        RelicVerb::Close(args) => close(args, context),
        RelicVerb::Reopen(args) => context.show(&Op::RelicReopen(args), outcome_lines::relic),
    }
}

/// Closes a relic. Closing a hooked one ends a raider's work, so that needs consent; the supervisor decides.
fn close(mut args: RelicClose, context: &mut Context) -> Result<(), CliError> {
    args.yes = context.yes;
    if !args.yes {
        let relic = args.relic.clone();
        let relic = context.ask(&Op::RelicShow(RelicRef { relic }))?;
        if relic.get("status").and_then(Value::as_str) == Some("hooked") {
            let raider = relic.get("raider").and_then(Value::as_str);
            let raider = raider.unwrap_or("a raider");
            context.consent(&format!("{raider} works on {}; close it?", args.relic))?;
            args.yes = true;
        }
    }
    context.show(&Op::RelicClose(args), outcome_lines::relic)
}

/// Returns the text; `-` stands for standard input.
pub(super) fn text_or_stdin(text: String) -> Result<String, CliError> {
    if text != "-" {
        return Ok(text);
    }
    io::read_to_string(io::stdin().lock()).doing("standard input")
}

/// Returns the path relative to this working directory as an absolute one: the supervisor has another.
pub(super) fn absolute(path: &str) -> Result<String, CliError> {
    let absolute = path::absolute(path).doing(path)?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|path| CliError::usage(format!("{} is not UTF-8", path.display())))
}
