//! Command lines, with the operation and arguments that each sends.

use serde_json::{Value, json};

type Ask = (&'static str, &'static str, Value);

/// Returns all of them.
pub fn asks() -> Vec<Ask> {
    [work(), others()].concat()
}

/// Returns those about relics and work.
fn work() -> Vec<Ask> {
    vec![
        (
            "sling gt-1 horde --name Toast --target develop",
            "charge",
            json!({"relic": "gt-1", "rig": "horde", "name": "Toast", "target": "develop"}),
        ),
        ("charge gt-1", "charge", json!({"relic": "gt-1"})),
        (
            "run one 'and two' --rig horde -d",
            "run",
            json!({"task": ["one", "and two"], "rig": "horde"}),
        ),
        (
            "done --reason 'it works'",
            "done",
            json!({"status": "completed", "reason": "it works"}),
        ),
        ("handoff -m 'go on'", "handoff", json!({"message": "go on"})),
        (
            "wait 10m --reason 'the CI runs'",
            "wait",
            json!({"duration": "10m", "reason": "the CI runs"}),
        ),
        ("prime", "rally", json!({})),
        ("hook show", "hook", json!({})),
        (
            "relic create 'a title' --priority -2 --label a --label b",
            "relic.create",
            json!({"title": "a title", "priority": -2, "label": ["a", "b"]}),
        ),
        (
            "relic list --status open",
            "relic.list",
            // One more than is shown tells that there are more.
            json!({"status": "open", "limit": 501}),
        ),
        ("relic ready --limit 5", "relic.ready", json!({"limit": 6})),
        (
            "relic ready --json --limit 5",
            "relic.ready",
            json!({"limit": 5}),
        ),
        (
            "relic dep list gt-1",
            "relic.dep.list",
            json!({"relic": "gt-1", "limit": 500}),
        ),
        (
            "relic create x --assignee alice --harness codex",
            "relic.create",
            json!({"title": "x", "assignee": "alice", "harness": "codex"}),
        ),
        (
            "mq pr gt-3 --anew",
            "mq.pr",
            json!({"mr": "gt-3", "anew": true}),
        ),
    ]
}

/// Returns the others.
fn others() -> Vec<Ask> {
    let toast = json!({"name": "Toast"});
    let release = "agent.unquarantine";
    vec![
        ("raider list horde", "raider.list", json!({"rig": "horde"})),
        (
            "polecat nuke Toast --yes",
            "raider.nuke",
            json!({"name": "Toast", "yes": true}),
        ),
        (
            "raider nuke Toast --dry-run",
            "raider.nuke",
            json!({"name": "Toast", "dry_run": true}),
        ),
        ("agent unquarantine Toast", release, toast.clone()),
        ("raider unquarantine Toast", release, toast.clone()),
        ("peek Toast", "peek", toast.clone()),
        ("why Toast", "why", toast),
        ("mq retry gt-3", "mq.retry", json!({"mr": "gt-3"})),
        ("salvage show x-1", "salvage.show", json!({"id": "x-1"})),
        (
            "salvage prune x-1 x-2 --yes",
            "salvage.prune",
            json!({"id": ["x-1", "x-2"], "yes": true}),
        ),
        (
            "salvage prune --older-than 30d --yes",
            "salvage.prune",
            json!({"older_than": "30d", "yes": true}),
        ),
        ("auto disable x", "auto.disable", json!({"name": "x"})),
        ("auto history", "auto.history", json!({})),
    ]
}
