//! The outcome file: completion by any harness (`agent-lifecycle.md`, section 5; `rules.md`, done
//! and outcomes).

use serde_json::Value;

use crate::support::git::git;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

const TOAST: &str = "horde/raiders/Toast";

/// A harness without `hd` finishes by its outcome file alone, and at once.
#[test]
fn an_outcome_file_alone_completes() {
    let city = City::new();
    let relic = city.work("write it", &["commit a.txt", "outcome passed", "forever"]);
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let done = city.happened("raider.done", TOAST);
    assert_eq!(done.len(), 1);
    assert_eq!(done[0]["cause"], "outcome_file");
    assert!(city.landed().contains(&"a.txt".to_owned()));
}

/// The session is told every error of the file, long before a patrol would look.
#[test]
fn outcome_file_that_cannot_be_understood_is_told_to_its_session_at_once() {
    let city = City::new();
    let id = format!("gt-{}", "9".repeat(120));
    let wrong = format!("printf '%s' '{{\"id\":\"{id}\",\"outcome\":\"passed\"}}' >.horde-outcome");
    let relic = city.work("write it wrong", &["commit a.txt", &wrong, "forever"]);
    let nudged = city.wait_event(1, "raider.nudged", TOAST);
    assert_eq!(nudged["cause"], "outcome_file");
    let whole = format!("it names {id}, but this sandbox works on {relic}");
    let why = city.hd_text(&["why", "Toast"]).out;
    assert!(why.contains(&whole), "{why}");
    until("it is on its screen", || {
        let log = city.hd(&["logs", "Toast"]).json();
        let log = log["text"].as_str().unwrap().replace('\n', "");
        log.contains("could not be understood")
    });
}

/// An agent that writes its outcome and ends is finished, not crashed.
#[test]
fn an_agent_that_ends_after_its_outcome_has_not_crashed() {
    let city = City::new();
    let relic = city.work("write and end", &["commit a.txt", "outcome passed"]);
    city.wait_status(&relic, "closed");
    assert_eq!(city.happened("agent.crashed", TOAST), Vec::<Value>::new());
    assert_eq!(city.sessions_of(&relic), 1);
}

/// Gets stuck half way, and finishes when it is charged again.
const STUCK: &[&str] = &[
    r#"[ $n = 2 ] || { commit half.txt; outcome stuck ',"reason":"no key"'; forever; }"#,
    "test -e half.txt",
    "commit rest.txt",
    "hd done",
];

/// `product.md`: a stuck raider is escalated: relic blocked, an operator called, branch pushed, slot free; the next
/// charge starts from the branch.
#[test]
fn stuck_work_is_blocked_escalated_and_pushed() {
    let city = City::new();
    let relic = city.work("get stuck", STUCK);
    city.wait_status(&relic, "blocked");
    city.wait_no_raiders();
    until("a person is told", || {
        city.ask("status", serde_json::json!({})).unwrap()["escalations"] == 1
    });
    let escalations = city.hd(&["escalations"]).json().to_string();
    assert!(escalations.contains("no key"), "{escalations}");
    assert_eq!(city.happened("raider.stuck", TOAST).len(), 1);
    let branch = format!("refs/heads/raider/Toast/{relic}-1");
    git(&city.origin(), &["rev-parse", "--verify", &branch]);
    assert_eq!(city.landed(), [".gitignore", "README"]);
    assert_eq!(
        city.hd(&["charge", &relic, "horde"]).error(1)["kind"],
        "conflict"
    );
    city.hd(&["relic", "reopen", &relic]).json();
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    let landed = city.landed();
    assert!(
        ["half.txt", "rest.txt"]
            .iter()
            .all(|file| landed.contains(&(*file).to_owned()))
    );
}

/// The same without pushing: the work is kept, the slot is not.
#[test]
fn stuck_work_that_is_not_pushed_anywhere_frees_its_slot_and_is_gone_on_with() {
    let city = Plan::new().set("forge", "push", "false").start();
    let relic = city.work("get stuck", STUCK);
    city.wait_status(&relic, "blocked");
    city.wait_no_raiders();
    city.hd(&["relic", "reopen", &relic]).json();
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    let repo = city.root().join(".horde/custody/horde.git");
    let files = git(&repo, &["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(files, ".gitignore\nREADME\nhalf.txt\nrest.txt");
    assert_eq!(city.landed(), [".gitignore", "README"]);
    assert!(
        city.hd(&["salvage", "list"])
            .json()
            .as_array()
            .is_some_and(Vec::is_empty)
    );
}

/// `rules.md`, done: the session is told of an outcome on a dirty tree, and may mend that.
#[test]
fn a_session_is_told_of_its_dirty_tree_and_completes_when_it_is_clean() {
    let city = City::new();
    let relic = city.work(
        "forget a file",
        &[
            "echo x >forgotten.txt",
            "outcome passed",
            "while read -r line; do printf '%s\\n' \"$line\" >>$signs/told; case $line in *Commit*) break; esac; done",
            "git add forgotten.txt",
            "git commit --quiet -m 'what was forgotten'",
            "outcome passed",
            "forever",
        ],
    );
    city.wait_status(&relic, "closed");
    let told = std::fs::read_to_string(city.root().join("signs/told")).unwrap();
    assert!(told.contains("forgotten.txt"), "{told}");
    assert_eq!(city.happened("raider.nudged", TOAST).len(), 1);
    assert_eq!(city.sessions_of(&relic), 1);
    assert!(city.landed().contains(&"forgotten.txt".to_owned()));
}

/// `rules.md`, done: a session that is gone is respawned with that instruction.
#[test]
fn a_session_that_ended_on_a_dirty_tree_is_respawned_to_clean_it() {
    let city = City::new();
    let relic = city.work(
        "forget and go",
        &[
            "[ $n = 2 ] || { echo x >forgotten.txt; outcome passed; exit 0; }",
            "git add forgotten.txt",
            "git commit --quiet -m 'what was forgotten'",
            "hd done",
        ],
    );
    let prompt = city.wait_prompt(&relic, 2);
    assert!(
        prompt.contains("First fix this") && prompt.contains("forgotten.txt"),
        "{prompt}"
    );
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"forgotten.txt".to_owned()));
    assert_eq!(city.happened("agent.crashed", TOAST), Vec::<Value>::new());
}

/// `rules.md`, done: after `nudges` messages an operator is called, and nothing is touched.
#[test]
fn a_tree_that_stays_dirty_is_escalated_and_kept() {
    let city = Plan::new()
        .set("daemon", "patrol_interval", r#""200ms""#)
        .set("raiders", "nudges", "1")
        .start();
    let relic = city.work(
        "never clean up",
        &["echo x >dirt.txt", "outcome passed", "forever"],
    );
    until("a person is told", || {
        city.ask("status", serde_json::json!({})).unwrap()["escalations"] == 1
    });
    assert_eq!(city.happened("raider.nudged", TOAST).len(), 1);
    assert_eq!(city.status_of(&relic), "hooked");
    assert!(city.sandbox("Toast").join("dirt.txt").exists());
    assert_eq!(
        city.hd(&["raider", "show", "Toast"]).json()["state"],
        "working"
    );
}

/// 2.7: only the present incarnation's outcome counts.
#[test]
fn an_outcome_of_an_earlier_incarnation_does_not_count() {
    let city = City::new();
    let relic = city.work(
        "twice",
        &[
            r#"[ $n = 2 ] || { commit a.txt; outcome stuck ',"reason":"x"'; forever; }"#,
            "test ! -s .horde-outcome",
            "sign empty",
            "hd done",
        ],
    );
    city.wait_status(&relic, "blocked");
    city.wait_no_raiders();
    city.hd(&["relic", "reopen", &relic]).json();
    city.charge(&relic);
    city.wait_sign("empty");
    city.wait_status(&relic, "closed");
}
