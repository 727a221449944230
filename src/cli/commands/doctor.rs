//! `hd doctor`: what the supervisor finds, and what can be seen without one.

mod local;

use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::show;
use crate::control::protocol::args;
use crate::control::protocol::{Exit, Op};
use crate::domain::doctor::{Finding, Kind};

pub(super) fn run(args: args::Doctor, context: &mut Context) -> Result<(), CliError> {
    let (city, fix) = (context.city()?, args.fix);
    // First: whether this caller may mend anything is for the supervisor to say.
    let mut their_git = Value::Null;
    let (mut findings, exit) = match context.ask(&Op::Doctor(args)) {
        Ok(mut answer) => {
            their_git = answer["git"].take();
            (found(answer["findings"].take())?, Exit::Failed)
        }
        Err(error) if error.exit == Exit::Unreachable => {
            let hint = "`hd up -d` starts it; sessions, sandboxes and branches are looked at then";
            let away = Finding::new(Kind::Supervisor, city.root.display(), error.message, hint);
            (vec![away], Exit::Unreachable)
        }
        Err(error) => return Err(error),
    };
    findings.extend(local::look(
        &city,
        &context.city_file()?,
        fix,
        their_git.as_str(),
    ));
    let left = findings.iter().filter(|finding| !finding.fixed).count();
    let result = json!({ "ok": left == 0, "findings": findings });
    context.print(&result, show::findings)?;
    match left {
        0 => Ok(()),
        1 => Err(CliError::new(exit, "something is wrong")),
        _ => Err(CliError::new(exit, format!("{left} things are wrong"))),
    }
}

fn found(findings: Value) -> Result<Vec<Finding>, CliError> {
    let found = serde_json::from_value(findings);
    found.map_err(|error| CliError::failed(format!("the supervisor's findings: {error}")))
}
