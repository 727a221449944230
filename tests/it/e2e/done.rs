//! `hd done`: what it accepts and refuses, and that it happens once (`raider-lifecycle.md`, done; `rules.md`, done).

use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

const TOAST: &str = "horde/raiders/Toast";

fn exactly_once(city: &City, relic: &str) {
    assert_eq!(city.happened("raider.done", TOAST).len(), 1);
    let sent = city.happened("message.sent", TOAST);
    let done = sent
        .iter()
        .filter(|sent| sent["data"]["type"] == "POLECAT_DONE");
    assert_eq!(done.count(), 1);
    let merged = city.happened("raider.merged", TOAST);
    assert_eq!(merged.len(), 1);
    assert_eq!(merged[0]["data"]["relic"], relic);
    let log = git(&city.origin(), &["log", "--format=%s", "main"]);
    assert_eq!(log.lines().count(), 2, "{log}");
}

/// `hd done` and an outcome file at once are one completion.
#[test]
fn done_and_the_outcome_file_together_are_one_completion() {
    let city = City::new();
    let steps = [
        "commit a.txt",
        "outcome passed",
        "hd done || true",
        "forever",
    ];
    let relic = city.work("both", &steps);
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    exactly_once(&city, &relic);
}

/// Twice in a row is one completion.
#[test]
fn done_said_twice_is_one_completion() {
    let city = City::new();
    let steps = ["commit a.txt", "hd done", "hd done || true", "forever"];
    let relic = city.work("twice", &steps);
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    exactly_once(&city, &relic);
}

/// `rules.md`, outcomes: with the daemon away `hd done` writes to the outbox, says so and exits with 0; the next
/// start reads it. An outcome file written meanwhile counts as well.
#[test]
fn work_finished_while_the_daemon_is_away_is_taken_up_at_its_next_start() {
    let mut city = City::new();
    let steps = [
        "commit a.txt",
        "sign a",
        "await down",
        "try done hd --json done",
        "forever",
    ];
    let told = city.work("tell", &steps);
    let steps = [
        "commit b.txt",
        "sign b",
        "await down",
        "outcome passed",
        "sign wrote",
        "forever",
    ];
    let wrote = city.work("write", &steps);
    city.wait_sign("a");
    city.wait_sign("b");
    city.kill();
    city.sign("down");
    let done = city.wait_tried("done").json();
    assert_eq!(done["accepted"], json!(false));
    city.wait_sign("wrote");
    city.start();
    city.wait_status(&told, "closed");
    city.wait_status(&wrote, "closed");
    let landed = city.landed();
    assert!(
        ["a.txt", "b.txt"]
            .iter()
            .all(|file| landed.contains(&(*file).to_owned()))
    );
    let outbox = std::fs::read_dir(city.root().join(".horde/outbox")).unwrap();
    let intents = outbox.filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|ending| ending == "json")
    });
    assert_eq!(intents.count(), 0);
    assert_eq!(city.happened("raider.done", TOAST).len(), 1);
}

/// `rules.md`, done: on a dirty tree it exits with 5, lists the files, commits nothing and changes nothing.
#[test]
fn done_on_a_dirty_tree_is_refused_with_the_files() {
    let city = City::new();
    let relic = city.work(
        "be dirty",
        &[
            "commit a.txt",
            "echo more >>a.txt",
            "echo new >new.txt",
            "try refused hd --json done",
            "try again hd --json done",
            "await go",
            "git add -A",
            "git commit --quiet -m more",
            "hd done",
        ],
    );
    let error = city.wait_tried("refused").error(5);
    assert_eq!(error["kind"], "refused");
    city.wait_tried("again").error(5);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("a.txt") && message.contains("new.txt"),
        "{message}"
    );
    assert_eq!(city.happened("raider.done", TOAST), Vec::<Value>::new());
    assert_eq!(city.status_of(&relic), "hooked");
    let status = git(&city.sandbox("Toast"), &["status", "--porcelain"]);
    assert_eq!(status, " M a.txt\n?? new.txt");
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"new.txt".to_owned()));
    // It was asked twice.
    let refused = city.happened("raider.done_refused", TOAST);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["data"]["losses_total"], 3, "{refused:?}");
}

/// `rules.md`, done: `done` without commits is refused, unless nothing had to change and the agent gives the reason.
#[test]
fn zero_commits_are_refused_unless_nothing_had_to_change() {
    let city = City::new();
    let relic = city.work(
        "nothing to do",
        &[
            "try empty hd --json done",
            "try silent hd --json done --no-change",
            "hd done --no-change --reason 'it was so already'",
            "forever",
        ],
    );
    let empty = city.wait_tried("empty").error(2);
    assert!(
        empty["message"].as_str().unwrap().contains("no commits"),
        "{empty}"
    );
    assert!(
        empty["hint"].as_str().unwrap().contains("--no-change"),
        "{empty}"
    );
    let silent = city.wait_tried("silent").error(2);
    assert!(
        silent["message"].as_str().unwrap().contains("--reason"),
        "{silent}"
    );
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert_eq!(
        git(&city.origin(), &["log", "--format=%s", "main"]),
        "first"
    );
    assert_eq!(city.hd(&["mq", "list"]).json(), json!([]));
    let branches = git(
        &city.origin(),
        &["for-each-ref", "--format=%(refname)", "refs/heads"],
    );
    assert_eq!(branches, "refs/heads/main");
}

/// `raider-lifecycle.md`, exit deferred: pushed, the slot freed, the relic kept for later.
#[test]
fn deferred_work_keeps_its_branch_and_frees_its_slot() {
    let city = City::new();
    let done =
        "hd done --status deferred --until 2999-01-01T00:00:00Z --reason 'needs the release'";
    let relic = city.work("later", &["commit a.txt", done, "forever"]);
    city.wait_status(&relic, "deferred");
    city.wait_no_raiders();
    let branch = format!("refs/heads/raider/Toast/{relic}-1");
    git(&city.origin(), &["rev-parse", "--verify", &branch]);
    assert!(!city.landed().contains(&"a.txt".to_owned()));
}

/// `rules.md`, security: a caller outside a raider's session has no work to finish.
#[test]
fn done_from_outside_a_session_is_refused() {
    let city = City::new();
    let relic = city.work("stay", &["forever"]);
    city.wait_session(&relic, 1);
    assert_eq!(city.hd(&["done"]).error(1)["kind"], "forbidden");
    assert_eq!(city.hd(&["handoff"]).error(1)["kind"], "forbidden");
    assert_eq!(city.status_of(&relic), "hooked");
    assert_eq!(city.hd(&["raider", "nuke", "Toast", "--yes"]).code, 0);
}

/// An agent that finishes on another branch is told at once, and can mend that.
#[test]
fn done_on_another_branch_is_refused_with_a_remedy() {
    let city = City::new();
    let relic = city.work(
        "wander",
        &[
            "mine=$(git branch --show-current)",
            "git checkout -q -b other",
            "commit a.txt",
            "hd done && exit 9",
            "git checkout -q \"$mine\"",
            "git merge -q other",
            "hd done",
        ],
    );
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"a.txt".to_owned()));
    assert_eq!(city.sessions_of(&relic), 1);
}

/// A harness that ends in good order without a declaration, until it is quarantined: closing its relic frees the slot,
/// and the story tells what was missing.
#[test]
fn a_silent_raider_is_explained_and_let_go_when_its_relic_is_closed() {
    let city = City::new();
    let relic = city.work("say nothing", &["echo nothing to say", "exit 0"]);
    until("it is quarantined", || {
        !city
            .happened("agent.quarantined", "horde/raiders/Toast")
            .is_empty()
    });
    let told = city.hd(&["why", &relic]).json();
    assert!(
        told.to_string()
            .contains("ended without an accepted hd done"),
        "{told}"
    );
    assert_eq!(city.hd(&["relic", "close", &relic, "--yes"]).code, 0);
    city.wait_no_raiders();
    let log = city.hd(&["logs", "Toast"]).json();
    assert!(log["text"].as_str().unwrap().contains("nothing to say"));
}

/// Files that a harness drops, and the hook file that the supervisor writes into the sandbox for it, hold up no work:
/// with the real gemini and aider nothing landed.
#[test]
fn files_of_the_harness_and_of_the_supervisor_are_no_work() {
    let harness = "[harness.dropper]\ncommand = [\"sh\", \"../../../agent.sh\"]\nprompt = \"file\"\n\
        env = { GIT_CONFIG_NOSYSTEM = \"1\" }\nhooks = \"gemini\"\nexclude = [\".droppings*\"]\n";
    let city = Plan::new()
        .set("raiders", "harness", r#""dropper""#)
        .add(harness)
        .start();
    let steps = [
        "test -f .gemini/settings.json && sign hooked",
        "commit a.txt",
        "echo x >.droppings.log",
        "try done hd done",
        "forever",
    ];
    let relic = city.work("drops", &steps);
    city.wait_sign("hooked");
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    let files = git(&city.origin(), &["ls-tree", "-r", "--name-only", "main"]);
    assert!(files.lines().any(|name| name == "a.txt"), "{files}");
    let left = |name: &str| name.starts_with(".gemini") || name.starts_with(".droppings");
    assert!(!files.lines().any(left), "{files}");
}
