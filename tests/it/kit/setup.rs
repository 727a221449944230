//! `hd harness setup`, and the hints of `hd init` and `hd harness show` about a program that would ask.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::program::script;

/// Makes a directory with a `copilot` of another major version, a home, and a city that uses it.
fn made() -> tempfile::TempDir {
    let temp = horde_supervisor::testing::scratch();
    for dir in ["bin", "home", "city"] {
        fs::create_dir(temp.path().join(dir)).unwrap();
    }
    script(&temp.path().join("bin/copilot"), "echo 7.0.1");
    let city = "[workspace]\nname = \"x\"\n[[agents]]\nname = \"keeper\"\nharness = \"copilot\"\nprompt = \"p\"\n";
    fs::write(temp.path().join("city/city.toml"), city).unwrap();
    temp
}

fn hd(root: &Path, words: &[&str]) -> Output {
    let mut hd = super::hd(&root.join("city"), root.join("bin"));
    let output = hd.args(words).env("HOME", root.join("home")).output();
    output.unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn settings_are_changed_with_consent_only_once_and_a_copy_is_kept() {
    let temp = made();
    let root = temp.path().canonicalize().unwrap();
    let dir = root.join("home/.copilot");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("config.json");
    let before = "// Managed.\n{\n  \"zeta\": 1,\n  \"alpha\": [ 2 ]\n}\n";
    fs::write(&file, before).unwrap();

    let refused = hd(&root, &["harness", "setup", "copilot"]);
    assert_eq!(refused.status.code(), Some(2), "no terminal, no --yes");
    let shown = String::from_utf8(refused.stdout).unwrap();
    assert!(shown.contains("+  \"trustedFolders\": ["), "{shown}");
    let dry = json(&hd(
        &root,
        &["--json", "harness", "setup", "copilot", "--dry-run"],
    ));
    assert_eq!(dry["changed"], false);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);

    let done = json(&hd(
        &root,
        &["--json", "--yes", "harness", "setup", "copilot"],
    ));
    assert_eq!(done["changed"], true, "{done}");
    let city = root.join("city").display().to_string();
    let after = format!(
        "// Managed.\n{{\n  \"zeta\": 1,\n  \"alpha\": [ 2 ],\n  \"trustedFolders\": [\n    \"{city}\"\n  ]\n}}\n"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
    let backup = done["changes"][0]["backup"].as_str().unwrap();
    assert_eq!(fs::read_to_string(backup).unwrap(), before);

    let again = hd(&root, &["harness", "setup", "copilot"]);
    assert_eq!(again.status.code(), Some(0));
    let said = String::from_utf8(again.stdout).unwrap();
    assert_eq!(said, "nothing to change in your settings\n");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
}

#[test]
fn settings_that_cannot_be_read_are_left_alone() {
    let temp = made();
    let dir = temp.path().join("home/.copilot");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("config.json"), "{ \"a\": \n").unwrap();
    let refused = hd(temp.path(), &["--yes", "harness", "setup", "copilot"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("config.json: line 2"), "{said}");
    let text = fs::read_to_string(dir.join("config.json")).unwrap();
    assert_eq!(text, "{ \"a\": \n");
}

#[test]
fn login_version_and_open_questions_are_reported_with_remedies() {
    let temp = made();
    let shown = json(&hd(temp.path(), &["--json", "harness", "show", "copilot"]));
    let kinds = shown["findings"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds
        .map(|finding| finding["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["harness_version", "login", "trust"]);
    let table = hd(temp.path(), &["harness", "list"]);
    let table = String::from_utf8(table.stdout).unwrap();
    let line = table
        .lines()
        .find(|line| line.starts_with("copilot"))
        .unwrap();
    assert!(line.contains("no login, asks"), "{table}");
    let doctor = json(&hd(temp.path(), &["--json", "doctor"]));
    let findings = doctor["findings"].as_array().unwrap();
    let hint = |kind: &str| {
        let found = findings.iter().find(|finding| finding["kind"] == kind);
        found.unwrap()["hint"].as_str().unwrap().to_owned()
    };
    assert_eq!(hint("trust"), "`hd harness setup copilot`");
    assert!(hint("login").contains("/login"));
}

#[test]
fn init_takes_the_named_harness_and_lists_its_needs() {
    let temp = made();
    let made = hd(
        temp.path(),
        &["--json", "init", "../new", "--harness", "copilot"],
    );
    let made = json(&made);
    assert_eq!(made["harness"], "copilot");
    assert_eq!(made["findings"].as_array().unwrap().len(), 3);
    let toml = fs::read_to_string(temp.path().join("new/city.toml")).unwrap();
    assert!(toml.contains("harness = \"copilot\""), "{toml}");
    let wrong = hd(temp.path(), &["init", "../other", "--harness", "copliot"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("did you mean copilot?"), "{said}");
    assert!(!temp.path().join("other").exists());
    let absent = json(&hd(
        temp.path(),
        &["--json", "init", "../third", "--harness", "claude"],
    ));
    assert_eq!(absent["findings"][0]["kind"], "program");
}
