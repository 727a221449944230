//! Remotes that refuse, and remotes that are away (`4-rules.md`, done).

use std::fs;

use serde_json::json;

use super::super::faults::city::{City, CityPlan, does, touch};
use super::super::support::git::git;
use super::super::support::program;
use super::{assert_no_raider_blamed, failures, landed};

#[test]
fn a_remote_that_refuses_the_target_is_a_failed_push_and_calls_a_person() {
    let city = City::running(&CityPlan::default());
    program::script(
        &city.origin().join("hooks/pre-receive"),
        "while read -r old new ref; do\n\
         [ \"$ref\" != refs/heads/main ] || { echo policy says no >&2; exit 1; }\ndone",
    );
    let relic = city.work("w1");
    city.wait_status(&relic, "blocked");
    let failed = failures(&city, &relic);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure_type"], "push");
    let error = failed[0]["error"].as_str().expect("a text");
    assert!(error.contains("policy says no"), "{error}");
    city.wait_event("escalation.raised");
    assert_eq!(landed(&city), Vec::<String>::new());
    assert_eq!(city.events("raider.charged").len(), 1, "{}", city.story());
    // The work itself is safe on its branch.
    let head = failed[0]["head"].as_str().expect("a commit");
    let contains = ["for-each-ref", "--contains", head, "refs/heads/raider"];
    assert_ne!(git(&city.origin(), &contains), "");
    city.stop();
}

#[test]
fn a_remote_that_is_away_blocks_the_push_until_it_is_back() {
    let city = City::running(&CityPlan::default());
    let root = city.root().display().to_string();
    let script = format!(
        "touch {root}/ready; while [ ! -e {root}/go ]; do sleep 0.05; done\n{}",
        does("w1")
    );
    let relic = city.relic("w1", 0, &script);
    city.charge(&relic);
    let ready = city.root().join("ready");
    city.wait("the raider works", || ready.exists().then_some(()));
    let away = city.root().join("away.git");
    fs::rename(city.origin(), &away).expect("it moves away");
    touch(&city.root().join("go"));
    city.wait_event("raider.push_blocked");
    city.wait("the condition is shown", || {
        let raiders = city.ask("raider.list", &json!({}));
        let (condition, detail) = (&raiders[0]["condition"], &raiders[0]["detail"]);
        (condition == "push_blocked" && detail.is_string()).then_some(())
    });
    fs::rename(&away, city.origin()).expect("it comes back");
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);
    assert_no_raider_blamed(&city, &relic);
    assert!(city.events("raider.zombie").is_empty(), "{}", city.story());
    assert_eq!(city.events("raider.done").len(), 1, "{}", city.story());
    city.assert_no_salvage();
    city.stop();
}
