//! Promises of the documents: paths that exist, golden files that are there.

use std::collections::BTreeSet;
use std::path::Path;

use super::pages::pages;
use super::{all, expect_none, files, root};

/// Placeholders for a name that the reader chooses: the directory above them exists.
const PLACEHOLDERS: &[&str] = &["/NAME", "/NEW", "/SECTION", "/PROGRAM-VERSION"];

/// Returns the paths of this package in a text: words that begin with one of its directories.
fn paths(text: &str) -> Vec<&str> {
    const TOP: &[&str] = &["src/", "tests/", "config/", "benches/", "docs/", ".ci/"];
    let splits = |c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c));
    let words = text
        .split(splits)
        .map(|word| word.trim_end_matches(['.', '/']));
    let named = words.filter(|word| TOP.iter().any(|top| word.starts_with(top)));
    // Half of a pattern such as `src/{a,b}` is a directory, and is checked as one.
    let above = |word: &str| PLACEHOLDERS.iter().find_map(|chosen| word.find(chosen));
    named
        .map(|word| above(word).map_or(word, |end| &word[..end]))
        .collect()
}

fn missing(name: &str, text: &str, root: &Path) -> Vec<String> {
    let named = paths(text).into_iter();
    let gone = named.filter(|path| !root.join(path).exists());
    gone.map(|path| format!("{name} names {path}, which is not there"))
        .collect()
}

/// Returns the lines of a Rust file that document the module or an item.
fn documentation(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let said = lines.filter(|line| line.starts_with("//!") || line.starts_with("///"));
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn paths_that_documents_name_exist() {
    let mut broken = Vec::new();
    for name in [
        "Cargo.toml",
        ".ci/run",
        "tests/long/run",
        "docs/reference/generate",
    ] {
        let text = std::fs::read_to_string(root().join(name)).unwrap_or_default();
        broken.extend(missing(name, &text, root()));
    }
    for page in pages() {
        broken.extend(missing(&page.name, &page.text, root()));
    }
    for source in all() {
        broken.extend(missing(&source.name, &documentation(&source.text), root()));
    }
    expect_none("documents name what exists", &broken);
}

/// Returns the pages that a text names by their file names.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    let splits = |c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c));
    let words = text.split(splits).map(|word| word.trim_end_matches('.'));
    let names = words.filter_map(|word| word.rsplit('/').next());
    names.filter(|name| name.len() > 3 && name.ends_with(".md"))
}

#[test]
fn pages_that_are_cited_exist() {
    // Files of sandboxes and of an example, not pages.
    const TASKS: &[&str] = &[
        "TASK.md",
        ".horde-task.md",
        "TASK.replaced-1.md",
        "task.md",
        "prompt.md",
    ];
    let below = files("docs").into_iter();
    let beside = std::fs::read_dir(root()).unwrap();
    let there: BTreeSet<String> = below
        .chain(beside.map(|entry| entry.unwrap().path()))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    let code = all().iter();
    let code = code.map(|source| (&source.name, documentation(&source.text)));
    let pages = pages();
    let prose = pages.iter().map(|page| (&page.name, page.text.clone()));
    let mut gone = Vec::new();
    for (name, text) in code.chain(prose) {
        let unknown = cited(&text).filter(|page| !there.contains(*page) && !TASKS.contains(page));
        gone.extend(unknown.map(|page| format!("{name} cites {page}, which is not below docs/")));
    }
    expect_none("cited pages exist", &gone);
}

/// Returns the tests that tables in a module's documentation name: the last column, if its heading says so.
fn tests_in_tables(text: &str) -> Vec<&str> {
    let mut named = Vec::new();
    let mut headed = false;
    for line in text.lines() {
        let row = line.trim_end().strip_prefix("//! |");
        let last = row.and_then(|row| row.trim_end_matches('|').rsplit('|').next());
        match last.map(str::trim) {
            None => headed = false,
            Some("tests") => headed = true,
            Some(cell) if headed && !cell.starts_with("--") => named.extend(cell.split(", ")),
            Some(_) => {}
        }
    }
    named
}

#[test]
fn tests_that_tables_name_exist() {
    let defined = all()
        .iter()
        .flat_map(|source| source.text.split("fn ").skip(1));
    let defined = defined.filter_map(|rest| rest.split_once('('));
    let defined: BTreeSet<&str> = defined.map(|(name, _)| name).collect();
    let mut gone = Vec::new();
    for source in all() {
        for name in tests_in_tables(&source.text) {
            if !defined.contains(name) {
                gone.push(format!("{} names {name:?}, which is no test", source.name));
            }
        }
    }
    expect_none("tables name tests that exist", &gone);
}

/// The table of `tests/it/chaos/mod.rs` is the index of the faults.
#[test]
fn every_chaos_test_is_in_a_table() {
    let sources = || all().iter();
    let tables = sources().flat_map(|source| tests_in_tables(&source.text));
    let tables: BTreeSet<&str> = tables.collect();
    let mut left_out = Vec::new();
    for source in sources().filter(|source| source.name.starts_with("tests/it/chaos/")) {
        let tests = source.text.split("#[test]\n").skip(1);
        let names = tests.filter_map(|test| test.split_once("fn ")?.1.split_once('('));
        let names = names
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with('$'));
        let unknown = names.filter(|name| !tables.contains(name));
        left_out.extend(unknown.map(|name| format!("{}: {name}", source.name)));
    }
    expect_none("chaos tests are in the table of their faults", &left_out);
}

#[test]
fn only_columns_of_tests_name_tests() {
    let table = "//! | rule | tests |\n//! |---|---|\n//! | a | b, c |\n//!\n//! | a | d |\n";
    assert_eq!(tests_in_tables(table), ["b", "c"]);
}

#[test]
fn the_golden_files_of_the_protocol_are_there() {
    let wanted = ["answers", "intent", "refused", "requests", "spellings"];
    let gone: Vec<_> = wanted
        .iter()
        .map(|name| format!("tests/data/protocol/{name}.json"))
        .filter(|path| !root().join(path).is_file())
        .collect();
    expect_none("each of these pins a part of the protocol", &gone);
}

#[test]
fn ci_runs_the_tests_of_the_readme() {
    const COMMAND: &str = "cargo test";
    for name in ["README.md", ".ci/run"] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let says = |line: &str| {
            line.split(" #")
                .next()
                .is_some_and(|said| said.trim() == COMMAND)
        };
        assert!(text.lines().any(says), "{name} has no line `{COMMAND}`");
    }
}

#[test]
fn a_path_that_is_not_there_is_caught() {
    let count = |text: &str| missing("x", text, root()).len();
    assert_eq!(count("see `src/lib.rs` and tests/it/tidy.rs."), 0);
    assert_eq!(
        count("see `src/{adapters,ports}` and (config/default.toml)"),
        0
    );
    assert_eq!(count("see `src/liberty.rs`"), 1);
    assert_eq!(count("add `src/domain/NEW.rs`"), 0);
    assert_eq!(count("add `src/demesne/NEW.rs`"), 1);
    let pages = cited("see `rules.md`, restart; [a](docs/faults.md#b) and .md.");
    assert_eq!(pages.collect::<Vec<_>>(), ["rules.md", "faults.md"]);
    assert_eq!(
        documentation("//! a\nfn b() {} // c\n    /// d"),
        "//! a\n/// d"
    );
}
