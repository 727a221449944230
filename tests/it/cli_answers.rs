//! Answers of a supervisor of another version than `hd`.

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
