//! Remotes that refuse, and remotes that are away (`rules.md`, done).

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{assert_no_raider_blamed, failures, landed};
use crate::faults::{does, plan};
use crate::support::git::{git, rev};
use crate::support::live::{City, wait};
use crate::support::program;

/// Weakness W22 of an earlier system: gates ran on the target before the merge, and a failed push left its merge
/// behind.
#[test]
fn a_remote_that_refuses_the_target_is_a_failed_push_and_calls_a_person() {
    let gates = r#"[{ name = "check", run = "{root}/gate" }]"#;
    let mut city = City::made(&plan().set("forge", "gates", gates));
    let place = city.root().join("gated-in").display().to_string();
    program::script(
        &city.root().join("gate"),
        &format!("test -f work/w1 && pwd >{place}"),
    );
    let main = rev(&city.checkout(), "HEAD");
    city.start();
    program::script(
        &city.origin().join("hooks/pre-receive"),
        "while read -r old new ref; do\n\
         [ \"$ref\" != refs/heads/main ] || { echo policy says no >&2; exit 1; }\ndone",
    );
    let relic = city.work_on("w1");
    city.wait_status(&relic, "blocked");
    let failed = failures(&city, &relic);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure_type"], "push");
    let error = failed[0]["error"].as_str().expect("a text");
    assert!(error.contains("policy says no"), "{error}");
    city.wait_first("escalation.raised");
    assert_eq!(landed(&city), Vec::<String>::new());
    assert_eq!(city.all_of("raider.charged").len(), 1);
    // No ref of the target moved, and the merge is not left in the work tree of the gates.
    for dir in [city.repo(), city.theirs()] {
        let refs = ["for-each-ref", "--format=%(refname) %(objectname)"];
        let refs = git(&dir, &refs);
        let targets = refs.lines().filter(|line| line.contains("/main "));
        let targets: Vec<_> = targets.collect();
        let moved: Vec<_> = targets.iter().filter(|it| !it.ends_with(&main)).collect();
        assert!(!targets.is_empty() && moved.is_empty(), "{targets:?}");
    }
    let gated_in = fs::read_to_string(place).expect("the gate ran");
    let status = ["status", "--porcelain", "--ignored"];
    assert_eq!(git(Path::new(gated_in.trim()), &status), "");
    // The work itself is safe on its branch.
    let head = failed[0]["head"].as_str().expect("a commit");
    let contains = ["for-each-ref", "--contains", head, "refs/heads/raider"];
    assert_ne!(git(&city.origin(), &contains), "");
    city.stop();
}

#[test]
fn a_remote_that_is_away_blocks_the_push_until_it_is_back() {
    let mut city = plan().start();
    let script = format!("sign ready; await go\n{}", does("w1"));
    let relic = city.script("w1", &script);
    city.charge(&relic);
    city.wait_sign("ready");
    let away = city.root().join("away.git");
    fs::rename(city.origin(), &away).expect("it moves away");
    city.sign("go");
    city.wait_first("raider.push_blocked");
    wait("the condition is shown", || {
        let raiders = city.answer("raider.list", json!({}));
        let (condition, detail) = (&raiders[0]["condition"], &raiders[0]["detail"]);
        (condition == "push_blocked" && detail.is_string()).then_some(())
    });
    fs::rename(&away, city.origin()).expect("it comes back");
    city.assert_landed(&[("w1".to_owned(), relic.clone())]);
    assert_no_raider_blamed(&city, &relic);
    assert!(city.all_of("raider.zombie").is_empty());
    assert_eq!(city.all_of("raider.done").len(), 1);
    city.assert_no_salvage();
    city.stop();
}
