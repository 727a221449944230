//! Completions, manual pages and the version, all from the same definition of the command line.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::{Value, json};

use crate::cli::args::Cli;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::control::protocol::answers::{UNTYPED, schemas};
use crate::control::protocol::{OpName, VERSION};

pub(super) fn completions(shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hd", &mut script);
    output::print(&script)
}

pub(super) fn man(out: Option<&Path>) -> Result<(), CliError> {
    let Some(dir) = out else {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(Cli::command());
        man.render(&mut page).doing("the manual page")?;
        return output::print(&page);
    };
    fs::create_dir_all(dir).doing(dir.display())?;
    clap_mangen::generate_to(Cli::command(), dir).doing(dir.display())?;
    output::message(&format!("hd: manual pages are in {}", dir.display()));
    Ok(())
}

/// Prints the schemas of typed answers by their operations, or that of one operation.
pub(super) fn schema(op: Option<&str>) -> Result<(), CliError> {
    let op: Option<OpName> = op.map(str::parse).transpose()?;
    let mut all = schemas();
    if let Some(op) = op {
        all.retain(|answer| answer.op == op);
    }
    match (op, all.pop()) {
        (Some(_), Some(only)) => output::json(&pretty(only.schema.as_value())),
        (Some(op), None) => {
            let why = UNTYPED.iter().find(|(untyped, _)| *untyped == op);
            let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
            let error = CliError::usage(format!("the answer of {op} has no schema{why}"));
            Err(error.hint("`hd schema` prints those that have one"))
        }
        (None, last) => {
            let all = all.into_iter().chain(last);
            let all = all.map(|answer| (answer.op.to_string(), answer.schema.into()));
            output::json(&pretty(&Value::Object(all.collect())))
        }
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

pub(super) fn version(context: &Context) -> Result<(), CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let result = json!({"version": version, "protocol": VERSION});
    context.print(&result, |result, _| {
        let version = result["version"].as_str().unwrap_or_default();
        format!("hd {version} (protocol {})", result["protocol"])
    })
}
