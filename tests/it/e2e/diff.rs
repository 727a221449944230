//! `hd diff`: what a raider changed, before and after it has pushed (`contract.md`, section 2.3).

use serde_json::Value;

use crate::support::live::{City, until};

fn paths(diff: &Value) -> Vec<&str> {
    let files = diff["files"].as_array().unwrap();
    files
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect()
}

/// A raider's uncommitted work is shown; after the push the head of its merge request, whose sum `hd mq show` prints; after the
/// landing the commit is named.
#[test]
fn diff_shows_the_work_of_a_raider_and_of_its_merge_request() {
    let city = City::new();
    let relic = city.work(
        "show it",
        &[
            "commit a.txt",
            "echo unsaved > b.txt",
            "try diff hd --json diff Toast",
            "await go",
            "commit b.txt",
            "outcome reviewing",
            "forever",
        ],
    );
    let diff = city.wait_tried("diff").json();
    assert_eq!(paths(&diff), ["a.txt", "b.txt"], "{diff}");
    assert!(
        diff["text"].as_str().unwrap().contains("+unsaved"),
        "{diff}"
    );
    city.sign("go");
    let request = || city.hd(&["mq", "list"]).json()[0].clone();
    until("it waits for a person", || {
        request()["state"] == "reviewing"
    });
    let id = request()["id"].as_str().unwrap().to_owned();
    for name in [&id, &relic] {
        let diff = city.hd(&["diff", name]).json();
        assert_eq!(paths(&diff), ["a.txt", "b.txt"], "{diff}");
        assert_eq!(diff["head"], request()["head"]);
    }
    let text = city.hd_text(&["diff", &id]);
    assert!(text.out.contains("+++ b/a.txt"), "{}", text.out);
    let shown = city.hd(&["mq", "show", &id]).json();
    assert_eq!(shown["changes"]["files"], 2, "{shown}");
    assert_eq!(city.hd(&["mq", "approve", &id]).code, 0);
    city.wait_status(&relic, "closed");
    let landed = city.hd(&["diff", &id]).error(1);
    assert!(
        landed["message"]
            .as_str()
            .unwrap()
            .contains("has landed on main"),
        "{landed}"
    );
    city.hd(&["diff", "gt-99"]).error(4);
    city.hd(&["diff", "Nobody"]).error(4);
}
