//! A charge that cannot be completed leaves nothing behind.

use serde_json::json;

use super::city::{City, Plan, does};

fn fails(plan: &Plan) {
    let city = City::running(plan);
    let relic = city.relic("w1", 0, &does("w1"));
    let error = city.try_ask("charge", &json!({ "relic": relic, "rig": "rig" }));
    error.expect_err("it cannot be charged");
    city.assert_quiet();
    // A fresh sandbox holds nothing that is unreachable.
    city.assert_no_salvage();
    assert_eq!(city.status_of(&relic), "open");
    city.stop();
}

#[test]
fn a_harness_that_does_not_exist_leaves_nothing_behind() {
    fails(&Plan {
        command: "[\"no-such-program-anywhere\"]".to_owned(),
        ..Plan::default()
    });
}

#[test]
fn a_setup_command_that_fails_leaves_nothing_behind() {
    fails(&Plan {
        raiders: "max = 4\nsetup = [\"exit 3\"]".to_owned(),
        ..Plan::default()
    });
}
