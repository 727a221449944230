//! A person's decision: `review = "human"`, outcome `reviewing`, `hd mq approve` and `reject` (`agent-lifecycle.md`,
//! section 6; `product.md`, human review).

use serde_json::Value;

use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// Returns the relic's newest merge request.
fn mr(city: &City, relic: &str) -> Option<Value> {
    let all = city.hd(&["mq", "list"]).json();
    let mut all = all.as_array().unwrap().iter().rev();
    all.find(|mr| mr["relic"] == relic && mr["state"] != "rejected")
        .cloned()
}

fn waits_for_a_person(city: &City, relic: &str) -> String {
    until("it waits for a person", || {
        mr(city, relic).is_some_and(|mr| mr["note"].as_str().unwrap_or("").contains("approve"))
    });
    mr(city, relic).unwrap()["id"].as_str().unwrap().to_owned()
}

/// Nothing lands before a person approves; sandbox and slot stay until then.
#[test]
fn merge_request_in_review_lands_when_it_is_approved() {
    let city = City::new();
    let relic = city.work(
        "look at it",
        &["commit a.txt", "outcome reviewing", "forever"],
    );
    let id = waits_for_a_person(&city, &relic);
    assert_eq!(mr(&city, &relic).unwrap()["state"], "reviewing");
    assert!(!city.landed().contains(&"a.txt".to_owned()));
    assert!(city.sandbox("Toast").join("a.txt").exists());
    let head = mr(&city, &relic).unwrap()["head"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = "0123456789abcdef0123456789abcdef01234567";
    for wrong in [other, &head[..4], ""] {
        let refused = city.hd(&["mq", "approve", &id, "--head", wrong]);
        assert_eq!(refused.code, 1, "{wrong:?}: {}", refused.err);
        assert!(refused.err.contains(&head), "{}", refused.err);
    }
    assert_eq!(
        city.hd(&["mq", "approve", &id, "--head", &head[..10]]).code,
        0
    );
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"a.txt".to_owned()));
    city.wait_no_raiders();
    assert_eq!(
        city.hd(&["mq", "approve", &id]).code,
        0,
        "approving twice is approving once"
    );
    assert_eq!(city.happened("mr.approved", &id).len(), 1);
}

/// A rejection goes to a fresh raider with its note, and is not counted as a rework.
#[test]
fn rejected_work_goes_to_a_fresh_raider_with_the_reason() {
    let plan =
        Plan::new()
            .set("forge", "review", r#""human""#)
            .set("forge", "rework_attempts", "0");
    let mut city = City::made(&plan);
    city.start();
    let relic = city.work(
        "mind the style",
        &[
            "commit $([ $n = 1 ] && echo bad.txt || echo good.txt)",
            "hd done",
        ],
    );
    let first = waits_for_a_person(&city, &relic);
    let asked = city.hd(&["mq", "reject", &first, "--note", "wrong name"]);
    assert_eq!(asked.code, 2, "it needs consent");
    let said = city.hd(&["--yes", "mq", "reject", &first, "--note", "wrong name"]);
    assert_eq!(said.code, 0);
    until("a fresh raider is at it", || city.sessions_of(&relic) == 2);
    let second = waits_for_a_person(&city, &relic);
    assert_ne!(first, second);
    let told = city.wait_prompt(&relic, 2);
    assert!(told.contains("wrong name"), "{told}");
    assert_eq!(city.hd(&["mq", "approve", &second]).code, 0);
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"good.txt".to_owned()));
    assert!(!city.landed().contains(&"bad.txt".to_owned()));
}

/// Without a review the slot is free again after `review_hold`, and the pushed work lands when it is approved.
#[test]
fn unreviewed_merge_request_waits_on_without_its_raider() {
    let plan = Plan::new().set("daemon", "patrol_interval", r#""1s""#).set(
        "witness",
        "review_hold",
        r#""1s""#,
    );
    let mut city = City::made(&plan);
    city.start();
    let relic = city.work(
        "look at it",
        &["commit a.txt", "outcome reviewing", "forever"],
    );
    let id = waits_for_a_person(&city, &relic);
    assert_eq!(
        city.happened("raider.needs_input", "horde/raiders/Toast")
            .len(),
        1
    );
    city.wait_no_raiders();
    assert_eq!(mr(&city, &relic).unwrap()["state"], "reviewing");
    assert_eq!(city.hd(&["mq", "approve", &id]).code, 0);
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"a.txt".to_owned()));
}
