//! `hd raider`: operations on raiders from outside, as far as the safety protocol permits.

use crate::cli::args::RaiderVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render::{lists, outcome_lines, show};
use crate::control::protocol::answers::{Rehearsed, Would};
use crate::control::protocol::args::{Named, RaiderNuke};
use crate::control::protocol::{Exit, Op, no_such_transition};

pub(super) fn run(verb: RaiderVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        RaiderVerb::List(args) => context.show_list(&Op::RaiderList(args), lists::raiders),
        RaiderVerb::Show(args) => context.show(&Op::RaiderShow(args), show::raider),
        RaiderVerb::Nuke(args) if args.dry_run => rehearse(args, context),
        RaiderVerb::Nuke(mut args) => {
            if !context.yes && Context::can_ask() {
                args.incarnation = losses(&args, context)?;
            } else if !context.yes {
                // A raider that does not exist needs no consent.
                let name = args.name.clone();
                context.ask_raw(&Op::RaiderShow(Named { name }))?;
            }
            let what = "end its session, sandbox and slot";
            context.consent(&format!("nuke {}: {what}?", args.name))?;
            args.yes = true;
            context.show(&Op::RaiderNuke(args), outcome_lines::nuke)
        }
        RaiderVerb::Repair(mut args) => {
            let what = "end its session, save its work, rebuild its sandbox";
            context.consent(&format!("repair {}: {what}?", args.name))?;
            args.yes = true;
            context.show(&Op::RaiderRepair(args), outcome_lines::repaired)
        }
        RaiderVerb::Suspend(args) => context.show(&Op::RaiderSuspend(args), outcome_lines::child),
        RaiderVerb::Resume(args) => context.show(&Op::RaiderResume(args), outcome_lines::child),
        RaiderVerb::Unquarantine(args) => {
            context.show(&Op::AgentUnquarantine(args), outcome_lines::child)
        }
        RaiderVerb::Done { .. } => Err(no_such_transition("done").into()),
        RaiderVerb::Reset { .. } => Err(no_such_transition("reset").into()),
    }
}

/// Rehearses a nuke; answers and exit code are those of the nuke itself.
fn rehearse(args: RaiderNuke, context: &mut Context) -> Result<(), CliError> {
    let told: Rehearsed =
        context.show_and_return(&Op::RaiderNuke(args), outcome_lines::rehearsed)?;
    if told.would != Would::Refuse {
        return Ok(());
    }
    let message = told.message.as_deref().unwrap_or("work would be lost");
    let mut error = CliError::new(Exit::Refused, message);
    error.hint = told.hint;
    Err(error)
}

/// Shows the losses before consent is asked for. Returns the incarnation that the consent is for.
fn losses(args: &RaiderNuke, context: &mut Context) -> Result<Option<u64>, CliError> {
    let look = RaiderNuke {
        dry_run: true,
        ..args.clone()
    };
    let looked: Rehearsed = context.ask(&Op::RaiderNuke(look))?;
    let seen = Some(looked.incarnation.0);
    if looked.safe {
        let safe = format!("hd: no work of {} would be lost", args.name);
        output::message(&outcome_lines::with_ignored(safe, &looked.ignored));
        return Ok(seen);
    }
    let what = outcome_lines::refused(&looked);
    if args.salvage && looked.would != Would::Refuse {
        output::message(&format!("hd: {what}\nhd: salvage refs will keep the work"));
        return Ok(seen);
    }
    let mut error = CliError::new(Exit::Refused, what);
    error.hint = looked.hint;
    Err(error)
}
