//! `hd relic export` and `hd relic import`. A file is read, checked and ordered here, whole; the supervisor stores it in
//! batches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::super::export_file::{self, Existing};
use super::super::input_file;
use crate::cli::answer;
use crate::cli::args::{RelicFile, RelicTo};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render::outcome_lines;
use crate::control::client::{Client, Flow};
use crate::control::protocol::answers::{Change, Imported};
use crate::control::protocol::args::{Nothing, RelicImport};
use crate::control::protocol::{BATCH_MAX, LINE_MAX, Op};
use crate::domain::ids::RelicId;
use crate::domain::import::{self, Format, Item, Parsed, Placed};
use crate::domain::relic::Source;

/// The part of a request that is no record.
const ENVELOPE: usize = 4096;
/// The largest file that is read, in bytes.
const CONTENTS_MAX: u64 = 256 * 1024 * 1024;

/// Writes every relic, a line each. A file appears whole or not at all.
pub(super) fn export(args: RelicTo, context: &mut Context) -> Result<(), CliError> {
    let mut client = context.client()?;
    let op = Op::RelicExport(Nothing {});
    let Some(file) = args.file.filter(|file| file.as_os_str() != "-") else {
        return client.stream(&op, |item| output::json(&item).map(|()| Flow::Continue));
    };
    let relics = export_file::write(client, &op, &file, Existing::of(args.force))?;
    let told = json!({ "file": file.display().to_string(), "relics": relics });
    context.print(&told, outcome_lines::exported)
}

/// Returns the text of a file with a body; `-` is standard input. It goes to the supervisor in one request.
pub(super) fn body(path: &Path) -> Result<String, CliError> {
    let hint = "nothing was done; shorten it";
    input_file::text(path, LINE_MAX as u64, hint)
}

/// Reads a file, then has it stored. Nothing is stored when a record is faulty.
pub(super) fn import(args: &RelicFile, context: &mut Context) -> Result<(), CliError> {
    let hint = "nothing was imported; split it";
    let text = input_file::text(&args.file, CONTENTS_MAX, hint)?;
    let format = args.format.unwrap_or_else(|| Format::of(&text));
    let word = json!(format);
    let word = word.as_str().unwrap_or_default().to_owned();
    if args.format.is_none() && !context.json {
        output::message(&format!(
            "hd: {} is read as {word} (--format names another format)",
            args.file.display()
        ));
    }
    let faulty = |fault: import::Fault| {
        let message = format!("{}: {fault}", args.file.display());
        CliError::usage(message).hint("nothing was imported")
    };
    let Parsed { items, skipped } = import::parse(&text, format).map_err(faulty)?;
    let items = import::ordered(items).map_err(faulty)?;
    let batches = batches(items).map_err(faulty)?;
    let mut client = context.client()?;
    check(&mut client, args.rig.as_ref(), &batches)?;
    let mut done = Done::default();
    for batch in batches {
        let op = request(args.rig.as_ref(), batch, false);
        let stored = client.call(&op).map_err(CliError::from);
        let stored = stored.map_err(|error| done.interrupted(error))?;
        done.add(answer::read(op.name(), &stored)?);
    }
    let told = done.told(&word, format, &skipped);
    context.print(&told, outcome_lines::imported)
}

fn request(rig: Option<&String>, relics: Vec<Item>, check: bool) -> Op {
    Op::RelicImport(RelicImport {
        rig: rig.cloned(),
        check,
        relics,
    })
}

/// Cuts the records into batches that fit into a request each.
fn batches(items: Vec<Placed>) -> Result<Vec<Vec<Item>>, import::Fault> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for Placed { line, item } in items {
        let size = json!(item).to_string().len() + 1;
        if size > LINE_MAX - ENVELOPE {
            let why = format!("it is larger than a request may be ({LINE_MAX} bytes)");
            return Err(import::Fault { line, why });
        }
        if batch.len() == BATCH_MAX || bytes + size > LINE_MAX - ENVELOPE {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(item);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    Ok(batches)
}

/// Asks whether every record has a rig, and whether this caller may import, before the first is stored.
fn check(client: &mut Client, rig: Option<&String>, batches: &[Vec<Item>]) -> Result<(), CliError> {
    let mut prefixes = BTreeSet::new();
    let mut samples = Vec::new();
    for item in batches.iter().flatten() {
        if prefixes.insert(item.id.as_ref().map(RelicId::prefix)) {
            samples.push(Item {
                body: String::new(),
                ..item.clone()
            });
        }
    }
    for samples in samples.chunks(BATCH_MAX) {
        client.call(&request(rig, samples.to_vec(), true))?;
    }
    Ok(())
}

/// The result of an import so far.
#[derive(Default)]
struct Done {
    relics: BTreeMap<Source, (String, Change)>,
    unresolved: BTreeMap<String, Vec<String>>,
}

impl Done {
    fn add(&mut self, stored: Vec<Imported>) {
        for one in stored {
            if !one.unresolved.is_empty() {
                self.unresolved
                    .insert(one.source.id.clone(), one.unresolved);
            }
            let relic = one.relic.map(|id| id.to_string()).unwrap_or_default();
            // A record that came twice, the second time with its parent, is told once.
            let first = self.relics.entry(one.source).or_insert((relic, one.change));
            if first.1 == Change::Unchanged {
                first.1 = one.change;
            }
        }
    }

    fn count(&self, change: Change) -> usize {
        let changes = self.relics.values().map(|(_, change)| *change);
        changes.filter(|one| *one == change).count()
    }

    fn told(&self, word: &str, format: Format, skipped: &BTreeMap<String, usize>) -> Value {
        let relics = self.relics.iter();
        let relics = relics.map(|(source, (relic, change))| {
            json!({ "record": source.id, "relic": relic, "change": change })
        });
        let unresolved = self.unresolved.iter();
        let unresolved =
            unresolved.map(|(record, missing)| json!({ "record": record, "missing": missing }));
        json!({
            "format": word, "priorities": format.priorities(),
            "created": self.count(Change::Created), "updated": self.count(Change::Updated),
            "unchanged": self.count(Change::Unchanged), "skipped": skipped,
            "unresolved": unresolved.collect::<Vec<_>>(), "relics": relics.collect::<Vec<_>>(),
        })
    }

    /// Returns the error of an import that stopped between two batches.
    fn interrupted(&self, mut error: CliError) -> CliError {
        let stored = self.relics.len();
        if stored > 0 {
            error.hint = Some(format!(
                "{stored} records were imported before this; a second import goes on, and makes none of them twice"
            ));
        }
        error
    }
}
