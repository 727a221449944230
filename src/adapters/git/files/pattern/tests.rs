//! Tests of ignore patterns, by a table and against git.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::tier::by_tier;

fn hides(pattern: &str, path: &str) -> bool {
    let (path, is_dir) = match path.strip_suffix('/') {
        Some(path) => (path, true),
        None => (path, false),
    };
    List::read(pattern.as_bytes()).hides(path.as_bytes(), is_dir) == Some(true)
}

#[test]
fn pattern_matches_as_in_git() {
    for (pattern, path, wanted) in [
        ("*.{bak,old}", "report.bak", false),
        ("*.{bak,old}", "x.{bak,old}", true),
        ("notes.md\t", "notes.md", false),
        ("notes.md\t", "notes.md\t", true),
        ("notes.md\u{a0}", "notes.md", false),
        ("notes.md  ", "notes.md", true),
        ("notes.md\\ ", "notes.md ", true),
        ("out[^_]new", "out/new", false),
        ("a[!b]c", "a/c", false),
        ("/out[^_]new", "out-new", true),
        ("?", "é", false),
        ("??", "é", true),
        ("foo", "foo", true),
        ("foo", "a/foo", true),
        ("/foo", "a/foo", false),
        ("a/foo", "b/a/foo", false),
        ("foo/", "foo", false),
        ("foo/", "a/foo/", true),
        ("a/*", "a/b", true),
        ("a/*", "a/b/c", false),
        ("a/**", "a/b/c", true),
        ("**/c", "a/b/c", true),
        ("a/**/c", "a/c", true),
        ("a/**/c", "a/b/d/c", true),
        ("a**/c", "ax/y/c", true),
        ("x?a**/c", "xyaz/y/c", false),
        ("*a*b", "xaxb", true),
        ("\\#a", "#a", true),
        ("#a", "#a", false),
        ("\\!a", "!a", true),
        ("a\\", "a", false),
        ("[a", "[a", false),
        ("[]a]", "]", true),
        ("[a-c]", "b", true),
        ("[[:digit:]-]", "-", true),
        ("[[:none:]]", "n", false),
        ("[[:]x]", ":x]", true),
        ("*", ".hidden", true),
        ("/", "a", false),
        ("FOO", "foo", false),
    ] {
        assert_eq!(hides(pattern, path), wanted, "{pattern:?} of {path:?}");
    }
}

#[test]
fn last_pattern_that_matches_decides() {
    let list = List::read(b"*.log\n!kept.log\r\n\n# no pattern\nkept.log/\n");
    assert_eq!(list.hides(b"a.log", false), Some(true));
    assert_eq!(list.hides(b"kept.log", false), Some(false));
    assert_eq!(list.hides(b"kept.log", true), Some(true));
    assert_eq!(list.hides(b"other", false), None);
}

/// A backtracking matcher would take years for this pattern.
#[test]
fn pattern_of_many_stars_is_matched_at_once() {
    let pattern = "*a".repeat(60) + "b";
    assert!(!hides(&pattern, &"a".repeat(200)));
    assert!(hides(&pattern, &("a".repeat(200) + "b")));
}

/// Names that patterns of these letters can tell apart.
const NAMES: &[&str] = &[
    "a", "b", "ab", "ba", "aab", "a.b", ".b", "-", "[a]", "{a,b}", "a\\b", "a ", "a\t", "#a", "!a",
    "*", "?", "A", "é", "7", "a]", "^",
];
/// The pieces that random patterns are made of.
const PIECES: &[&str] = &[
    "a",
    "b",
    "ab",
    ".b",
    "*",
    "**",
    "?",
    "/",
    "/",
    "/**/",
    "**/",
    "/**",
    "[ab]",
    "[!a]",
    "[^a]",
    "[a-b]",
    "[]a]",
    "[b-]",
    "[\\]a]",
    "[[:alpha:]]",
    "[[:punct:]]",
    "[[:x]",
    "[",
    "]",
    "\\*",
    "\\a",
    "\\",
    "\\/",
    "{a,b}",
    "{",
    " ",
    "\t",
    "\\ ",
    "!",
    "#",
    "-",
    "é",
    "7",
    "A",
    "\r",
];

/// Makes a tree of directories and files of these names, two levels deep. Returns all files.
fn tree(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for top in NAMES {
        let dir = root.join(format!("{top}d"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(root.join(top), "").unwrap();
        files.push((*top).to_owned());
        for below in &NAMES[..12] {
            fs::write(dir.join(below), "").unwrap();
            files.push(format!("{top}d/{below}"));
        }
        for deep in ["a", "b"] {
            let deeper = dir.join(format!("{deep}d"));
            fs::create_dir(&deeper).unwrap();
            for below in &NAMES[..6] {
                fs::write(deeper.join(below), "").unwrap();
                files.push(format!("{top}d/{deep}d/{below}"));
            }
        }
    }
    files
}

/// Generates a line of a list: pieces, some of them with the suffix that names directories of the tree.
fn line() -> impl Strategy<Value = String> {
    let pieces = proptest::collection::vec(proptest::sample::select(PIECES), 1..7);
    (pieces, 0..4).prop_map(|(pieces, form)| {
        let line: String = pieces.concat();
        match form {
            0 => line + "d/",
            1 => line.replacen('/', "d/", 1),
            _ => line,
        }
    })
}

fn taken(list: &List, files: &[String]) -> BTreeSet<String> {
    let is_taken = |path: &&String| {
        let dirs = path.match_indices('/').map(|(cut, _)| (&path[..cut], true));
        let mut all = dirs.chain([(path.as_str(), false)]);
        !all.any(|(path, is_dir)| list.hides(path.as_bytes(), is_dir) == Some(true))
    };
    files.iter().filter(is_taken).cloned().collect()
}

/// Runs git in the directory, without a configuration.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(args).current_dir(dir).env("HOME", dir);
    let output = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn generated_ignore_lists_hide_the_same_files_as_git() {
    let dir = crate::testing::scratch();
    git(dir.path(), &["init", "--quiet"]);
    let files = tree(dir.path());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: by_tier(250, 20_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let lists = proptest::collection::vec(line(), 1..4);
    let compared = runner.run(&lists, |lines| {
        let text = lines.join("\n");
        fs::write(dir.path().join(".git/patterns"), &text).unwrap();
        let others = ["ls-files", "--others", "-z", "--exclude-from=.git/patterns"];
        let others = git(dir.path(), &others);
        let wanted = others.split_terminator('\0').map(str::to_owned).collect();
        let taken = taken(&List::read(text.as_bytes()), &files);
        let differs: Vec<_> = taken.symmetric_difference(&wanted).collect();
        prop_assert!(differs.is_empty(), "{:?}: {:?}", text, differs);
        Ok(())
    });
    compared.unwrap();
}
