//! What ignore rules hide and a removal loses for good, for the salvage record and for who removes.

use std::path::Path;

use super::admin::{Note, locate};
use super::rig::GitRepo;
use super::status::Status;
use super::{bytes, links, status};
use crate::domain::ignored::Ignored;
use crate::ports::repo::RepoError;

/// What tools build, and would build again: not worth a line among what may be precious.
const BUILT: &[&str] = &[
    "target/",
    "node_modules/",
    "build/",
    "dist/",
    "out/",
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

/// Looks for it now: one `git status`, content is not read.
pub(super) fn list(repo: &GitRepo, sandbox: &Path) -> Result<Ignored, RepoError> {
    let place = locate(repo, sandbox)?;
    let status = status::read(place.git())?;
    let note = Note::read(&place.admin);
    Ok(Ignored::known(precious(&status, note.as_ref())))
}

/// Ignored paths that a removal loses (`.env`, the settings of an editor), directories as one. Our own
/// links are not among them, nor what tools build, nor files that were copied from the rig's checkout:
/// as they were they are still there, and edited ones are work that salvage keeps.
pub(super) fn precious(status: &Status, note: Option<&Note>) -> impl Iterator<Item = String> {
    let names = status.ignored.iter().map(|name| bytes::lossy(name));
    let copied = move |name: &str| note.is_some_and(|note| note.copied.contains_key(name));
    names.filter(move |name| {
        let above = |dir: &&str| name.starts_with(*dir) || name.contains(&format!("/{dir}"));
        !links::EXCLUDED.contains(&name.as_str()) && !copied(name) && !BUILT.iter().any(above)
    })
}
