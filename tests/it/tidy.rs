//! Checks of the source and the documents: layers, sizes, headers, forbidden words, paths, links and verbs in documents.
//! Everything is read as text, so that a rule is easy to read here; rules that need the compiler are left to the lints.

mod actors;
mod cases;
mod docs;
mod english;
mod layers;
mod log_lines;
mod pages;
mod source;
mod style;
mod weaknesses;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use self::source::Source;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files below a directory of the package, in order.
fn files(dir: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join(dir)];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Reads the Rust files of the named directories; a missing directory has none.
fn sources(dirs: &[&str]) -> Vec<Source> {
    let there = dirs.iter().filter(|dir| root().join(dir).is_dir());
    let files = there.flat_map(|dir| files(dir));
    let rust = files.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    rust.map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        Source::new(&name, &text)
    })
    .collect()
}

/// Returns every file of the package's code, read once.
fn all() -> &'static [Source] {
    static ALL: LazyLock<Vec<Source>> = LazyLock::new(|| sources(&["src", "tests", "benches"]));
    &ALL
}

/// Returns the files below a directory of the package.
fn below(dir: &str) -> impl Iterator<Item = &'static Source> {
    all()
        .iter()
        .filter(move |source| source.name.starts_with(dir))
}

fn expect_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}
