//! Work that cannot land goes to a fresh raider with the reason, a limited number of times, and then to a person.

use std::fs;

use serde_json::json;

use super::{failures, foreign, landed};
use crate::faults::{does, plan};
use crate::support::git::git;
use crate::support::live::City;
use crate::support::program;

/// A conflict holds up no later merge request.
/// Weakness W22 of an earlier system: gates ran on the target before the merge, and a failed push left its merge
/// behind.
#[test]
fn conflict_goes_to_a_fresh_raider_with_the_conflicting_files() {
    let mut city = plan().start();
    let script = format!(
        "cp TASK.md $HD_CITY/task.$HD_INCARNATION; sign ready; await go\n\
         [ $n = 1 ] || await again\n\
         sed 's/^two.*/two, mine/' shared.txt > .new; mv .new shared.txt; git add shared.txt\n{}",
        does("w1")
    );
    let relic = city.script("w1", &script);
    city.charge(&relic);
    city.wait_sign("ready");
    foreign(&city, "shared.txt", "one\ntwo, theirs\nthree\n");
    city.sign("go");
    city.wait_event(2, "raider.charged", "horde/raiders/Toast");
    let later = city.work_on("w2");
    city.wait_status(&later, "closed");
    assert_eq!(city.status_of(&relic), "hooked");
    city.sign("again");
    city.assert_landed(&[("w1".to_owned(), relic.clone()), ("w2".to_owned(), later)]);

    let failed = failures(&city, &relic);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure_type"], "conflict");
    assert_eq!(failed[0]["conflict_files"], json!(["shared.txt"]));
    let mrs = city.mrs(&relic);
    let states: Vec<_> = mrs.iter().map(|mr| mr["state"].clone()).collect();
    assert_eq!(states, ["conflict", "merged"]);
    assert_eq!(mrs[0]["conflict_files"], json!(["shared.txt"]));
    let mut charged = city.all_of("raider.charged");
    charged.retain(|event| event["data"]["relic"] == relic.as_str());
    assert_eq!(charged.len(), 2);
    let who = |event: &serde_json::Value| {
        (
            event["subject"].clone(),
            event["data"]["incarnation"].clone(),
        )
    };
    assert_ne!(who(&charged[0]), who(&charged[1]));
    assert_eq!(charged[1]["cause"], "merge_failed");
    // The fresh raider started from the present main, and was told the reason.
    let task = fs::read_to_string(city.root().join("task.2")).expect("a second session");
    assert!(task.contains("An earlier attempt"), "{task}");
    assert!(task.contains("shared.txt"), "{task}");
    let shared = git(&city.origin(), &["show", "main:shared.txt"]);
    assert_eq!(shared, "one\ntwo, mine\nthree");
    city.stop();
}

#[test]
fn a_branch_that_stays_red_is_blocked_and_a_person_is_called() {
    let gates = r#"[{ name = "check", run = "{root}/gate", retries = 0 }]"#;
    let plan = plan().set("forge", "rework_attempts", "2");
    let mut city = City::made(&plan.set("forge", "gates", gates));
    program::script(
        &city.root().join("gate"),
        "[ ! -e work/bad ] || { echo no bad work please; exit 1; }",
    );
    city.start();
    let script = format!("cp TASK.md $HD_CITY/task.$HD_INCARNATION\n{}", does("bad"));
    let relic = city.script("bad", &script);
    city.charge(&relic);
    city.wait_status(&relic, "blocked");

    let failed = failures(&city, &relic);
    assert_eq!(failed.len(), 3, "the first attempt and two reworks");
    for failed in &failed {
        assert_eq!(failed["failure_type"], "tests");
        let error = failed["error"].as_str().expect("a text");
        assert!(error.contains("no bad work please"), "{error}");
    }
    for incarnation in [2, 3] {
        let task = fs::read_to_string(city.root().join(format!("task.{incarnation}")));
        let task = task.expect("a session");
        assert!(task.contains("no bad work please"), "{task}");
    }
    city.wait_first("escalation.raised");
    assert_eq!(city.answer("status", json!({}))["escalations"], 1);
    assert_eq!(landed(&city), Vec::<String>::new());
    // Its work is kept on the remote, and does not hold up others.
    let good = city.work_on("good");
    city.wait_status(&good, "closed");
    assert_eq!(landed(&city), ["Work on good"]);
    assert_eq!(city.status_of(&relic), "blocked");
    for mr in city.mrs(&relic) {
        let head = mr["head"].as_str().expect("a commit");
        git(&city.origin(), &["cat-file", "-e", head]);
    }
    city.stop();
}
