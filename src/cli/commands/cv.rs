//! `hd cv`. A file to import is read and verified here, whole; the supervisor verifies it again, and stores it in batches.

use serde_json::json;

use super::export_file::{self, Existing};
use super::input_file;
use crate::cli::answer;
use crate::cli::args::{self, CvFile, CvTo, CvVerb};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::render::cv as render;
use crate::control::client::Flow;
use crate::control::protocol::answers::{Cv, CvImported};
use crate::control::protocol::args::{Cv as List, CvForget, CvImport};
use crate::control::protocol::{BATCH_MAX, LINE_MAX, Op};
use crate::domain::federation::{self, FILE_MAX, Header, Line};

/// The bytes of a request's entries.
const REQUEST: usize = LINE_MAX / 2;

pub(super) fn run(args: args::Cv, context: &mut Context) -> Result<(), CliError> {
    match args.verb {
        Some(CvVerb::Export(args)) => export(args, context),
        Some(CvVerb::Import(args)) => import(&args, context),
        Some(CvVerb::Forget(args)) => forget(args, context),
        None => {
            let verify = args.cv.verify;
            let told = context.show_and_return(&Op::Cv(args.cv), render::cv)?;
            match !told.ok && verify {
                true => Err(CliError::failed("a chain does not verify")),
                false => Ok(()),
            }
        }
    }
}

/// Writes chains, an entry per line. A file appears whole or not at all.
fn export(args: CvTo, context: &mut Context) -> Result<(), CliError> {
    let mut client = context.client()?;
    let op = Op::CvExport(args.of);
    if args.file.as_os_str() == "-" {
        return client.stream(&op, |item| output::json(&item).map(|()| Flow::Continue));
    }
    let existing = Existing::of(args.force);
    let lines = export_file::write(client, &op, &args.file, existing)?;
    // The first line and the last one are no entries.
    let told =
        json!({ "file": args.file.display().to_string(), "entries": lines.saturating_sub(2) });
    context.print(&told, render::exported)
}

/// Deletes the chains of another city.
fn forget(mut args: CvForget, context: &mut Context) -> Result<(), CliError> {
    if !context.yes {
        // Chains that do not exist need no consent.
        let all: Cv = context.ask(&Op::Cv(List::default()))?;
        let city = Some(&args.city);
        if all.more || all.chains.iter().any(|it| it.city.as_ref() == city) {
            context.consent(&format!(
                "delete the chains that were imported from {}?",
                args.city
            ))?;
        }
    }
    args.yes = true;
    context.show(&Op::CvForget(args), render::forgotten)
}

/// Verifies a file, then has it stored. Nothing is stored when an entry is faulty.
fn import(args: &CvFile, context: &mut Context) -> Result<(), CliError> {
    let hint = "nothing was imported; export one identity at a time";
    let text = input_file::text(&args.file, FILE_MAX, hint)?;
    let faulty = |why: String| {
        let message = format!("{}: {why}", args.file.display());
        CliError::usage(message).hint("nothing was imported")
    };
    let (mut header, lines) = federation::read(&text).map_err(faulty)?;
    if let Some(city) = &args.as_name {
        header.city.clone_from(city);
        header.check().map_err(faulty)?;
    }
    let entries = lines.len();
    let (mut added, mut known) = (0, 0);
    let mut client = context.client()?;
    for batch in batches(lines) {
        let op = request(&header, batch);
        let stored = client.call(&op).map_err(|error| {
            let mut error = CliError::from(error);
            if added + known > 0 {
                error.hint = Some(format!(
                    "{} entries were stored before this, all verified; a second import goes on",
                    added + known
                ));
            }
            error
        })?;
        let stored: CvImported = answer::read(op.name(), &stored)?;
        added += stored.added;
        known += stored.known;
    }
    let told = json!({ "city": header.city, "entries": entries, "added": added, "known": known });
    context.print(&told, render::imported)
}

fn request(header: &Header, lines: Vec<Line>) -> Op {
    Op::CvImport(CvImport {
        header: header.clone(),
        lines,
    })
}

/// Cuts the entries into batches that fit into a request each. A file without entries is one batch: the city is known then.
fn batches(lines: Vec<Line>) -> Vec<Vec<Line>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for line in lines {
        let size = json!(line).to_string().len() + 1;
        if batch.len() == BATCH_MAX || !batch.is_empty() && bytes + size > REQUEST {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(line);
    }
    batches.push(batch);
    batches
}
