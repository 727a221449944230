//! `hd doctor`: the supervisor's findings, and checks that need no supervisor.

mod local;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::harness::inspect::{self, Machine};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::show;
use crate::config;
use crate::control::protocol::{Exit, Op, answers, args};
use crate::domain::budget;
use crate::domain::doctor::{Finding, Kind};

pub(super) fn run(args: args::Doctor, context: &mut Context) -> Result<(), CliError> {
    let (city, fix) = (context.city()?, args.fix);
    // The supervisor comes first, because it decides whether this caller may fix anything.
    let (mut their_git, mut machine) = (None, Machine::here());
    let mut answered = true;
    let (mut findings, exit) = match context.ask::<answers::Doctor>(&Op::Doctor(args)) {
        Ok(answer) => {
            their_git = answer.git;
            machine = of_supervisor(answer.environment, &city.socket, machine);
            (answer.findings, Exit::Failed)
        }
        Err(error) if error.exit == Exit::Unreachable => {
            let hint =
                "`hd up -d` starts it; then sessions, sandboxes and branches are checked, too";
            answered = false;
            let away = Finding::new(Kind::Supervisor, city.root.display(), error.message, hint);
            (vec![away], Exit::Unreachable)
        }
        // An answer that does not fit is a fault to find, too: that of two versions.
        Err(error) if error.exit == Exit::Failed => {
            let hint = error.hint.unwrap_or_default();
            let misfit = Finding::new(Kind::Supervisor, city.root.display(), error.message, hint);
            (vec![misfit], Exit::Failed)
        }
        Err(error) => return Err(error),
    };
    let local = local::check(&city, &context.city_file()?, fix, their_git.as_deref());
    if local.iter().any(|finding| finding.kind == Kind::Config) {
        // The supervisor has refused the same files: one finding is enough.
        findings.retain(|finding| finding.kind != Kind::Config);
    }
    findings.extend(local);
    if let Ok(loaded) = config::load(&context.city_file()?, &config::Env::of_process()) {
        findings.extend(inspect::findings(&loaded, &machine, !answered));
        let blind = budget::blind(&loaded.city).into_iter();
        findings.extend(
            blind.map(|blind| Finding::new(Kind::Config, &blind.scope, blind.says(), blind.hint())),
        );
    }
    let left = findings.iter().filter(|finding| !finding.fixed).count();
    let result = json!({ "ok": left == 0, "findings": findings });
    context.print(&result, |_, style| show::findings(&findings, style))?;
    match left {
        0 => Ok(()),
        1 => Err(CliError::new(exit, "1 problem found")),
        _ => Err(CliError::new(exit, format!("{left} problems found"))),
    }
}

/// Returns the machine as the supervisor sees it: of API keys it only tells the names. The socket belongs to the
/// supervisor's user.
fn of_supervisor(
    environment: BTreeMap<String, Option<String>>,
    socket: &Path,
    here: Machine,
) -> Machine {
    let own = environment.into_iter();
    let own = own.map(|(name, value)| (name, value.unwrap_or_else(|| "set".to_owned())));
    let owner = fs::metadata(socket).map(|meta| meta.uid());
    Machine {
        own: own.collect(),
        root: owner.map_or(here.root, |uid| uid == 0),
    }
}
