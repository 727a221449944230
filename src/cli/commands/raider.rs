//! `hd raider`: what the safety protocol allows to be done with raiders from outside.

use crate::cli::args::RaiderVerb;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::{lists, show};
use crate::control::protocol::{Op, no_such_transition};

pub(super) fn run(verb: RaiderVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        RaiderVerb::List(args) => context.show(&Op::RaiderList(args), lists::raiders),
        RaiderVerb::Show(args) => context.show(&Op::RaiderShow(args), show::facts),
        RaiderVerb::Nuke(mut args) => {
            if !args.dry_run {
                let what = "end its session, sandbox and slot";
                context.consent(&format!("nuke {}: {what}?", args.name))?;
                args.yes = true;
            }
            context.show(&Op::RaiderNuke(args), show::facts)
        }
        RaiderVerb::Repair(mut args) => {
            context.consent(&format!("make the sandbox of {} anew?", args.name))?;
            args.yes = true;
            context.show(&Op::RaiderRepair(args), show::facts)
        }
        RaiderVerb::Suspend(args) => context.show(&Op::RaiderSuspend(args), show::facts),
        RaiderVerb::Resume(args) => context.show(&Op::RaiderResume(args), show::facts),
        RaiderVerb::Done { .. } => Err(no_such_transition("done").into()),
        RaiderVerb::Reset { .. } => Err(no_such_transition("reset").into()),
    }
}
