//! Validation of the configuration by the daemon (`contract.md`, 2.1 and 2.2).

use std::fs;
use std::process::Output;

use crate::support::live::City;
use crate::support::plan::Plan;

fn supervisor(city: &City, words: &[&str]) -> Output {
    let mut supervisor = city.program("horde-supervisor");
    supervisor.args(words).arg(city.root()).output().unwrap()
}

/// `--check` exits with 0 or 2, and shows errors with line and caret; nothing is started.
#[test]
fn check_tells_a_good_configuration_from_a_bad_one() {
    let city = City::made(&Plan::new());
    let good = supervisor(&city, &["--check"]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let bad = toml
        .replace("max = 4", "mx = 4")
        .replace("\"1h\"", "\"soon\"");
    fs::write(city.root().join("city.toml"), bad).unwrap();
    for words in [&["--check"][..], &[]] {
        let told = supervisor(&city, words);
        assert_eq!(told.status.code(), Some(2), "{words:?}");
        let text = String::from_utf8(told.stderr).unwrap();
        for part in ["city.toml:", "mx", "did you mean", "max", "soon", "^"] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
    assert!(!city.root().join(".horde").exists());
    assert_eq!(city.hd(&["config", "check"]).code, 2);
}

/// A refused reload, and the status after it, show the same errors as a start.
#[test]
fn refused_reload_shows_file_line_and_caret_as_a_start_does() {
    let city = City::new();
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let bad = toml.replace("max = 4", "mx = 4");
    fs::write(city.root().join("city.toml"), bad).unwrap();
    let told = supervisor(&city, &["--check"]);
    let told = String::from_utf8(told.stderr).unwrap();
    let (message, caret) = ("mx = 4", "^^");
    let shows = told
        .lines()
        .filter(|line| line.contains(message) || line.contains(caret) || line.contains("-->"));
    let shows: Vec<&str> = shows.map(str::trim_end).collect();
    assert!(shows.len() >= 3, "{told}");
    let reload = city.hd_text(&["reload"]);
    assert_eq!(reload.code, 2);
    let status = city.hd_text(&["status"]).out;
    for text in [&reload.out, &status] {
        for line in &shows {
            let found = text.lines().any(|shown| shown.trim_end() == *line);
            assert!(found, "{line:?} is not in:\n{text}");
        }
    }
}

/// 2.1: another rig's role names and unknown harnesses are found before anything runs.
#[test]
fn names_of_roles_are_not_accepted_for_slots() {
    let plan = Plan::new().set("raiders", "names", r#"["Toast", "Witness"]"#);
    let city = City::made(&plan);
    let told = supervisor(&city, &["--check"]);
    assert_eq!(told.status.code(), Some(2));
    let text = String::from_utf8(told.stderr).unwrap();
    assert!(text.contains("Witness"), "{text}");
}

/// `contract.md`, 2.2: the schema that the first line of `city.toml` names is that of the running version.
#[test]
fn schema_for_editors_is_renewed_at_each_start() {
    let mut city = City::new();
    let file = city.root().join(".horde/city.schema.json");
    let printed = city.hd(&["config", "schema"]).json();
    let restarts = &printed["properties"]["daemon"]["properties"]["max_restarts"];
    assert_eq!(restarts["default"], 5, "{restarts}");
    let written = || {
        let text = fs::read_to_string(&file).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    assert_eq!(written(), printed);
    city.stop();
    fs::write(&file, "{}").unwrap();
    // It needs no city that is valid.
    let toml = city.root().join("city.toml");
    let valid = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, "nonsense = 1\n").unwrap();
    assert_eq!(city.hd(&["config", "schema"]).json(), printed);
    fs::write(&toml, valid).unwrap();
    city.start();
    assert_eq!(written(), printed);
}
