//! The forge: conflicts, red gates, remotes that are away, rigs without one (`witness-patrol.md`,
//! signal flow; `4-rules.md`, gates; issue 2, point 7).

use std::fs;

use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;

fn failures(city: &City, relic: &str) -> Vec<Value> {
    let mut events = city.events();
    events.retain(|event| {
        let data = &event["data"];
        event["type"] == "message.sent" && data["type"] == "MERGE_FAILED" && data["relic"] == relic
    });
    events
        .into_iter()
        .map(|event| event["data"].clone())
        .collect()
}

/// A conflict goes to a fresh raider that is told the files, and its work lands.
#[test]
fn a_conflict_is_reworked_by_a_fresh_raider() {
    let city = City::new();
    let first = city.work(
        "first",
        &["sign a", "await one", "commit same.txt A", "hd done"],
    );
    let second = city.work(
        "second",
        &[
            "[ $n = 2 ] || { sign b; await two; commit same.txt B; hd done; forever; }",
            "grep -q A same.txt",
            "commit same.txt 'A and B'",
            "hd done",
        ],
    );
    city.wait_sign("a");
    city.wait_sign("b");
    city.sign("one");
    city.wait_status(&first, "closed");
    city.sign("two");
    let prompt = city.wait_prompt(&second, 2);
    assert!(
        prompt.contains("same.txt") && prompt.contains("conflicts with"),
        "{prompt}"
    );
    city.wait_status(&second, "closed");
    assert_eq!(git(&city.origin(), &["show", "main:same.txt"]), "A and B");
    let failed = failures(&city, &second);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure_type"], "conflict");
    assert_eq!(failed[0]["conflict_files"], json!(["same.txt"]));
    city.wait_no_raiders();
}

/// The gate sees the exact tree that would land. A branch that stays red is reworked as often as the
/// rig allows, then blocked, and a person is told; nothing of it lands.
#[test]
fn a_branch_that_stays_red_is_reworked_then_blocked_and_escalated() {
    let city = Plan::new()
        .set("forge", "gates", r#"[{ name = "check", run = "test ! -e bad.txt || { echo no bad files; exit 1; }", retries = 0 }]"#)
        .set("forge", "rework_attempts", "1")
        .start();
    let good = city.work("good", &["commit good.txt", "hd done"]);
    city.wait_status(&good, "closed");
    let bad = city.work("bad", &["commit bad.txt $n", "hd done"]);
    let prompt = city.wait_prompt(&bad, 2);
    assert!(
        prompt.contains("a gate was red") && prompt.contains("no bad files"),
        "{prompt}"
    );
    city.wait_status(&bad, "blocked");
    until("somebody is told", || {
        city.ask("status", json!({})).unwrap()["escalations"] == 1
    });
    city.wait_no_raiders();
    assert_eq!(city.sessions_of(&bad), 2);
    assert_eq!(city.landed(), [".gitignore", "README", "good.txt"]);
    let failed = failures(&city, &bad);
    assert_eq!(failed.len(), 2);
    assert!(
        failed
            .iter()
            .all(|failed| failed["failure_type"] == "tests"),
        "{failed:?}"
    );
}

/// `4-rules.md`, done: a push that fails is a condition, not a zombie; it is made good when the remote
/// is back, and nobody else waits for it.
#[test]
fn a_remote_that_is_away_blocks_the_push_until_it_is_back() {
    let city = City::new();
    let relic = city.work(
        "push",
        &[
            "sign ready",
            "await go",
            "commit a.txt",
            "hd done",
            "forever",
        ],
    );
    city.wait_sign("ready");
    let away = city.root().join("away.git");
    fs::rename(city.origin(), &away).unwrap();
    city.sign("go");
    let raider = wait("the push is blocked", || {
        let raider = city.raiders().pop()?;
        (raider["condition"] == "push_blocked").then_some(raider)
    });
    assert!(raider["detail"].is_string(), "{raider}");
    assert_eq!(
        city.happened("raider.zombie", "horde/raiders/Toast"),
        Vec::<Value>::new()
    );
    assert_eq!(city.status_of(&relic), "hooked");
    fs::rename(&away, city.origin()).unwrap();
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert_eq!(city.happened("raider.done", "horde/raiders/Toast").len(), 1);
}

/// 3.4: a rig without a remote is its own origin; its clean checkout follows.
#[test]
fn a_rig_without_a_remote_lands_on_its_own_branch() {
    let city = Plan::new().local().start();
    let relic = city.work("local", &["commit a.txt", "hd done"]);
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let checkout = city.root().join("horde-checkout");
    assert_eq!(git(&checkout, &["show", "main:a.txt"]), relic);
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");
    assert!(checkout.join("a.txt").exists(), "the checkout follows");
    until("no branch is left", || {
        git(&checkout, &["for-each-ref", "refs/heads/raider"]).is_empty()
    });
}

/// `style`: one commit per relic when squashed, a merge commit when merged.
#[test]
fn work_lands_in_the_configured_style() {
    for (style, merges, others) in [("squash", 0, 2), ("merge", 1, 3)] {
        let city = Plan::new()
            .set("forge", "style", &format!("{style:?}"))
            .start();
        let relic = city.work("two commits", &["commit a.txt", "commit b.txt", "hd done"]);
        city.wait_status(&relic, "closed");
        let count = |flag: &str| git(&city.origin(), &["rev-list", "--count", flag, "main"]);
        assert_eq!(count("--merges"), merges.to_string(), "{style}");
        assert_eq!(count("--no-merges"), others.to_string(), "{style}");
        assert!(city.landed().contains(&"b.txt".to_owned()));
    }
}

/// `review = "human"`: sandbox and slot stay until a person approves, then the work lands.
#[test]
fn reviewed_work_waits_for_a_person_and_lands_when_approved() {
    let city = Plan::new().set("forge", "review", r#""human""#).start();
    let relic = city.work("look at it", &["commit a.txt", "hd done"]);
    let mr = wait("it waits for a person", || {
        let queue = city.hd(&["mq", "list"]).json();
        let mr = queue.as_array()?.first()?.clone();
        let waits = mr["state"] == "reviewing" && mr["note"].is_string();
        waits.then(|| mr["id"].as_str().unwrap().to_owned())
    });
    assert!(city.sandbox("Toast").join("a.txt").exists());
    assert_eq!(city.landed(), [".gitignore", "README"]);
    city.hd(&["mq", "approve", &mr]).json();
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert!(city.landed().contains(&"a.txt".to_owned()));
}
