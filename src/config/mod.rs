//! `city.toml`: read with places, validated all at once, frozen into [`City`]. Nothing past this
//! module sees the file again.
//!
//! ```text
//!   sources ──► templates ──► freeze ──► City
//!   (files,     (defaults     (every check;
//!    includes)   per rig ...)  nothing hides another error)
//! ```
//!
//! `config/default.toml` is the only place of defaults.

mod dependencies;
pub mod diagnostics;
mod document;
mod edit;
mod find;
mod fingerprint;
mod freeze;
mod include;
mod init;
mod patches;
mod reader;
mod reserved_keys;
mod schema;
mod shape;
mod show;
mod sources;
mod templates;
#[cfg(test)]
mod tests;
mod values;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

pub use dependencies::Dependencies;
pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use edit::{EditError, NewRig, edit, with_rig, without_rig};
pub use find::{FILE, city_file, find_city, socket};
pub use init::{Init, init_text, presets};
pub use schema::{schema, write_schema};
pub use show::{show, show_json};

use crate::domain::city::City;
use dependencies::Sought;
use document::Node;
use reader::Report;

/// The default file: every key with its default and meaning.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// The few values of the environment that a configuration may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Env {
    /// The directory that `~` stands for.
    pub home: Option<PathBuf>,
}

impl Env {
    /// Reads the environment of this process. Only for `main`; other code is handed one.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "called by programs only")]
    pub fn of_process() -> Self {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        Self {
            home: home.map(PathBuf::from),
        }
    }
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub city: City,
    /// Every file that it was read from: the city's, fragments, automations, prompt files.
    pub sources: Vec<PathBuf>,
    /// Settings that are probably mistakes.
    pub warnings: Diagnostics,
    effective: Node,
}

/// Reads the configuration of a city: a `city.toml`, or the directory that holds one.
///
/// # Errors
/// All errors of the configuration.
pub fn load(path: &Path, env: &Env) -> Result<Loaded, Diagnostics> {
    load_over(DEFAULTS, path, env, &mut Sought::default())
}

/// Reads the configuration of a city, given its file's canonical path. Also returns the files that the configuration
/// and its validity depend on.
pub fn read(file: &Path, env: &Env) -> (Dependencies, Result<Loaded, Diagnostics>) {
    let mut sought = Sought::default();
    sought.paths.push(file.to_owned());
    let loaded = load_over(DEFAULTS, file, env, &mut sought);
    let root = file.parent().unwrap_or(Path::new("/"));
    (Dependencies::new(root, &sought), loaded)
}

fn load_over(
    defaults: &str,
    path: &Path,
    env: &Env,
    sought: &mut Sought,
) -> Result<Loaded, Diagnostics> {
    let file = find::city_file(path).map_err(|why| {
        let error = Diagnostic::error(why).hint("`hd init` writes one");
        Diagnostics::new(Vec::new(), vec![error])
    })?;
    if file.to_str().is_none() {
        let why = format!("the path {} is not UTF-8", file.display());
        let error = Diagnostic::error(why)
            .hint("answers, events and environments name it: rename its directories");
        return Err(Diagnostics::new(Vec::new(), vec![error]));
    }
    let root = file.parent().unwrap_or(Path::new("/"));
    let report = Report::default();
    let mut merged = sources::read(defaults, &file, root, &report);
    sought.patterns = std::mem::take(&mut merged.patterns);
    if !report.is_empty() {
        // Values that could not be read are missing from the document: further errors would mislead.
        return Err(Diagnostics::new(merged.sources, report.into_items()));
    }
    patches::apply(&mut merged.root, &report);
    templates::fill(&mut merged.root, &merged.templates, &report);
    let named = RefCell::default();
    let context = freeze::Context {
        root,
        env,
        named: &named,
    };
    let mut files = freeze::Files {
        sources: &mut merged.sources,
        templates: &merged.templates,
        searched: &mut sought.automations,
        patterns: &mut sought.patterns,
    };
    let frozen = freeze::freeze(&merged.root, &context, &mut files, &report);
    sought.paths.append(&mut named.into_inner());
    let (errors, warnings): (Vec<_>, Vec<_>) = report
        .into_items()
        .into_iter()
        .partition(|item| item.severity == Severity::Error);
    let frozen = match frozen {
        Some(frozen) if errors.is_empty() => frozen,
        _ => return Err(Diagnostics::new(merged.sources, errors)),
    };
    let mut read: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    // The built-in defaults are no file.
    for source in merged.sources.iter().skip(1) {
        read.push((source.path.clone(), source.text.clone().into_bytes()));
    }
    for (path, text) in frozen.prompt_files {
        read.push((path, text.into_bytes()));
    }
    let mut city = frozen.city;
    city.revision = fingerprint::revision(&read);
    Ok(Loaded {
        city,
        sources: read.into_iter().map(|(path, _)| path).collect(),
        warnings: Diagnostics::new(merged.sources, warnings),
        effective: merged.root,
    })
}
