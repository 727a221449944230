//! `hd relic`: units of work.

mod transfer;

use std::path::{self, Path};

use serde::de::DeserializeOwned;

use crate::cli::args::{DepVerb, RelicEditing, RelicVerb};
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output::Style;
use crate::cli::render::{lists, outcome_lines, show};
use crate::control::protocol::Op;
use crate::control::protocol::answers::Shown;
use crate::control::protocol::args::{RelicCancel, RelicClose, RelicList, RelicReady, RelicRef};
use crate::domain::relic::RelicStatus;

/// The number of relics that a list shows unless another one is asked for.
const SHOWN: u64 = 500;

pub(super) fn run(verb: RelicVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        RelicVerb::Create(mut args) => {
            args.body = text_or_stdin(args.body)?;
            context.show(&Op::RelicCreate(args), outcome_lines::noted)
        }
        RelicVerb::Show(args) => context.show(&Op::RelicShow(args), show::relic),
        RelicVerb::List(args) => {
            let op = |limit| {
                let args = args.clone();
                Op::RelicList(RelicList { limit, ..args })
            };
            limited(context, args.limit, op, lists::relics)
        }
        RelicVerb::Close(args) => close(args, context),
        RelicVerb::Reopen(args) => context.show(&Op::RelicReopen(args), outcome_lines::relic),
        RelicVerb::Ready(args) => {
            let op = |limit| {
                let args = args.clone();
                Op::RelicReady(RelicReady { limit, ..args })
            };
            limited(context, args.limit, op, lists::ready)
        }
        RelicVerb::Edit(args) => edit(args, context),
        RelicVerb::Dep(verb) => dep(verb, context),
        RelicVerb::Cancel(args) => cancel(args, context),
        RelicVerb::Export(args) => transfer::export(args, context),
        RelicVerb::Import(args) => transfer::import(&args, context),
    }
}

/// Shows the first relics of a list, and says when there are more. With `--json` the answer is shown as it comes, and is
/// as long as `--limit` says.
fn limited<T: DeserializeOwned>(
    context: &mut Context,
    asked: Option<u64>,
    op: impl FnOnce(Option<u64>) -> Op,
    render: fn(&[T], Style) -> String,
) -> Result<(), CliError> {
    if context.json {
        return context.show_list(&op(asked), render);
    }
    let limit = asked.unwrap_or(SHOWN);
    // One more than is shown tells that there are more.
    let op = op(Some(limit.saturating_add(1)));
    context.show_list(&op, |items, style| {
        let shown = usize::try_from(limit).unwrap_or(usize::MAX);
        let text = render(&items[..items.len().min(shown)], style);
        match items.len() > shown {
            true => format!("{text}\n{}", lists::more(limit, style)),
            false => text,
        }
    })
}

fn edit(args: RelicEditing, context: &mut Context) -> Result<(), CliError> {
    let RelicEditing {
        mut edit,
        body_file,
    } = args;
    edit.body = match body_file {
        Some(path) => Some(transfer::body(&path)?),
        None => edit.body.map(text_or_stdin).transpose()?,
    };
    context.show(&Op::RelicEdit(edit), outcome_lines::noted)
}

fn dep(verb: DepVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        DepVerb::Add(args) => context.show(&Op::RelicDepAdd(args), outcome_lines::waits_for),
        DepVerb::Remove(args) => context.show(&Op::RelicDepRemove(args), outcome_lines::waits_for),
        DepVerb::List(mut args) => {
            if !context.json {
                args.limit = args.limit.or(Some(SHOWN));
            }
            context.show(&Op::RelicDepList(args), show::deps)
        }
    }
}

/// Cancels a relic. The question names what ends with it.
pub(super) fn cancel(mut args: RelicCancel, context: &mut Context) -> Result<(), CliError> {
    if !context.yes {
        // A relic that does not exist needs no consent.
        let relic = args.relic.clone();
        let shown: Shown = context.ask(&Op::RelicShow(RelicRef { relic }))?;
        let relic = shown.relic();
        let what = match (relic.status == RelicStatus::Hooked, &relic.assignee) {
            (true, Some(raider)) => {
                format!("end the work of {raider} on {}, and close it", args.relic)
            }
            _ => format!("close {} for good", args.relic),
        };
        context.consent(&format!("{what}?"))?;
    }
    args.yes = true;
    context.show(&Op::RelicCancel(args), outcome_lines::cancelled)
}

/// Closes a relic. Closing a hooked one ends a raider's work, so that needs consent; the supervisor decides.
fn close(mut args: RelicClose, context: &mut Context) -> Result<(), CliError> {
    args.yes = context.yes;
    if !args.yes {
        let relic = args.relic.clone();
        let shown: Shown = context.ask(&Op::RelicShow(RelicRef { relic }))?;
        let relic = shown.relic();
        if relic.status == RelicStatus::Hooked {
            let raider = relic.raider.as_ref().map(ToString::to_string);
            let raider = raider.unwrap_or_else(|| "a raider".to_owned());
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
    transfer::body(Path::new(&text))
}

/// Returns the path relative to this working directory as an absolute one: the supervisor has another.
pub(super) fn absolute(path: &str) -> Result<String, CliError> {
    let absolute = path::absolute(path).doing(path)?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|path| CliError::usage(format!("{} is not UTF-8", path.display())))
}
