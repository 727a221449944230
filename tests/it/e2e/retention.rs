//! Retention with the real daemon (`contract.md`, 2.2; `health-patrol.md`, wisp GC; `rules.md`, flags).

use std::fs;
use std::sync::Arc;

use horde_supervisor::adapters::clock::SystemClock;
use horde_supervisor::adapters::relics_sqlite::SqliteRelics;
use horde_supervisor::domain::relic::{RelicKind, RelicStatus};
use horde_supervisor::ports::relics::{Committed, Durability, NewRelic, Relics, Txn};
use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::City;
use crate::support::plan::Plan;

const TOAST: &str = "horde/raiders/Toast";

/// Leaves wisps as a ritual does: a closed one, and one that waits for nothing.
fn leave_wisps(city: &City) {
    let file = city.root().join(".horde/relics.db");
    let mut store = SqliteRelics::open(&file, Arc::new(SystemClock::new())).unwrap();
    let mut make = |txn: &mut dyn Txn| {
        for status in [RelicStatus::Closed, RelicStatus::Open] {
            let mut wisp = txn.create_relic(&NewRelic {
                prefix: "wisp".into(),
                kind: RelicKind::Wisp,
                title: "merged".into(),
                body: String::new(),
                priority: 0,
                labels: vec!["merge".into()],
                parent: None,
                deps: Vec::new(),
                by: None,
            })?;
            wisp.status = status;
            wisp.closed = Some("2026-01-01T00:00:00Z".parse().unwrap());
            txn.put_relic(&wisp)?;
        }
        Ok(())
    };
    let Committed { results, .. } = store.commit(&mut [&mut make], Durability::Full).unwrap();
    assert_eq!(results, [Ok(())]);
}

#[test]
fn closed_wisps_go_after_the_start_and_open_ones_stay() {
    let plan = Plan::new()
        .set("daemon", "wisp_gc_interval", r#""5m""#)
        .set("daemon", "wisp_ttl", r#""24h""#);
    let mut city = plan.start();
    city.stop();
    leave_wisps(&city);
    city.start();
    let said = city.wait_event(1, "wisp.collected", "e2e");
    assert_eq!(said["data"], json!({ "count": 1, "ids": ["wisp-1"] }));
    let wisps = city.hd(&["relic", "list", "--kind", "wisp"]).json();
    let ids: Vec<_> = wisps.as_array().unwrap().iter().map(|w| &w["id"]).collect();
    assert_eq!(ids, ["wisp-2"]);
}

/// Makes a salvage of untracked work, and returns its id.
fn salvaged(city: &City) -> String {
    city.work("work", &["echo precious >new", "sign ready", "forever"]);
    city.wait_sign("ready");
    let nuked = city.hd(&["raider", "nuke", "Toast", "--salvage", "--yes"]);
    nuked.json()["salvage"].as_str().unwrap().to_owned()
}

fn refs(city: &City) -> String {
    let repo = city.root().join(".horde/custody/horde.git");
    git(
        &repo,
        &["for-each-ref", "--format=%(refname)", "refs/horde/salvage"],
    )
}

#[test]
fn prune_asks_and_then_deletes_the_named_salvage() {
    let city = City::new();
    let id = salvaged(&city);
    assert_eq!(city.hd(&["salvage", "prune", &id]).code, 2, "no consent");
    assert_eq!(city.hd(&["salvage", "prune", "x", &id, "--yes"]).code, 4);
    let young = ["salvage", "prune", "--older-than", "1h", "--yes"];
    assert_eq!(city.hd(&young).json()["pruned"], json!([]));
    assert_eq!(
        city.hd(&["salvage", "prune", "--yes"]).json()["pruned"],
        json!([])
    );
    assert!(!refs(&city).is_empty());
    let pruned = city.hd(&["salvage", "prune", &id, "--yes"]).json();
    assert_eq!(pruned["pruned"][0]["id"], id.as_str());
    assert_eq!(refs(&city), "");
    assert_eq!(city.hd(&["salvage", "list"]).json(), json!([]));
    assert_eq!(city.hd(&["salvage", "show", &id]).code, 4);
    assert_eq!(city.hd(&["salvage", "restore", &id]).code, 4);
    let said = city.happened("salvage.pruned", TOAST);
    assert_eq!((said.len(), &said[0]["cause"]), (1, &json!("operator")));
}

/// A raider may not prune, even with `--yes`.
#[test]
fn a_session_may_not_prune() {
    let city = City::new();
    city.work(
        "try",
        &[
            "try pruned hd salvage prune --older-than 1s --yes",
            "forever",
        ],
    );
    let tried = city.wait_tried("pruned");
    assert_eq!(tried.code, 1, "{tried:?}");
    assert!(tried.err.contains("may act only on itself"), "{tried:?}");
}

/// Old salvage and old events are deleted after the next start; a request for them says so.
#[test]
fn expired_records_are_deleted_and_queries_for_them_say_so() {
    let mut city = City::new();
    salvaged(&city);
    let before = city.events().len();
    city.stop();
    let toml = fs::read_to_string(city.root().join("city.toml")).unwrap();
    let short = "[retention]\nsalvage = \"1ms\"\nevents = \"1ms\"\n";
    fs::write(city.root().join("city.toml"), toml + short).unwrap();
    city.start();
    let said = city.wait_event(1, "salvage.pruned", TOAST);
    assert_eq!(said["cause"], "expired");
    assert_eq!(refs(&city), "");
    let kept = city.events();
    let first = kept[0]["seq"].as_u64().unwrap();
    assert!(first > before as u64, "{kept:?}");
    let since = city.hd(&["events", "--since", "1"]);
    let told: Value = serde_json::from_str(since.out.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&told["type"], &told["seq"]),
        (&json!("events.pruned"), &json!(first - 1))
    );
    let later = (first - 1).to_string();
    let later = city.hd(&["events", "--since", &later]);
    assert!(!later.out.contains("events.pruned"), "{later:?}");
}

#[test]
fn a_sandbox_that_salvage_has_no_room_for_stays_and_a_person_is_called() {
    let city = Plan::new()
        .add("[retention]\nsalvage_max = \"8B\"\n")
        .start();
    city.work(
        "work",
        &["echo 'more than eight bytes' >new", "sign ready", "forever"],
    );
    city.wait_sign("ready");
    let nuke = ["raider", "nuke", "Toast", "--salvage", "--yes"];
    let error = city.hd(&nuke).error(5);
    assert!(
        error["message"].as_str().unwrap().contains("22 bytes"),
        "{error}"
    );
    assert!(city.sandbox("Toast").join("new").exists());
    assert_eq!(refs(&city), "");
    city.wait_event(1, "escalation.raised", TOAST);
    city.hd(&nuke).error(5);
    assert_eq!(
        city.hd(&["escalations"]).json().as_array().unwrap().len(),
        1
    );
}
