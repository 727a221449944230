//! A charge that cannot be completed leaves nothing behind.

use serde_json::json;

use super::city::{City, CityPlan, does};

fn fails(plan: &CityPlan) {
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
    fails(&CityPlan {
        command: "[\"no-such-program-anywhere\"]".to_owned(),
        ..CityPlan::default()
    });
}

#[test]
fn a_setup_command_that_fails_leaves_nothing_behind() {
    fails(&CityPlan {
        raiders: "max = 4\nsetup = [\"exit 3\"]".to_owned(),
        ..CityPlan::default()
    });
}
