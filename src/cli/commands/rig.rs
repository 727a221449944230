//! `hd rig`: the repositories of a city. Edits `city.toml` as a person would, and reloads.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{config as check, init, supervisor};
use crate::cli::answer;
use crate::cli::args::{RigAdd, RigRemove, RigVerb};
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output::{self, Style};
use crate::cli::render::{lists, outcome_lines};
use crate::config::{self, EditError, NewRig};
use crate::control::protocol::answers::Reloaded;
use crate::control::protocol::{Op, args};
use crate::domain::city::{Rig, RigSource};
use crate::domain::url_text::without_passwords;
use crate::regular;

pub(super) fn run(verb: RigVerb, context: &mut Context) -> Result<(), CliError> {
    match verb {
        RigVerb::List => list(context),
        RigVerb::Add(args) => add(&args, context),
        RigVerb::Remove(args) => remove(&args, context),
    }
}

fn list(context: &Context) -> Result<(), CliError> {
    let loaded = check::load(context)?;
    let rigs: Vec<Value> = loaded.city.rigs.iter().map(facts).collect();
    context.print(&rigs, |rigs, style| lists::rigs(rigs, style))
}

fn facts(rig: &Rig) -> Value {
    let (path, remote) = match &rig.source {
        RigSource::Path(path) => (Some(path), None),
        RigSource::Remote(remote) => (None, Some(without_passwords(remote))),
    };
    json!({
        "name": rig.name,
        "path": path,
        "remote": remote,
        "prefix": rig.prefix,
        "harness": rig.raiders.harness,
        "max": rig.raiders.max,
        "suspended": rig.suspended,
    })
}

fn add(args: &RigAdd, context: &mut Context) -> Result<(), CliError> {
    let source = source(&args.source)?;
    let place = match &source {
        RigSource::Path(path) => path.as_path(),
        RigSource::Remote(remote) => {
            let last = remote.trim_end_matches('/').rsplit([':', '/']).next();
            Path::new(last.unwrap_or(remote))
        }
    };
    if args.name.is_none() {
        refuse_twice(&source, context)?;
    }
    let file = file(context)?;
    let city = file.parent().unwrap_or(Path::new("."));
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| init::rig_name(place, city));
    let plain = init::name_of(place, "rig");
    if args.name.is_none() && name != plain && !context.json {
        let taken = city.join(&plain);
        let taken = taken.display();
        output::message(&format!(
            "the rig is named {name}, because {taken} exists; `--name {plain}` takes that directory, for example of a rig that was removed"
        ));
    }
    let rig = NewRig {
        name: name.clone(),
        source,
        prefix: args.prefix.clone(),
        harness: args.harness.clone(),
    };
    edit(context, "added", &name, |text| config::with_rig(text, &rig))
}

/// Refuses a repository that is a rig already, unless a name is given for one more.
fn refuse_twice(source: &RigSource, context: &Context) -> Result<(), CliError> {
    let file = context.city_file()?;
    let Ok(loaded) = config::load(&file, &config::Env::of_process()) else {
        // The edit tells what is wrong with the file, or mends it.
        return Ok(());
    };
    let same = |rig: &&Rig| match (&rig.source, source) {
        (RigSource::Path(theirs), RigSource::Path(ours)) => {
            theirs.canonicalize().is_ok_and(|theirs| &theirs == ours)
        }
        (RigSource::Remote(theirs), RigSource::Remote(ours)) => bare(theirs) == bare(ours),
        _ => false,
    };
    match loaded.city.rigs.iter().find(same) {
        None => Ok(()),
        Some(rig) => Err(CliError::usage(format!(
            "this repository is the rig {} already",
            rig.name
        ))
        .hint("`--name NAME` makes it one more rig")),
    }
}

/// Returns an address without the endings that hosts ignore.
fn bare(remote: &str) -> &str {
    let remote = remote.trim_end_matches('/');
    remote.strip_suffix(".git").unwrap_or(remote)
}

fn file(context: &Context) -> Result<PathBuf, CliError> {
    config::city_file(&context.city_file()?).map_err(CliError::usage)
}

/// Returns the repository that a person named.
fn source(named: &str) -> Result<RigSource, CliError> {
    let path = Path::new(named);
    if path.exists() {
        let path = path.canonicalize().doing(named)?;
        return Ok(RigSource::Path(path));
    }
    // `https://host/repo`, `git@host:repo`
    let host = named.split('/').next().unwrap_or_default();
    match host.contains(':') {
        true => Ok(RigSource::Remote(named.to_owned())),
        false => Err(CliError::usage(format!("there is no directory {named}"))
            .hint("name a directory with a repository, or a URL")),
    }
}

fn remove(args: &RigRemove, context: &mut Context) -> Result<(), CliError> {
    let name = &args.name;
    // A rig that does not exist needs no consent.
    let text = regular::read_text(&file(context)?).doing("city.toml")?;
    config::without_rig(&text, name).map_err(CliError::failed)?;
    context.consent(&format!("remove the rig {name} from city.toml?"))?;
    edit(context, "removed", name, |text| {
        config::without_rig(text, name)
    })
}

/// Edits `city.toml`, reloads if a supervisor runs, and prints the effect.
fn edit(
    context: &mut Context,
    action: &str,
    rig: &str,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), CliError> {
    let file = file(context)?;
    let city = context.city()?;
    let runs = supervisor::ping(&city).is_ok();
    if runs {
        // Fails for a caller that may not reload, before anything is changed.
        context.ask_raw(&Op::Reload(args::Reload { dry_run: true }))?;
    }
    let mut texts = None;
    let noted = |before: &str| {
        let after = change(before)?;
        texts = Some((before.to_owned(), after.clone()));
        Ok(after)
    };
    config::edit(&file, &config::Env::of_process(), noted)
        .map_err(|error| failure(error, context))?;
    // A rig that cannot be made ready would have every later reload refused.
    let texts = texts.filter(|_| action == "added");
    let effect =
        match runs {
            true => Some(reload(context).map_err(|error| {
                error.hint("city.toml is edited already; `hd reload` applies it")
            })?),
            false => None,
        };
    let (raw, told) = effect.unzip();
    let refused = told
        .as_ref()
        .is_some_and(|told: &Reloaded| !told.errors.is_empty());
    if let (Some(texts), true, Some(told)) = (texts, refused, &told) {
        return Err(taken_back(&file, rig, &texts, told, context));
    }
    let result = json!({ "action": action, "rig": rig, "file": file, "reload": raw });
    context.print(&result, |_, style| {
        let done = format!("{action} the rig {rig} in {}", file.display());
        edited(&done, told.as_ref(), style)
    })?;
    match told.is_none_or(|told| told.errors.is_empty()) {
        true => Ok(()),
        false => Err(CliError::usage(
            "city.toml is edited, but the supervisor does not apply it; the previous configuration stays in force",
        )),
    }
}

/// Undoes an edit that the supervisor refused, unless the file was changed since. Returns the reason.
fn taken_back(
    file: &Path,
    rig: &str,
    (before, after): &(String, String),
    told: &Reloaded,
    context: &mut Context,
) -> CliError {
    let mut errors = told.errors.iter();
    let named = errors.find(|error| error.contains(rig));
    let why = named.or(told.errors.first()).cloned().unwrap_or_default();
    let undo = |now: &str| match now == after {
        true => Ok(before.clone()),
        false => Err("it was changed since".to_owned()),
    };
    match config::edit(file, &config::Env::of_process(), undo) {
        Ok(_) => {
            // The refusal is shown until the next reload. Its answer says nothing new.
            drop(reload(context));
            CliError::usage(format!(
                "nothing is changed: the supervisor refuses the rig {rig}: {why}"
            ))
        }
        Err(_) => CliError::usage(format!(
            "city.toml is edited, but the supervisor does not apply it: {why}"
        ))
        .hint(format!("`hd rig remove {rig}` takes the rig out of it")),
    }
}

/// Has the supervisor reload. Returns its answer as it came, and read.
fn reload(context: &mut Context) -> Result<(Value, Reloaded), CliError> {
    let op = Op::Reload(args::Reload::default());
    let raw = context.ask_raw(&op)?;
    let told = answer::read(op.name(), &raw)?;
    Ok((raw, told))
}

fn edited(done: &str, reloaded: Option<&Reloaded>, style: Style) -> String {
    match reloaded {
        None => format!("{done}; no supervisor runs"),
        Some(told) => format!("{done}\n{}", outcome_lines::reloaded(told, style)),
    }
}

fn failure(error: EditError, context: &Context) -> CliError {
    match error {
        EditError::Refused(why) => CliError::failed(why),
        EditError::Io(error) => CliError::failed(format!("city.toml: {error}")),
        EditError::Invalid(errors) => {
            if !context.json {
                output::message(&errors.render(Style::of_stderr().color));
            }
            let first = errors.iter().next().map(|error| error.message.clone());
            CliError::usage(format!(
                "nothing is changed: the configuration would have an error: {}",
                first.unwrap_or_default()
            ))
        }
    }
}
