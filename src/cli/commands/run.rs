//! `hd run`: makes a relic of each task and charges it; on a terminal it follows the relics until they have landed, or
//! wait for a person.

use std::path::Path;

use super::input_file;
use crate::cli::args::Run;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::render::show;
use crate::control::protocol::answers::{self, Started, StartedRelic};
use crate::control::protocol::args::{Status, Task};
use crate::control::protocol::{Exit, LINE_MAX, Op};

mod follow;

use follow::Follow;

/// The bytes of a file of tasks: they go to the supervisor in one request.
const TASKS_MAX: u64 = LINE_MAX as u64 / 2;

pub(super) fn run(mut args: Run, context: &mut Context) -> Result<(), CliError> {
    if let Some(file) = &args.file {
        args.run.task.extend(listed(file)?);
    }
    let follow = context.on_terminal() && !args.detach;
    // Before the relics are made, so that no event is missed.
    let since = match follow {
        true => Some(last_event(context)?),
        false => None,
    };
    let started = context.show_and_return(&Op::Run(args.run), show::started)?;
    uncharged(&started)?;
    match since {
        Some(since) => Follow::of(&started).finish(context, since),
        None => Ok(()),
    }
}

/// Reads the tasks of a file.
fn listed(file: &Path) -> Result<Vec<Task>, CliError> {
    let shown = input_file::shown(file);
    let text = input_file::text(file, TASKS_MAX, "nothing was done; split it")?;
    let tasks = Task::read_lines(&text);
    match tasks.map_err(|why| CliError::usage(format!("{shown}: {why}")))? {
        none if none.is_empty() => Err(CliError::usage(format!("{shown} has no task"))),
        tasks => Ok(tasks),
    }
}

/// Fails with the first error of a charge, after the list of relics was printed: all of them were made, and a second
/// `run` would duplicate them.
fn uncharged(started: &Started) -> Result<(), CliError> {
    let failed = started.relics.iter().find_map(|relic| match relic {
        StartedRelic::Failed(failed) => Some((&failed.relic, failed.error.clone())),
        StartedRelic::Charged(_) | StartedRelic::Waits(_) => None,
    });
    let Some((relic, mut error)) = failed else {
        return Ok(());
    };
    error.message = format!(
        "{relic} was created, but could not be charged: {}",
        error.message
    );
    let again = format!("charge it with `hd charge {relic}`, unless `auto_charge` does");
    error.hint = Some(
        error
            .hint
            .map_or(again.clone(), |hint| format!("{hint}; {again}")),
    );
    let mut error = CliError::from(error);
    if error.exit == Exit::Unreachable {
        // The supervisor answers, so the exit code must not say that it is unreachable.
        error.exit = Exit::Failed;
    }
    Err(error)
}

/// Returns the number of the newest event, which `status` tells.
pub(super) fn last_event(context: &mut Context) -> Result<u64, CliError> {
    let status: answers::Status = context.ask(&Op::Status(Status::default()))?;
    Ok(status.seq)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::protocol::{ControlError, ErrorKind};
    use crate::testing::samples::sample;

    #[test]
    fn a_charge_that_failed_is_told_with_its_relic() {
        let error = ControlError::new(ErrorKind::Timeout, "no answer");
        let started = sample(json!({"relics": [
            {"relic": "gt-1", "raider": "horde/raiders/Toast"},
            {"relic": "gt-2", "raider": null, "note": "no free slot", "rig": "horde"},
            {"relic": "gt-3", "raider": null, "note": "no answer", "error": error},
        ]}));
        let error = uncharged(&started).unwrap_err();
        assert_eq!(error.exit, Exit::TimedOut);
        assert!(error.message.contains("gt-3") && error.message.contains("no answer"));
        assert!(uncharged(&Started { relics: Vec::new() }).is_ok());
        let away = ControlError::new(ErrorKind::Unavailable, "the remote is away");
        let relic = json!({"relic": "gt-4", "raider": null, "note": "away", "error": away});
        let started = sample(json!({ "relics": [relic] }));
        assert_eq!(uncharged(&started).unwrap_err().exit, Exit::Failed);
    }
}
