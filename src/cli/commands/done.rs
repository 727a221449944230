//! `hd done`: declares that the work is finished. Without a supervisor the declaration is left in the outbox, so that
//! an agent never has to wait, retry or give up.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cli::context::Context;
use crate::cli::environment;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::cli::render::outcome_lines;
use crate::control::client::Client;
use crate::control::protocol::{self, ControlError, ErrorKind, Intent, Op, args};
use crate::domain::ids::RaiderId;
use crate::domain::intent::KEY_VARIABLE;
use crate::regular;

pub(super) fn run(args: args::Done, context: &mut Context) -> Result<(), CliError> {
    // Before the outbox would take it.
    if let Some(misfit) = args.misfit() {
        return Err(ControlError::bad_request(misfit).into());
    }
    let op = Op::Done(args);
    let city = context.city()?;
    let answer = Client::connect(&city.socket).and_then(|mut client| client.call(&op));
    match answer {
        Err(error) if error.kind == ErrorKind::Unavailable => {
            let file = leave(&city.root, &op, &error)?;
            output::message(&format!("hd: {error}"));
            output::message(
                "hd: your completion is saved; the supervisor handles it as soon as it can",
            );
            let result = serde_json::json!({"outbox": file, "accepted": false});
            context.print(&result, outcome_lines::left_in_outbox)
        }
        Err(error) => Err(error.into()),
        Ok(result) => context.print_raw(op.name(), &result, outcome_lines::done),
    }
}

/// Writes the intent atomically and durably.
#[expect(
    clippy::disallowed_methods,
    reason = "the declaration is dated where no supervisor can do it"
)]
fn leave(root: &Path, op: &Op, away: &ControlError) -> Result<PathBuf, CliError> {
    let intent = Intent {
        v: protocol::VERSION,
        op: op.name().to_string(),
        args: op.args(),
        raider: environment::text("HD_RAIDER").and_then(|_| environment::text("HD_ACTOR")),
        rig: environment::text("HD_RIG"),
        incarnation: environment::text("HD_INCARNATION").and_then(|number| number.parse().ok()),
        relic: environment::text("HD_RELIC"),
        session: environment::text("HD_SESSION"),
        cwd: env::current_dir().doing("the working directory")?,
        pid: std::process::id(),
        at: Timestamp::now(),
        mac: None,
    };
    if intent.raider.is_none() {
        return Err(CliError::new(
            protocol::Exit::Unreachable,
            "the supervisor cannot be reached, and this process is not in a raider's session",
        )
        .hint("run `hd done` inside a session"));
    }
    let actor: Option<RaiderId> = intent.raider.as_deref().and_then(|it| it.parse().ok());
    let sandbox = actor.map(|it| {
        root.join(it.rig.as_str())
            .join("raiders")
            .join(it.name.as_str())
    });
    let within = sandbox.as_ref().and_then(|it| fs::canonicalize(it).ok());
    if !within.is_some_and(|sandbox| intent.cwd.starts_with(sandbox)) {
        let why = "the supervisor cannot be reached, and outside your sandbox no completion can be saved for it";
        let error = CliError::new(protocol::Exit::Unreachable, why);
        return Err(match sandbox {
            Some(sandbox) => error.hint(format!("run it in your sandbox, {}", sandbox.display())),
            None => error,
        });
    }
    let key = environment::text(KEY_VARIABLE).ok_or_else(|| {
        let why =
            format!("{away}; the completion cannot be saved: this session has no key to sign it");
        let hint = "run it again when the supervisor runs";
        CliError::new(protocol::Exit::Unreachable, why).hint(hint)
    })?;
    let intent = intent
        .signed(&key)
        .map_err(|error| CliError::failed(error.to_string()))?;
    let dir = root.join(".horde/outbox");
    write(&dir, &intent).map_err(|error| {
        let message = format!("{away}; the completion cannot be saved: {error}");
        let hint = "no work is lost: run it again when the outbox can be written";
        CliError::new(protocol::Exit::Unreachable, message).hint(hint)
    })
}

fn write(dir: &Path, intent: &Intent) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let text = serde_json::to_vec_pretty(intent)?;
    // A name with a leading dot is not yet an intent.
    let file = tempfile::Builder::new().prefix(".new-").tempfile_in(dir);
    let mut file = file.map_err(regular::of_temporary)?;
    file.write_all(&text)?;
    file.as_file().sync_all()?;
    let name = format!("{}-{}.json", intent.at.as_nanosecond(), intent.pid);
    let path = dir.join(name);
    file.persist_noclobber(&path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()?;
    fs::canonicalize(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_whole_and_nothing_else_is_left() {
        let temp = crate::testing::scratch();
        let dir = temp.path().join("outbox");
        let text = include_str!("../../../tests/data/protocol/intent.json");
        let intent: Intent = serde_json::from_str(text).unwrap();
        let path = write(&dir, &intent).unwrap();
        let again: Intent = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(again, intent);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(
            write(&dir, &intent).is_err(),
            "an intent is never overwritten"
        );
    }
}
