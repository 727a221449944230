//! `hd harness test`: its findings about an agent that conforms, and about agents that do not.

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use super::agent;

/// Makes a city whose harness `fake` is the agent in this role.
fn city(root: &Path, role: &str) {
    let exe = std::env::current_exe().unwrap();
    let (exe, test, variable) = (exe.display(), agent::TEST, agent::ROLE);
    let toml = format!(
        r#"
[workspace]
name = "x"

[harness.fake]
command = ["{exe}", "--exact", "{test}", "--nocapture", "--test-threads=1"]
prompt = "file"
env = {{ {variable} = "{role}" }}
input_patterns = ['^>( |$)']
rate_limit_patterns = ['hit your limit · resets (?P<until>.*)']
auth_patterns = ['Please run /login']

[harness.cursor]
command = ["/bin/sh"]

[harness.silent]
command = ["sh", "-c", "exec sleep 600"]
prompt = "file"
"#
    );
    fs::write(root.join("city.toml"), toml).unwrap();
}

/// Runs `hd harness test` on the agent in this role, for these cases. Returns the result and the exit code.
fn test(role: &str, cases: &[&str]) -> (Value, Option<i32>) {
    let cases: Vec<_> = cases.iter().flat_map(|case| ["--case", case]).collect();
    try_harness(role, &[&["fake"], &cases[..]].concat())
}

fn try_harness(role: &str, words: &[&str]) -> (Value, Option<i32>) {
    let temp = horde_supervisor::testing::scratch();
    city(temp.path(), role);
    let path = std::env::var_os("PATH").unwrap();
    let mut hd = super::hd(temp.path(), path);
    hd.args(["--json", "harness", "test"]).args(words);
    let hd = hd.env("ANTHROPIC_API_KEY", "of a person");
    let output = hd.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let told = serde_json::from_str(&told);
    (
        told.unwrap_or_else(|error| panic!("{error}: {said}")),
        output.status.code(),
    )
}

fn case<'a>(told: &'a Value, name: &str) -> &'a Value {
    let mut cases = told["cases"].as_array().unwrap().iter();
    cases.find(|case| case["case"] == name).unwrap()
}

/// Asserts that the agent that conforms passes these cases. They are shared among several tests, which run in parallel.
/// The end of a limit is not waited for.
fn holds(cases: &[&str]) {
    let named = cases.iter().flat_map(|case| ["--case", case]);
    let words: Vec<_> = ["fake", "--short"].into_iter().chain(named).collect();
    let (told, code) = try_harness("", &words);
    for name in cases {
        assert_eq!(case(&told, name)["result"], "held", "{told:#}");
    }
    assert_eq!(told["held"], true);
    assert_eq!(code, Some(0));
}

#[test]
fn agent_that_conforms_holds_from_its_start_until_it_is_done() {
    holds(&["start", "prompt", "commit", "done"]);
}

#[test]
#[ignore = "long tier: the cases of the kit that wait"]
fn agent_that_conforms_holds_beside_another_and_when_it_asks() {
    holds(&["two", "question", "limit", "login"]);
}

#[test]
fn agent_that_conforms_holds_when_it_is_ended() {
    holds(&["kill", "handoff", "stop"]);
}

#[test]
fn agent_that_asks_at_its_start_does_not_hold_and_its_screen_is_shown() {
    let (told, code) = test("asks", &["start"]);
    let start = case(&told, "start");
    assert_eq!(start["result"], "did not hold", "{told:#}");
    let screen = start["screen"].as_str().unwrap();
    assert!(screen.contains("Do you trust this directory?"), "{screen}");
    assert_eq!(code, Some(1));
}

#[test]
fn agent_that_tells_half_of_its_prompt_does_not_hold() {
    let (told, _) = test("mangles", &["prompt"]);
    let prompt = case(&told, "prompt");
    assert_eq!(prompt["result"], "did not hold", "{told:#}");
    assert!(
        prompt["why"].as_str().unwrap().contains("First line"),
        "{told:#}"
    );
}

#[test]
fn agents_that_share_an_identity_do_not_hold() {
    let (told, _) = test("shares", &["two"]);
    assert_eq!(case(&told, "two")["result"], "did not hold", "{told:#}");
}

/// The program is not tried again and again: the first case reports the failure for all.
#[test]
fn program_that_never_asks_the_model_cannot_be_tried() {
    let (told, code) = try_harness("", &["silent", "--limit", "2s"]);
    let cases = told["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 11);
    for case in cases {
        assert_eq!(case["result"], "cannot be tried", "{told:#}");
    }
    assert_eq!(code, Some(1));
}

#[test]
fn program_with_servers_of_its_own_cannot_be_tried() {
    let (told, code) = try_harness("", &["cursor"]);
    assert_eq!(
        case(&told, "start")["result"],
        "cannot be tried",
        "{told:#}"
    );
    assert_eq!(code, Some(1));
}

#[test]
fn unknown_case_is_refused_with_those_that_there_are() {
    let temp = horde_supervisor::testing::scratch();
    city(temp.path(), "");
    let output = Command::new(cargo_bin("hd"))
        .args(["harness", "test", "fake", "--case", "begin"])
        .current_dir(temp.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("start, prompt"), "{said}");
}
