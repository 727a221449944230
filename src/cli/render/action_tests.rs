//! Tests of the sentences about actions.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::tests::PLAIN;
use super::{outcome_lines, show};
use crate::cli::output::Style;
use crate::testing::samples::sample;

/// Renders an answer that has these fields.
fn told<T: JsonSchema + DeserializeOwned>(
    render: fn(&T, Style) -> String,
    partial: Value,
) -> String {
    render(&sample(partial), PLAIN)
}

#[test]
fn an_action_is_said_in_a_sentence() {
    let toast = "horde/raiders/Toast";
    let wait = json!({"name": toast, "until": "2026-01-31T12:00:00.25Z", "reason": "the CI runs"});
    let mr = json!({"id": "gt-2", "relic": "gt-1", "state": "queued"});
    let done = json!({"relic": "gt-1", "exit": "completed", "branch": "b"});
    for (said, text) in [
        (
            told(show::stopped, json!({ "sessions": "kept" })),
            "stopped; the sessions run on",
        ),
        (
            told(outcome_lines::merge_request, mr),
            "gt-2 of gt-1 is queued",
        ),
        (
            told(outcome_lines::done, done),
            "gt-1 is declared completed; its branch b is pushed by the supervisor",
        ),
        (
            told(outcome_lines::waits, wait),
            "horde/raiders/Toast declared a wait until 2026-01-31T12:00:00Z: the CI runs",
        ),
        (
            told(
                outcome_lines::switched,
                json!({"name": "x", "enabled": false}),
            ),
            "x is disabled",
        ),
        (
            told(outcome_lines::begun, json!({"name": "x", "run": 3})),
            "run 3 of x has started: hd auto history x",
        ),
    ] {
        assert_eq!(said, text);
    }
}

#[test]
fn removal_of_a_raider_is_said_with_what_is_kept_of_it() {
    let toast = "horde/raiders/Toast";
    let nuked = json!({"raider": toast, "salvage": "horde-Toast-1"});
    let bare =
        json!({"raider": toast, "salvage": null, "ignored": [".env", "a\u{7}"], "ignored_more": 2});
    let unseen = json!({"raider": toast, "safe": true, "would": "nuke", "ignored_unknown": "why"});
    let kept = json!({"raider": toast, "losses": ["untracked: x"], "would": "refuse"});
    let whole = json!({"raider": toast, "sandbox": "/c/Toast", "salvage": "s-1"});
    for (said, text) in [
        (
            told(outcome_lines::nuke, nuked),
            "horde/raiders/Toast is removed; its work is saved: hd salvage restore horde-Toast-1",
        ),
        (
            told(outcome_lines::nuke, bare),
            "horde/raiders/Toast is removed; it held no work that had to be saved\n  \
             ignored files, which salvage does not keep: .env, a\\x07 and 2 more",
        ),
        (
            told(outcome_lines::rehearsed, unseen),
            "horde/raiders/Toast would be removed; no work would be lost\n  \
             ignored files, which salvage does not keep: their names are unknown (why)",
        ),
        (
            told(outcome_lines::rehearsed, kept),
            "horde/raiders/Toast would be kept, because it holds:\n  untracked: x",
        ),
        (
            told(outcome_lines::repaired, whole),
            "/c/Toast of horde/raiders/Toast is usable; its earlier content is saved as s-1",
        ),
    ] {
        assert_eq!(said, text);
    }
}

#[test]
fn stash_entries_are_named_by_their_ids() {
    let (one, two) = ("a".repeat(40), "b".repeat(40));
    let nuked = json!({"raider": "r/raiders/Toast", "salvage": null, "stashes": [one, two]});
    let said = told(outcome_lines::nuke, nuked);
    assert!(
        said.starts_with("r/raiders/Toast is removed; its stash entries are kept"),
        "{said}"
    );
    let restored = json!({"id": "s-1", "path": "/c/s-1", "stash_ids": [one, two]});
    let ids = format!(": {one}, {two}");
    for said in [said, told(outcome_lines::restored, restored)] {
        assert!(
            said.contains("`git stash apply ID`") && said.ends_with(&ids),
            "{said}"
        );
    }
}

#[test]
fn restore_names_the_refs_whose_commits_are_lost() {
    let lost = ["refs/horde/salvage/r/Toast/1/stash-0"];
    let restored = json!({"id": "s-1", "path": "/c/s-1", "stash_ids": [], "lost": lost});
    let said = told(outcome_lines::restored, restored);
    assert!(said.contains("LOST") && said.contains(lost[0]), "{said}");
}

#[test]
fn reload_names_every_child_that_is_concerned() {
    let told = json!({"errors": [], "pending": [],
        "actions": [{"agent": "mayor", "action": "none"}],
        "rigs": [{"rig": "spare", "action": "added"}],
        "raiders": [{"raider": "horde/raiders/Toast", "action": "deferred", "harness": "pi"}]});
    insta::assert_snapshot!(outcome_lines::reloaded(&sample(told), PLAIN), @r"
    none      mayor
    added     rig spare
    deferred  horde/raiders/Toast: its next session uses the new pi
    ");
    let held = json!({"unchanged": true, "applied_at": "2026-01-31T12:00:00Z", "prepared": ["ours"],
        "held": [{"rig": "spare", "why": "its repository is missing\nfor long"}]});
    insta::assert_snapshot!(outcome_lines::reloaded(&sample(held), PLAIN), @r"
    the configuration has not changed since 2026-01-31T12:00:00Z; git's settings were read again
    ! rig spare is held, and each patrol retries it: its repository is missing for long
    rig ours is held no longer; its work continues
    ");
    let none = outcome_lines::reloaded(&sample(json!({})), PLAIN);
    assert!(none.contains("no agent, raider or rig is affected"));
}

/// A file may have any name.
#[test]
fn loss_is_one_line_whatever_its_file_is_called() {
    let told = json!({"raider": "horde/raiders/Toast", "would": "refuse", "safe": false,
        "message": "Toast is kept", "losses": ["untracked: a\n  nothing else\u{1b}[2J", "uncommitted: b"]});
    let told = sample(told);
    let losses = "\n  untracked: a   nothing else\\x1b[2J\n  uncommitted: b";
    assert_eq!(
        outcome_lines::refused(&told),
        format!("Toast is kept{losses}")
    );
    let rehearsed = outcome_lines::rehearsed(&told, PLAIN);
    assert!(rehearsed.ends_with(losses), "{rehearsed}");
}
