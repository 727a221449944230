//! `hd harness setup`: answers in the user's settings of a program the questions that it would ask at its start, unless
//! the harness's arguments and environment answer them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::args::HarnessSetup;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::cli::render::harness as render;
use crate::config::Loaded;
use crate::domain::city::Harness;
use crate::domain::diff;
use crate::domain::jsonc::{self, Edit};
use crate::domain::unattended::{self, Answer};
use crate::kit::programs;

use super::inspect::{Machine, with_start};
use super::settings_file::SettingsFile;

/// A file to be changed.
struct Change {
    file: SettingsFile,
    what: Vec<String>,
    after: String,
}

pub(super) fn run(
    args: &HarnessSetup,
    loaded: &Loaded,
    harness: &Harness,
    context: &Context,
) -> Result<(), CliError> {
    let program = programs::program(&harness.command).unwrap_or_default();
    let Some(known) = unattended::known(program) else {
        let message = format!("the questions that {program:?} asks at its start are unknown");
        return Err(CliError::failed(message)
            .hint("`hd harness test` shows the screen of a program that asks"));
    };
    let machine = Machine::here();
    let asks = with_start(loaded, harness, &machine, |start| {
        unattended::asks(known, start)
    });
    let mut wanted: BTreeMap<PathBuf, Vec<(String, Edit)>> = BTreeMap::new();
    let mut by_hand = Vec::new();
    for ask in asks {
        match ask.answer {
            Answer::Setting { file, edit } => {
                wanted.entry(file).or_default().push((ask.what, edit))
            }
            Answer::Config(how) => by_hand.push((ask.what, how)),
        }
    }
    let changes = wanted.into_iter().map(|(path, edits)| change(&path, edits));
    let changes: Vec<_> = changes.collect::<Result<Vec<_>, _>>()?;
    let changes: Vec<_> = changes.into_iter().flatten().collect();
    let mut result = json!({
        "harness": harness.name,
        "changes": changes.iter().map(to_json).collect::<Vec<_>>(),
        "by_hand": by_hand.iter()
            .map(|(what, how)| json!({ "what": what, "how": format!("[harness.{}] {how}", harness.name) }))
            .collect::<Vec<_>>(),
        "changed": false,
    });
    if !context.json {
        output::line(&render::changes(&result, context.style))?;
    }
    if !changes.is_empty() && !args.dry_run {
        let files: Vec<_> = changes
            .iter()
            .map(|it| it.file.target.display().to_string())
            .collect();
        context.consent(&format!("change {}?", files.join(" and ")))?;
        write(&changes, &mut result)?;
        if !context.json {
            output::line(&render::changed(&result))?;
        }
    }
    match context.json {
        true => output::json(&result),
        false => Ok(()),
    }
}

/// Returns the change of a file; none if the file is as wanted.
fn change(path: &std::path::Path, edits: Vec<(String, Edit)>) -> Result<Option<Change>, CliError> {
    let file = SettingsFile::read(path).doing(path.display())?;
    let mut after = file.text.clone();
    let mut done = Vec::new();
    for (what, edit) in edits {
        let next = jsonc::apply(&after, &[edit]).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            CliError::failed(message).hint("it is left unchanged: fix it first")
        })?;
        if next != after {
            done.push(what);
            after = next;
        }
    }
    let change = Change {
        file,
        what: done,
        after,
    };
    Ok((!change.what.is_empty()).then_some(change))
}

fn to_json(change: &Change) -> Value {
    json!({
        "file": change.file.target, "what": change.what,
        "diff": diff::lines(&change.file.text, &change.after),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a backup is named after the time"
)]
fn write(changes: &[Change], result: &mut Value) -> Result<(), CliError> {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    for (index, change) in changes.iter().enumerate() {
        let backup = change.file.replace(&change.after, &stamp);
        let backup = backup.doing(change.file.target.display())?;
        result["changes"][index]["backup"] = json!(backup);
    }
    result["changed"] = json!(true);
    Ok(())
}
