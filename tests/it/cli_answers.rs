//! Answers of a supervisor of another version than `hd`, and errors that need no answer.

use serde_json::{Value, json};

use crate::cli::run;
use crate::fake_city::FakeCity;

/// The supervisor runs on as another version until its restart.
#[test]
fn answer_that_hd_does_not_know_is_told_as_such_and_json_has_it() {
    let city = FakeCity::start();
    let strange = json!({"name": "Toast", "state": "floating"});
    city.fake.answer("agent.stop", Ok(strange.clone()));
    let ran = run(city.hd().args(["agent", "stop", "Toast"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let told = "the supervisor answered agent.stop with something that this hd";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(ran.stderr.contains("floating"), "{}", ran.stderr);
    let ran = run(city.hd().args(["agent", "stop", "Toast", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), strange);
}

/// `hd doctor` names what does not fit as a finding, beside those that need no supervisor.
#[test]
fn doctor_reports_an_answer_that_does_not_fit_as_a_finding() {
    let city = FakeCity::start();
    let strange = json!({"ok": true, "findings": [{"kind": "haunted"}], "git": null});
    city.fake.answer("doctor", Ok(strange));
    let ran = run(city.hd().args(["doctor", "--json"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["ok"], false);
    let findings = told["findings"].as_array().unwrap();
    let misfit = findings
        .iter()
        .find(|finding| finding["kind"] == "supervisor");
    let misfit = misfit.unwrap_or_else(|| panic!("no misfit: {told}"));
    let says = misfit["says"].as_str().unwrap();
    assert!(
        says.contains("answered doctor with something that this hd"),
        "{misfit}"
    );
    let hint = misfit["hint"].as_str().unwrap();
    assert!(hint.contains("hd ping --json"), "{misfit}");
}

/// Errors of the parser are errors of the verb, too.
#[test]
fn error_of_the_parser_is_json_where_json_is_asked_for() {
    let city = FakeCity::start();
    for words in [
        "raider nuke --json",
        "--json statsu",
        "relic list --json --status lost",
        "--json relic",
        "done --json --no-such-flag",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let ran = run(city.hd().args(&words));
        let plain: Vec<_> = words.iter().copied().filter(|it| *it != "--json").collect();
        let plain = run(city.hd().args(&plain));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{words:?}");
        assert_eq!(plain.code, 2, "{words:?}");
        let told: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(
            (&told["exit"], &told["error"]["kind"]),
            (&json!(2), &json!("bad_request"))
        );
        let message = told["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains("error:"), "{told}");
        assert!(
            told["error"]["hint"].as_str().unwrap().contains("--help"),
            "{told}"
        );
    }
    // The flag of another command is none of `hd`; help is text.
    let ran = run(city.hd().args(["status", "--no-such-flag", "--", "--json"]));
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    let ran = run(city.hd().args(["--json", "relic", "--help"]));
    assert!(ran.code == 0 && ran.stdout.contains("Usage: hd relic"));
}
