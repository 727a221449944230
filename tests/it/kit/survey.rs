//! `hd harness list` and `hd harness show`.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::program::script;

const CITY: &str = r#"
[workspace]
name = "x"

[harness.mine]
command = ["./work.sh", "{prompt}"]
env = { SEASON = "winter" }

[[agents]]
name = "keeper"
harness = "claude"
prompt = "p"
"#;

/// Makes a city, and a directory with a `claude` that prints its version.
fn made() -> tempfile::TempDir {
    let temp = horde_supervisor::testing::scratch();
    fs::write(temp.path().join("city.toml"), CITY).unwrap();
    let bin = temp.path().join("bin");
    fs::create_dir(&bin).unwrap();
    script(&bin.join("claude"), "echo \"2.1.197 (Claude Code)\"");
    temp
}

fn hd(root: &Path, words: &[&str]) -> Output {
    let output = super::hd(root, root.join("bin")).args(words).output();
    output.unwrap()
}

fn json(root: &Path, words: &[&str]) -> Value {
    let output = hd(root, &[&["--json"], words].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Presets can be listed before `hd init`.
#[test]
fn presets_are_listed_and_shown_outside_of_a_city() {
    let temp = made();
    fs::remove_file(temp.path().join("city.toml")).unwrap();
    let rows = json(temp.path(), &["harness", "list"]);
    let claude = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "claude");
    assert_eq!(claude.unwrap()["version"], "2.1.197", "{rows:#}");
    let shown = json(temp.path(), &["harness", "show", "claude"]);
    assert_eq!(shown["name"], "claude");
    assert_eq!(
        hd(temp.path(), &["harness", "show", "clade"]).status.code(),
        Some(4)
    );
}

#[test]
fn list_tells_which_programs_are_there() {
    let temp = made();
    let rows = json(temp.path(), &["harness", "list"]);
    let row = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["name"] == name).unwrap().clone()
    };
    let claude = row("claude");
    assert_eq!(claude["version"], "2.1.197");
    assert_eq!(claude["used_by"][0], "agent keeper");
    assert!(claude["file"].as_str().unwrap().ends_with("/bin/claude"));
    assert_eq!(row("codex")["file"], Value::Null);
    assert_eq!(row("mine")["command"][0], "./work.sh");
    let table = hd(temp.path(), &["harness", "list"]);
    let table = String::from_utf8(table.stdout).unwrap();
    let line = |name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(line("claude").contains("2.1.197 no login"), "{table}");
    assert!(
        line("claude").contains("hooks, screen reduced, resumes"),
        "{table}"
    );
    assert!(
        line("mine").contains("menus only no reduced form, starts afresh"),
        "{table}"
    );
    assert!(line("codex").contains("codex (not found)"), "{table}");
}

/// The list must not present a preset as proven that never met its program, nor look for the program of a harness
/// without a command.
#[test]
fn list_marks_untried_presets_and_those_without_a_command() {
    let temp = made();
    let rows = json(temp.path(), &["harness", "list"]);
    let rows = rows.as_array().unwrap().iter();
    let unproven = rows.filter(|row| row["unproven"] == true);
    let unproven: Vec<_> = unproven.map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(unproven, ["amp", "cursor", "goose"]);
    let table = hd(temp.path(), &["harness", "list"]);
    let table = String::from_utf8(table.stdout).unwrap();
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("cursor").contains("unproven"), "{table}");
    assert!(!line("claude").contains("unproven"), "{table}");
    assert!(line("script").contains("(no command)"), "{table}");
    let note = "(no command): set `command` of that harness";
    assert!(table.contains(note), "{table}");
    let shown = |name: &str| {
        let shown = hd(temp.path(), &["harness", "show", name]);
        String::from_utf8(shown.stdout).unwrap()
    };
    assert!(
        shown("goose").contains("unproven: never run"),
        "{}",
        shown("goose")
    );
    assert!(shown("script").contains(note), "{}", shown("script"));
}

#[test]
fn show_prints_all_settings_and_explains_placeholders() {
    let temp = made();
    let shown = json(temp.path(), &["harness", "show", "mine"]);
    assert_eq!(shown["settings"]["env"]["SEASON"], "winter");
    assert_eq!(shown["settings"]["prompt"], "arg");
    let meaning = shown["placeholders"]["{prompt}"].as_str().unwrap();
    assert!(meaning.contains("the prompt"));
    let text = hd(temp.path(), &["harness", "show", "mine"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("\n[harness.mine]\n"), "{text}");
    assert!(text.contains("SEASON = \"winter\""), "{text}");
    assert!(text.contains("\n{prompt}: the prompt"), "{text}");
}

#[test]
fn unknown_harness_is_refused_with_a_near_name() {
    let temp = made();
    let output = hd(temp.path(), &["harness", "show", "cluade"]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("did you mean claude?"), "{said}");
}
