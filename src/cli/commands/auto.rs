//! `hd auto`: automations.

use crate::cli::answer;
use crate::cli::args::AutoVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::{lists, outcome_lines, show};
use crate::control::client::Flow;
use crate::control::protocol::answers::{BegunRun, Event};
use crate::control::protocol::args::{AutoRef, Events, Nothing};
use crate::control::protocol::{Op, OpName};
use crate::domain::event::EventType;
use crate::domain::event_data::RunEnded;

pub(super) fn run(verb: AutoVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        AutoVerb::List => context.show_list(&Op::AutoList(Nothing {}), lists::automations),
        AutoVerb::Run(args) if args.wait => wait(args.run, context),
        AutoVerb::Run(args) => context.show(&Op::AutoRun(args.run), outcome_lines::begun),
        AutoVerb::History(args) => context.show_list(&Op::AutoHistory(args), lists::runs),
        AutoVerb::Enable(args) => context.show(&Op::AutoEnable(args), outcome_lines::switched),
        AutoVerb::Disable(args) => context.show(&Op::AutoDisable(args), outcome_lines::switched),
    }
}

/// Runs the automation, waits for the event of its end, and shows that.
fn wait(args: AutoRef, context: &mut Context) -> Result<(), CliError> {
    let begun: BegunRun = context.ask(&Op::AutoRun(args))?;
    let events = Op::Events(Events {
        follow: true,
        since: Some(begun.seq),
        kind: Some("automation.*".to_owned()),
    });
    let mut end = None;
    context.client()?.stream(&events, |item| {
        let event: Event = answer::read(OpName::Events, &item)?;
        let ended = event.read::<RunEnded>();
        if ended.is_some_and(|ended| ended.run == begun.run) {
            end = Some((item, event));
            return Ok::<_, CliError>(Flow::Stop);
        }
        Ok(Flow::Continue)
    })?;
    let Some((item, end)) = end else {
        return Err(CliError::failed("the supervisor stopped before the end"));
    };
    context.print_raw(OpName::Events, &item, show::run)?;
    if end.known() == Some(EventType::AutomationCompleted) {
        return Ok(());
    }
    Err(CliError::failed(format!("it failed: {}", end.cause)))
}
