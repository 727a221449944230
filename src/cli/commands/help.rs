//! Completions, manual pages and the version, all from the same definition of the command line.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::cli::args::Cli;
use crate::cli::context::Context;
use crate::cli::error::{CliError, Doing};
use crate::cli::output;
use crate::control::protocol::VERSION;

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

pub(super) fn version(context: &Context) -> Result<(), CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let result = json!({"version": version, "protocol": VERSION});
    context.print(&result, |result, _| {
        let version = result["version"].as_str().unwrap_or_default();
        format!("hd {version} (protocol {})", result["protocol"])
    })
}
