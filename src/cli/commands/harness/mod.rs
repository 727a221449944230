//! `hd harness`: the programs that work as raiders and agents.

pub(super) mod inspect;
mod settings_file;
mod setup;
mod survey;
mod test;

use std::fs;

use crate::cli::args::HarnessVerb;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::render::harness;
use crate::config::{Env, FILE, Loaded, load as load_file};
use crate::control::protocol::{Exit, Op};
use crate::domain::city::Harness;
use crate::domain::ids::HarnessName;
use crate::domain::suggest::closest;

use super::config;

pub(super) fn run(verb: HarnessVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        HarnessVerb::Resume(args) => context.show(&Op::HarnessResume(args), harness::resumed),
        HarnessVerb::List => context.print(&survey::all(&load(context)?), harness::list),
        HarnessVerb::Show { name } => {
            let loaded = load(context)?;
            let shown = survey::one(&loaded, find(&loaded, &name)?);
            context.print(&shown, harness::show)
        }
        HarnessVerb::Setup(args) => {
            let loaded = load(context)?;
            setup::run(&args, &loaded, find(&loaded, &args.name)?, context)
        }
        HarnessVerb::Test(args) => {
            let loaded = load(context)?;
            test::run(&args, &loaded, find(&loaded, &args.name)?, context)
        }
    }
}

/// Loads the configuration. Outside a city that is an empty one, so that the presets can be shown.
fn load(context: &Context) -> Result<Loaded, CliError> {
    match context.city_file() {
        Ok(_) => config::load(context),
        Err(_) => presets(),
    }
}

fn presets() -> Result<Loaded, CliError> {
    let temp = tempfile::tempdir().doing("a temporary directory")?;
    let file = temp.path().join(FILE);
    fs::write(&file, "[workspace]\nname = \"presets\"\n").doing(file.display())?;
    let loaded = load_file(&file, &Env::of_process());
    loaded.map_err(|errors| CliError::failed(errors.render(false)))
}

fn find<'a>(loaded: &'a Loaded, name: &str) -> Result<&'a Harness, CliError> {
    let all = &loaded.city.harnesses;
    let found = all.values().find(|harness| harness.name.as_str() == name);
    found.ok_or_else(|| {
        let names = || all.keys().map(HarnessName::as_str);
        let hint = match closest(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        CliError::new(Exit::NotFound, format!("there is no harness {name}")).hint(hint)
    })
}
