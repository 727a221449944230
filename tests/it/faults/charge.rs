//! A charge that cannot be completed leaves nothing behind.

use serde_json::json;

use super::{does, plan};
use crate::support::plan::Plan;

fn fails(plan: &Plan) {
    let mut city = plan.start();
    let relic = city.script("w1", &does("w1"));
    let error = city.ask("charge", json!({ "relic": relic, "rig": "horde" }));
    error.expect_err("it cannot be charged");
    city.assert_quiet();
    // A fresh sandbox holds nothing that is unreachable.
    city.assert_no_salvage();
    assert_eq!(city.status_of(&relic), "open");
    city.stop();
}

#[test]
fn a_harness_that_does_not_exist_leaves_nothing_behind() {
    fails(&plan().harness(r#"["no-such-program-anywhere"]"#));
}

#[test]
fn a_setup_command_that_fails_leaves_nothing_behind() {
    fails(&plan().set("raiders", "setup", r#"["exit 3"]"#));
}
