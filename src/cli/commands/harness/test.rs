//! `hd harness test`: runs the conformance kit on a harness.

use std::path::Path;

use serde_json::json;

use crate::cli::args::HarnessTest;
use crate::cli::city::City;
use crate::cli::commands::supervisor::{self, Lives};
use crate::cli::context::Context;
use crate::cli::environment;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::cli::render::harness as render;
use crate::config::Loaded;
use crate::control::client::Client;
use crate::control::protocol::Op;
use crate::control::protocol::args::Stop;
use crate::domain::city::Harness;
use crate::kit::bench::Bench;
use crate::kit::cases::{self, Case};
use crate::kit::kit_dir::KitDir;
use crate::kit::model::Model;
use crate::kit::outcome::Outcome;
use crate::kit::programs::{self, Pointed, Pointing, Program};

use super::survey;

pub(super) fn run(
    args: &HarnessTest,
    loaded: &Loaded,
    harness: &Harness,
    context: &Context,
) -> Result<(), CliError> {
    let mut wanted: Vec<Case> = Case::ALL.to_vec();
    wanted.retain(|case| args.case.is_empty() || args.case.contains(case));
    let shown = survey::one(loaded, harness);
    if shown["found"] == false {
        let program = shown["program"].as_str().unwrap_or("(none)");
        let message = format!("there is no program {program} for harness {}", harness.name);
        return Err(CliError::usage(message).hint("install it, or name it in its `command`"));
    }
    if shown["refuses_root"] == true {
        // Each start would end at once, and the next one, with reduced permissions, would seem to work.
        let message = format!("{} refuses to run as root in its full mode", harness.name);
        return Err(CliError::usage(message).hint("run this as another user"));
    }
    let program = programs::of(harness);
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut tell = |outcome: Outcome| {
        let told = match context.json {
            true => Ok(()),
            false => output::line(&render::outcome(&outcome, outcomes.last(), context.style)),
        };
        outcomes.push(outcome);
        told
    };
    match program.pointing {
        Pointing::Impossible(why) => {
            let untried = wanted.iter().map(|case| cases::untried(*case, why));
            untried.into_iter().try_for_each(&mut tell)?;
        }
        Pointing::By(point) => {
            let model = Model::start().doing("the scripted model")?;
            let pointed = point(&model.url());
            let trial = Trial {
                harness,
                program,
                args,
            };
            trial.run(loaded, model, &pointed, &wanted, &mut tell)?;
        }
    }
    let held = outcomes.iter().any(|outcome| outcome.result.is_ok())
        && !outcomes.iter().any(Outcome::is_failure);
    if context.json {
        let cases: Vec<_> = outcomes.iter().map(Outcome::to_json).collect();
        output::json(&json!({
            "harness": harness.name, "file": shown["file"], "version": shown["version"],
            "held": held, "cases": cases,
        }))?;
    }
    let count = outcomes
        .iter()
        .filter(|outcome| outcome.is_failure())
        .count();
    match (held, count) {
        (true, _) => Ok(()),
        (false, 0) => Err(CliError::failed("no case could be run")),
        (false, 1) => Err(CliError::failed("a case failed")),
        (false, many) => Err(CliError::failed(format!("{many} cases failed"))),
    }
}

/// A harness under test.
struct Trial<'a> {
    harness: &'a Harness,
    program: Program,
    args: &'a HarnessTest,
}

impl Trial<'_> {
    fn run(
        &self,
        loaded: &Loaded,
        model: Model,
        pointed: &Pointed,
        wanted: &[Case],
        tell: &mut impl FnMut(Outcome) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let temp = tempfile::Builder::new().prefix("horde-kit-").tempdir();
        let mut temp = temp.doing("a temporary directory")?;
        temp.disable_cleanup(self.args.keep);
        let root = temp.path().canonicalize().doing("a temporary directory")?;
        let settings = survey::settings(loaded);
        let settings = settings.get(self.harness.name.as_str());
        let settings = settings.and_then(|own| own.as_object()).cloned();
        let settings = settings.unwrap_or_default();
        let place = KitDir::make(&root, &self.harness.name, &settings, pointed);
        let place = place.doing(root.display())?;
        if self.args.keep {
            output::message(&format!("hd: the city is {}", place.city.display()));
        }
        let own = environment::all();
        let city = City {
            root: place.city.clone(),
            socket: place.socket.clone(),
        };
        let mut supervisor = supervisor::start_in(&place.environment(&own), &city, Lives::WithUs)?;
        supervisor.ready(&city)?;
        let bench = Bench {
            place,
            model,
            program: self.program,
            hd: supervisor::program()?.with_file_name("hd"),
            limit: self.args.limit,
            resumes: !self.harness.resume.is_empty(),
            says_logged_out: !pointed.login.is_empty(),
            record: self.args.record.clone(),
            short: self.args.short,
            tell: |what| output::message(&format!("hd: {what}")),
        };
        let told = cases::run(&bench, wanted, tell);
        if bench.is_up() {
            stop(&city.socket)?;
        }
        let ended = supervisor.wait();
        told?;
        ended
    }
}

fn stop(socket: &Path) -> Result<(), CliError> {
    let stop = Op::Stop(Stop {
        keep_sessions: false,
    });
    Client::connect(socket)?.call(&stop)?;
    Ok(())
}
