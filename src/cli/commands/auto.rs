//! `hd auto`: automations.

use serde_json::Value;

use crate::cli::args::AutoVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::{lists, outcome_lines, show};
use crate::control::client::Flow;
use crate::control::protocol::Op;
use crate::control::protocol::args::{AutoRef, Events, Nothing};

pub(super) fn run(verb: AutoVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        AutoVerb::List => context.show(&Op::AutoList(Nothing {}), lists::automations),
        AutoVerb::Run(args) if args.wait => wait(args.run, context),
        AutoVerb::Run(args) => context.show(&Op::AutoRun(args.run), outcome_lines::begun),
        AutoVerb::History(args) => context.show(&Op::AutoHistory(args), lists::runs),
        AutoVerb::Enable(args) => context.show(&Op::AutoEnable(args), outcome_lines::switched),
        AutoVerb::Disable(args) => context.show(&Op::AutoDisable(args), outcome_lines::switched),
    }
}

/// Runs the automation, waits for the event of its end, and shows that.
fn wait(args: AutoRef, context: &mut Context) -> Result<(), CliError> {
    let begun = context.ask(&Op::AutoRun(args))?;
    let events = Op::Events(Events {
        follow: true,
        since: begun.get("seq").and_then(Value::as_u64),
        kind: Some("automation.*".to_owned()),
    });
    let mut end = None;
    context.client()?.stream(&events, |event| {
        let is_end = event.get("type").and_then(Value::as_str) != Some("automation.skipped");
        if is_end && event.pointer("/data/run") == begun.get("run") {
            end = Some(event);
            return Ok::<_, CliError>(Flow::Stop);
        }
        Ok(Flow::Continue)
    })?;
    let Some(end) = end else {
        return Err(CliError::failed("the supervisor stopped before the end"));
    };
    context.print(&end, show::run)?;
    if end.get("type").and_then(Value::as_str) == Some("automation.completed") {
        return Ok(());
    }
    let why = end.get("cause").and_then(Value::as_str).unwrap_or_default();
    Err(CliError::failed(format!("it failed: {why}")))
}
