//! `hd ritual`, `hd totem` and `hd step`: work in steps.

use crate::cli::args::{RitualVerb, StepVerb, TotemVerb};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::totem;
use crate::control::protocol::Op;
use crate::control::protocol::args::Nothing;

pub(super) fn ritual(verb: RitualVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        RitualVerb::List => context.show_list(&Op::RitualList(Nothing {}), totem::rituals),
        RitualVerb::Show(args) => context.show(&Op::RitualShow(args), totem::ritual),
    }
}

pub(super) fn totem(verb: TotemVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        TotemVerb::Start(args) => context.show(&Op::TotemStart(args), totem::totem),
        TotemVerb::Show(args) => context.show(&Op::TotemShow(args), totem::totem),
    }
}

pub(super) fn step(verb: StepVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        StepVerb::Done(args) => context.show(&Op::StepDone(args), totem::step_done),
    }
}
