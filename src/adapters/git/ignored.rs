//! Ignored files that a removal loses for good, for the salvage record and for a removal.

use std::path::PathBuf;

use super::admin::{At, Note, common_dir};
use super::bytes::{self, RelPath};
use super::entry_links::git_dir;
use super::files::ignore::Excludes;
use super::injected_files;
use super::rig::GitRepo;
use crate::adapters::exclude;
use crate::ports::repo::RepoError;

/// Directories that build tools make and would make again: not listed as precious if they are ignored as a whole. A
/// single ignored file in there may be precious (`build/.env`).
const BUILT: &[&str] = &["target/", "build/", "dist/", "out/"];

/// Directories that only tools write to.
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

/// Suffixes of files that programs write as by-products.
const WRITTEN: &[&str] = &[".log", ".o", ".pyc", ".class", ".tmp"];

/// Returns the rules for every sandbox of the rig: the user's own, those of the rig's checkout, and those of the
/// harnesses. All sandboxes share an agent's `info/exclude`, so that file does not count.
pub(super) fn excludes(repo: &GitRepo) -> Excludes {
    let checkout = repo
        .source()
        .path()
        .map(|top| common_dir(&git_dir(top)).join(exclude::FILE));
    let files = repo.user_excludes().into_iter().chain(checkout);
    let files = files.chain([repo.repo_dir().join(exclude::FILE)]);
    let files: Vec<PathBuf> = files.collect();
    Excludes::read(files.iter().map(PathBuf::as_path))
}

/// Adds rules to those of the harnesses, which are in ours.
pub(super) fn leave_out(repo: &GitRepo, patterns: &[String]) -> Result<(), RepoError> {
    let ours = repo.repo_dir();
    exclude::add(ours, patterns.iter().map(String::as_str))
        .at("cannot add rules to", &ours.join(exclude::FILE))
}

/// Returns the ignored paths that a removal loses (`.env`, the settings of an editor), a directory as one path.
/// Leaves out our own links, build output, and files that were copied from the rig's checkout: unchanged copies still
/// exist there, and edited ones are work that salvage keeps. The least important come last, because the list is cut.
pub(super) fn precious(hidden: &[RelPath], note: Option<&Note>) -> impl Iterator<Item = String> {
    let names = hidden.iter().map(|name| bytes::lossy(name));
    let copied = |name: &str| note.is_some_and(|note| note.copied.contains_key(name));
    let is_made = |name: &str| {
        let own = format!("/{name}");
        let below = |dir: &&str| own.contains(&format!("/{dir}"));
        let is = |dir: &&str| own.ends_with(&format!("/{dir}"));
        CACHES.iter().any(below) || BUILT.iter().any(is)
    };
    let mut names: Vec<String> = names
        .filter(|name| !injected_files::EXCLUDED.contains(&name.as_str()))
        .filter(|name| !copied(name) && !is_made(name))
        .collect();
    names.sort_by_key(|name| WRITTEN.iter().any(|end| name.ends_with(end)));
    names.into_iter()
}
