//! `hd diff`: a patch with colours, in the user's pager.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::control::protocol::Op;
use crate::control::protocol::args::Diff;
use crate::domain::ids::Oid;
use crate::domain::{shown, work_diff};

use super::super::context::Context;
use super::super::environment;
use super::super::error::CliError;
use super::super::output;
use super::super::render::patch;

/// Shows what a raider or a merge request changes. On a terminal it is shown in a pager.
pub(super) fn run(args: Diff, context: &mut Context) -> Result<(), CliError> {
    let op = Op::Diff(args);
    if context.json {
        return context.show(&op, patch::patch);
    }
    let diff = context.ask(&op)?;
    let text = patch::patch(&diff, context.style);
    if diff.files.is_empty() && diff.left_out.is_empty() {
        return output::line(&nothing(&diff));
    }
    let note = patch::note(&diff, context.style);
    if !context.on_terminal() {
        // The patch alone can be applied.
        if let Some(note) = note {
            output::message(&note);
        }
        return output::line(&text);
    }
    let text = note.into_iter().chain([text]).collect::<Vec<_>>();
    let text = text.join("\n");
    match pager() {
        Some(command) => in_pager(&command, &text),
        None => output::line(&text),
    }
}

fn nothing(diff: &work_diff::Diff) -> String {
    if let Some(note) = &diff.note {
        return format!("no changes ({})", shown::line(note));
    }
    match diff.base.as_ref().map(Oid::as_str) {
        Some(base) => format!("no changes since {}", base.get(..8).unwrap_or(base)),
        None => "no changes".to_owned(),
    }
}

/// Returns the user's pager, as git finds it. The configuration of a repository is not asked: an agent may have written it.
fn pager() -> Option<String> {
    let of_environment = || environment::text("GIT_PAGER");
    let command = of_environment()
        .or_else(of_user)
        .or_else(|| environment::text("PAGER"))
        .unwrap_or_else(|| "less".to_owned());
    (command != "cat").then_some(command)
}

fn of_user() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "git tells the user's own pager")]
    let asked = Command::new("git")
        .args(["config", "--global", "--get", "core.pager"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let command = String::from_utf8(asked.stdout).ok()?;
    let command = command.trim();
    (asked.status.success() && !command.is_empty()).then(|| command.to_owned())
}

/// Shows the text in a pager, or prints it if there is none.
fn in_pager(command: &str, text: &str) -> Result<(), CliError> {
    let text = shown::painted(text);
    #[expect(
        clippy::disallowed_methods,
        reason = "the user's pager runs in the user's terminal"
    )]
    let mut shell = Command::new("sh");
    // As git sets it: colours, no clearing of the screen, and an end at once where one screen is enough.
    if environment::raw("LESS").is_none() {
        shell.env("LESS", "FRX");
    }
    // Some pagers read the configuration of the repository that they run in: it may be a sandbox.
    shell.current_dir("/");
    let started = shell.args(["-c", command]).stdin(Stdio::piped()).spawn();
    let Ok(mut pager) = started else {
        return output::line(&text);
    };
    if let Some(mut input) = pager.stdin.take() {
        // A pager that was left early reads no more.
        let _left = input.write_all(text.as_bytes());
    }
    match pager.wait() {
        Ok(status) if status.code() == Some(127) => output::line(&text),
        Ok(_) => Ok(()),
        Err(error) => Err(CliError::failed(format!("the pager {command}: {error}"))),
    }
}
