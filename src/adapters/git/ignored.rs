//! What ignore rules hide and a removal loses for good, for the salvage record and for who removes.

use std::path::Path;

use super::admin::{Note, locate};
use super::rig::GitRepo;
use super::status::Status;
use super::{bytes, links, status};
use crate::domain::ignored::Ignored;
use crate::ports::repo::RepoError;

/// What tools build, and would build again, where all of it is ignored: not worth a line among what may be
/// precious. By itself, a file in there may be (`build/.env`).
const BUILT: &[&str] = &["target/", "build/", "dist/", "out/"];

/// Directories in which nobody but tools writes.
const CACHES: &[&str] = &[
    "node_modules/",
    "__pycache__/",
    ".venv/",
    "venv/",
    ".tox/",
    ".gradle/",
    ".next/",
    ".cache/",
    ".mypy_cache/",
    ".pytest_cache/",
];

/// How the names of files end that programs write in passing.
const WRITTEN: &[&str] = &[".log", ".o", ".pyc", ".class", ".tmp"];

/// Looks for it now: one `git status`, content is not read.
pub(super) fn list(repo: &GitRepo, sandbox: &Path) -> Result<Ignored, RepoError> {
    let place = locate(repo, sandbox)?;
    let status = status::read(place.git())?;
    let note = Note::read(&place.admin);
    Ok(Ignored::known(precious(&status, note.as_ref())))
}

/// Ignored paths that a removal loses (`.env`, the settings of an editor), directories as one. Our own
/// links are not among them, nor what tools build, nor files that were copied from the rig's checkout:
/// as they were they are still there, and edited ones are work that salvage keeps. Those that tell least
/// come last: a list has an end.
pub(super) fn precious(status: &Status, note: Option<&Note>) -> impl Iterator<Item = String> {
    let names = status.ignored.iter().map(|name| bytes::lossy(name));
    let copied = |name: &str| note.is_some_and(|note| note.copied.contains_key(name));
    let is_made = |name: &str| {
        let own = format!("/{name}");
        let below = |dir: &&str| own.contains(&format!("/{dir}"));
        let is = |dir: &&str| own.ends_with(&format!("/{dir}"));
        CACHES.iter().any(below) || BUILT.iter().any(is)
    };
    let mut names: Vec<String> = names
        .filter(|name| !links::EXCLUDED.contains(&name.as_str()))
        .filter(|name| !copied(name) && !is_made(name))
        .collect();
    names.sort_by_key(|name| WRITTEN.iter().any(|end| name.ends_with(end)));
    names.into_iter()
}
