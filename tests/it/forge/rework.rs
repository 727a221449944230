//! Work that cannot land goes to a fresh raider with the reason, a limited number of times, and then to a person.

use std::fs;

use serde_json::json;

use super::super::faults::city::{City, CityPlan, does, touch};
use super::super::support::git::git;
use super::super::support::program;
use super::{failures, foreign, landed};

#[test]
fn conflict_goes_to_a_fresh_raider_with_the_conflicting_files() {
    let city = City::running(&CityPlan::default());
    let root = city.root().display().to_string();
    let script = format!(
        "cp TASK.md {root}/task.$HD_INCARNATION; touch {root}/ready\n\
         while [ ! -e {root}/go ]; do sleep 0.05; done\n\
         sed 's/^two.*/two, mine/' shared.txt > .new; mv .new shared.txt; git add shared.txt\n{}",
        does("w1")
    );
    let relic = city.relic("w1", 0, &script);
    city.charge(&relic);
    let ready = city.root().join("ready");
    city.wait("the raider works", || ready.exists().then_some(()));
    foreign(&city, "shared.txt", "one\ntwo, theirs\nthree\n");
    touch(&city.root().join("go"));
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);

    let failed = failures(&city, &relic);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure_type"], "conflict");
    assert_eq!(failed[0]["conflict_files"], json!(["shared.txt"]));
    let mrs = city.mrs(&relic);
    let states: Vec<_> = mrs.iter().map(|mr| mr["state"].clone()).collect();
    assert_eq!(states, ["conflict", "merged"]);
    assert_eq!(mrs[0]["conflict_files"], json!(["shared.txt"]));
    let charged = city.events("raider.charged");
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
    let city = City::new(&CityPlan::default());
    let root = city.root().display().to_string();
    let forge = format!(
        "rework_attempts = 2\ngates = [{{ name = \"check\", run = \"{root}/gate\", retries = 0 }}]"
    );
    let city = city.configured(&CityPlan::forge(forge));
    program::script(
        &city.root().join("gate"),
        "[ ! -e work/bad ] || { echo no bad work please; exit 1; }",
    );
    city.start(&[]);
    let script = format!("cp TASK.md {root}/task.$HD_INCARNATION\n{}", does("bad"));
    let relic = city.relic("bad", 0, &script);
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
    city.wait_event("escalation.raised");
    assert_eq!(city.ask("status", &json!({}))["escalations"], 1);
    assert_eq!(landed(&city), Vec::<String>::new());
    // Its work is kept on the remote, and does not hold up others.
    let good = city.work("good");
    city.wait_status(&good, "closed");
    assert_eq!(landed(&city), ["Work on good"]);
    assert_eq!(city.status_of(&relic), "blocked");
    for mr in city.mrs(&relic) {
        let head = mr["head"].as_str().expect("a commit");
        git(&city.origin(), &["cat-file", "-e", head]);
    }
    city.stop();
}
