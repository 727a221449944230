//! Tests of identity chains in the store: append-only, each result once, and what is changed from outside is found.

use std::collections::BTreeMap;

use rusqlite::params;
use serde_json::json;

use super::super::{moved_chains, schema};
use super::*;
use crate::domain::attempt::{Attempt, Outcome, Work};
use crate::domain::cause::Cause;
use crate::domain::cv::{Break, CvEntry, Flaw, Head, verify};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::federation::Line;
use crate::domain::ids::Incarnation;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{ChainOf, ForeignCity};

fn work(work: &str, relic: &str) -> Work {
    Work {
        work: work.into(),
        relic: relic.into(),
        ..Work::default()
    }
}

fn append(store: &mut SqliteRelics, outcome: Outcome, work: &Work) -> Option<CvEntry> {
    run(store, |txn| txn.append_entry("claude", outcome, work)).unwrap()
}

fn chain(store: &mut SqliteRelics, of: &ChainOf, name: &str) -> Vec<CvEntry> {
    let all = run(store, |txn| txn.chain_entries(of, name, 0, 99)).unwrap();
    all.into_iter().map(|stored| stored.entry).collect()
}

fn three() -> SqliteRelics {
    let mut store = store();
    for (id, relic) in [("a#1", "gt-1"), ("b#1", "gt-2"), ("a#2", "gt-3")] {
        append(&mut store, Outcome::Merged, &work(id, relic)).unwrap();
    }
    store
}

/// Changes rows as a program beside the supervisor would.
fn tamper(store: &SqliteRelics, sql: &str) {
    for trigger in [
        "identity_entries_are_not_rewritten",
        "identity_entries_are_not_cut",
    ] {
        let drop = format!("DROP TRIGGER IF EXISTS {trigger}");
        store.conn.execute(&drop, []).unwrap();
    }
    assert_eq!(store.conn.execute(sql, []).unwrap(), 1, "{sql}");
}

fn broken(seq: u64, flaw: Flaw) -> Result<Head, Break> {
    Err(Break { seq, flaw })
}

#[test]
fn each_result_of_an_attempt_is_appended_once_and_the_chain_cannot_be_changed() {
    let mut store = three();
    let first = work("a#1", "gt-1");
    assert_eq!(append(&mut store, Outcome::Merged, &first), None, "again");
    let other = run(&mut store, |txn| {
        txn.append_entry("codex", Outcome::Merged, &first)
    });
    assert_eq!(other.unwrap(), None, "nor in another chain");
    append(&mut store, Outcome::Escalated, &first).unwrap();
    let own = chain(&mut store, &ChainOf::Own, "claude");
    assert_eq!(own.len(), 4);
    let head = verify("claude", &own).unwrap();
    let noted = run(&mut store, |txn| txn.chain_head(&ChainOf::Own, "claude"));
    assert_eq!(noted.unwrap(), Some(head));
    for change in [
        "UPDATE identity_entries SET data = '{}'",
        "DELETE FROM identity_entries",
    ] {
        assert!(store.conn.execute(change, []).is_err(), "{change}");
    }
}

#[test]
fn row_that_was_changed_from_outside_is_found_and_read() {
    let cases = [
        (
            "UPDATE identity_entries SET data = '{}' WHERE seq = 2",
            broken(2, Flaw::Changed),
        ),
        (
            "UPDATE identity_entries SET data = 'no json' WHERE seq = 2",
            broken(2, Flaw::Changed),
        ),
        (
            "UPDATE identity_entries SET kind = 'rejected' WHERE seq = 3",
            broken(3, Flaw::Changed),
        ),
        (
            "DELETE FROM identity_entries WHERE seq = 1",
            broken(1, Flaw::Missing),
        ),
    ];
    for (sql, wanted) in cases {
        let mut store = three();
        tamper(&store, sql);
        let own = chain(&mut store, &ChainOf::Own, "claude");
        assert_eq!(verify("claude", &own), wanted, "{sql}");
        // Work that ends later is recorded all the same, and the break stays.
        append(&mut store, Outcome::Merged, &work("c#1", "gt-9")).unwrap();
        let own = chain(&mut store, &ChainOf::Own, "claude");
        assert_eq!(verify("claude", &own), wanted, "{sql}");
    }
    let mut store = three();
    tamper(
        &store,
        "UPDATE identity_entries SET relic = 'gt-7' WHERE seq = 2",
    );
    let all = run(&mut store, |txn| {
        txn.chain_entries(&ChainOf::Own, "claude", 0, 9)
    });
    let fit: Vec<bool> = all.unwrap().iter().map(|one| one.columns_fit).collect();
    assert_eq!(fit, [true, false, true]);
}

#[test]
fn last_entry_that_is_gone_is_missed_also_after_later_ones() {
    let mut store = three();
    tamper(&store, "DELETE FROM identity_entries WHERE seq = 3");
    let noted = run(&mut store, |txn| txn.chain_head(&ChainOf::Own, "claude"));
    assert_eq!(noted.unwrap().unwrap().seq, 3);
    append(&mut store, Outcome::Merged, &work("c#1", "gt-9")).unwrap();
    let own = chain(&mut store, &ChainOf::Own, "claude");
    assert_eq!(verify("claude", &own), broken(3, Flaw::Missing));
    // The noted end is changed, too: work goes on being recorded.
    tamper(
        &store,
        "UPDATE identity_heads SET seq = 9223372036854775807",
    );
    append(&mut store, Outcome::Merged, &work("c#2", "gt-9")).unwrap();
    tamper(&store, "DELETE FROM identity_heads");
    append(&mut store, Outcome::Merged, &work("c#3", "gt-9")).unwrap();
}

/// A chain that another program filled to the last number takes no entry: the rest of the transaction goes on.
#[test]
fn entry_that_cannot_be_appended_is_an_error_that_undoes_nothing_else() {
    let mut store = three();
    tamper(
        &store,
        "INSERT INTO identity_entries SELECT name, 9223372036854775807, prev, hash, kind, data, relic, 'x'
           FROM identity_entries WHERE seq = 3",
    );
    let refused = run(&mut store, |txn| {
        let refused = txn.append_entry("claude", Outcome::Merged, &work("c#1", "gt-9"));
        txn.set("settled", Some("yes"))?;
        Ok(refused)
    });
    let refused = refused.unwrap().unwrap_err();
    assert!(matches!(refused, StoreError::Failed(_)), "{refused:?}");
    let settled = run(&mut store, |txn| txn.get("settled")).unwrap();
    assert_eq!(settled.as_deref(), Some("yes"));
}

#[test]
fn merge_request_that_fails_again_is_another_result() {
    let mut store = store();
    let mut failed = work("a#1", "gt-1");
    (failed.mr, failed.tries) = (Some("gt-2".into()), Some(1));
    failed.failure = Some("push".into());
    assert!(append(&mut store, Outcome::MergeFailed, &failed).is_some());
    assert!(append(&mut store, Outcome::MergeFailed, &failed).is_none());
    failed.tries = Some(2);
    assert!(append(&mut store, Outcome::MergeFailed, &failed).is_some());
    failed.failure = Some("tests".into());
    assert!(append(&mut store, Outcome::MergeFailed, &failed).is_some());
    let all = run(&mut store, |txn| {
        txn.chain_entries(&ChainOf::Own, "claude", 0, 9)
    });
    assert!(all.unwrap().iter().all(|stored| stored.columns_fit));
}

#[test]
fn newest_entries_are_those_with_the_label() {
    let mut store = store();
    for n in 0..9 {
        let mut one = work(&format!("a#{n}"), "gt-1");
        one.labels = vec![if n % 4 == 0 { "ui" } else { "db" }.into()];
        append(&mut store, Outcome::Merged, &one).unwrap();
    }
    let newest = run(&mut store, |txn| txn.newest_entries("claude", "ui", 2)).unwrap();
    assert_eq!([newest[0].seq, newest[1].seq], [9, 5]);
}

#[test]
fn only_failures_by_its_own_fault_make_a_relic_reworked() {
    let mut store = store();
    let mut failed = work("a#1", "gt-1");
    failed.failure = Some("infra".into());
    append(&mut store, Outcome::MergeFailed, &failed).unwrap();
    append(&mut store, Outcome::Escalated, &work("a#1", "gt-1")).unwrap();
    let has_failed =
        |store: &mut SqliteRelics| run(store, |txn| txn.has_failed_before(&id("gt-1")));
    assert!(!has_failed(&mut store).unwrap());
    failed.failure = Some("tests".into());
    failed.mr = Some("gt-2".into());
    append(&mut store, Outcome::MergeFailed, &failed).unwrap();
    assert!(has_failed(&mut store).unwrap());
}

#[test]
fn chains_of_other_cities_are_apart_from_own_ones_and_from_each_other() {
    let mut store = three();
    let before = chain(&mut store, &ChainOf::Own, "claude");
    for (city, kind) in [("north", "merged"), ("south", "rejected")] {
        let entry = Head::default().next("claude", kind, &json!({ "city": city }));
        let line = Line {
            name: "claude".into(),
            entry,
        };
        let of = ForeignCity {
            name: city.into(),
            id: city.into(),
            imported_at: at("2026-01-01T00:00:00Z"),
            bytes: 0,
        };
        run(&mut store, |txn| {
            txn.put_foreign_city(&of)?;
            txn.add_foreign_entry(city, &line)
        })
        .unwrap();
        // The same place cannot be written twice.
        let twice = run(&mut store, |txn| txn.add_foreign_entry(city, &line));
        assert!(twice.is_err());
    }
    assert_eq!(chain(&mut store, &ChainOf::Own, "claude"), before);
    let north = chain(&mut store, &ChainOf::City("north".into()), "claude");
    assert_eq!((north.len(), north[0].kind.as_str()), (1, "merged"));
    let own = run(&mut store, |txn| txn.chains(&ChainOf::Own, "", 9)).unwrap();
    assert_eq!(own.len(), 1);
    // The end is noted: a chain whose last entry is gone has it still.
    let of = ChainOf::City("north".into());
    let noted = run(&mut store, |txn| txn.chain_head(&of, "claude")).unwrap();
    assert_eq!(noted.unwrap().hash, north[0].hash);
    assert!(
        store
            .conn
            .execute("DELETE FROM foreign_entries", [])
            .is_err()
    );
    let cities = run(&mut store, |txn| txn.foreign_cities()).unwrap();
    assert!(cities.iter().all(|city| city.bytes > 64), "{cities:?}");
    // A city goes with all its chains, or not.
    let forget = |txn: &mut dyn Txn| txn.forget_foreign_city("north");
    assert_eq!(run(&mut store, forget).unwrap(), Some(1));
    assert_eq!(run(&mut store, forget).unwrap(), None);
    assert!(chain(&mut store, &of, "claude").is_empty());
    assert_eq!(
        run(&mut store, |txn| txn.chain_head(&of, "claude")).unwrap(),
        None
    );
    let south = chain(&mut store, &ChainOf::City("south".into()), "claude");
    assert_eq!(south.len(), 1);
    assert_eq!(chain(&mut store, &ChainOf::Own, "claude"), before);
}

#[test]
fn attempts_of_relics_that_were_closed_long_ago_are_deleted() {
    let mut store = store();
    let (old, open) = (
        create(&mut store, &task("old")),
        create(&mut store, &task("open")),
    );
    let attempts = [(toast(), &old), (nux(), &open)];
    for (raider, relic) in &attempts {
        let mut attempt = Attempt::unknown(raider, Incarnation(1), &relic.id);
        attempt.files = Some(BTreeMap::from([("rs".into(), 2)]));
        run(&mut store, |txn| txn.put_attempt(&attempt)).unwrap();
        let read = run(&mut store, |txn| txn.attempt(raider, Incarnation(1)));
        assert_eq!(read.unwrap(), Some(attempt));
    }
    let mut closed = old.clone();
    closed.status = RelicStatus::Closed;
    closed.closed = Some(at("2026-01-01T00:00:00Z"));
    run(&mut store, |txn| txn.put_relic(&closed)).unwrap();
    let prune = |store: &mut SqliteRelics, before: &str| {
        run(store, |txn| txn.prune_attempts(at(before), 9)).unwrap()
    };
    let spoil = "UPDATE attempts SET attempt = '{' WHERE relic = ?";
    store.conn.execute(spoil, [old.id.as_str()]).unwrap();
    let spoilt = run(&mut store, |txn| txn.attempt(&toast(), Incarnation(1)));
    assert_eq!(spoilt.unwrap(), None, "it blocks nothing");
    assert_eq!(prune(&mut store, "2026-01-01T00:00:00Z"), 0);
    assert_eq!(prune(&mut store, "2026-01-02T00:00:00Z"), 1);
    let left = run(&mut store, |txn| txn.attempt(&nux(), Incarnation(1)));
    assert!(left.unwrap().is_some());
}

/// A store of the last schema that had chains of slots.
fn old_store(rows: &[(&str, CvEntry)]) -> rusqlite::Connection {
    let mut conn = rusqlite::Connection::open_in_memory().unwrap();
    schema::migrate_to(&mut conn, moved_chains::VERSION - 1).unwrap();
    for (name, entry) in rows {
        conn.execute(
            "INSERT INTO cv (name, seq, prev, hash, kind, data) VALUES (?, ?, ?, ?, ?, ?)",
            params![
                name,
                entry.seq,
                entry.prev,
                entry.hash,
                entry.kind,
                entry.data.to_string()
            ],
        )
        .unwrap();
    }
    conn
}

fn of_slot(name: &str, rows: &[(&str, serde_json::Value)]) -> Vec<CvEntry> {
    let mut head = Head::default();
    let mut chain = Vec::new();
    for (kind, data) in rows {
        let entry = head.next(name, kind, data);
        head.follow(name, &entry).unwrap();
        chain.push(entry);
    }
    chain
}

/// Writes the charges of both incarnations into the journal, and one that cannot be read.
fn journal_charges(conn: &rusqlite::Connection, toast: &str) {
    // A row that another program spoilt does not keep the store from being opened.
    let spoilt = "INSERT INTO events (ts, type, subject, cause, data)
                  VALUES (0, 'raider.charged', CAST(x'ff' AS TEXT), CAST(x'ff' AS TEXT), CAST(x'ff' AS TEXT))";
    conn.execute(spoilt, []).unwrap();
    for (incarnation, harness) in [(1, "codex"), (2, "claude")] {
        let data = json!({
            "relic": "gt-1", "incarnation": incarnation, "harness": harness, "by": "operator",
        });
        let charged = NewEvent::new(EventType::RaiderCharged, toast, Cause::Operator).with(data);
        conn.execute(
            "INSERT INTO events (ts, type, subject, cause, data) VALUES (0, ?, ?, ?, ?)",
            params![
                charged.kind.as_str(),
                charged.subject,
                charged.cause.as_str(),
                charged.data.to_string()
            ],
        )
        .unwrap();
    }
}

#[test]
fn entries_of_slots_move_to_their_identities_as_far_as_they_verify() {
    let (toast, nux) = ("horde/raiders/Toast", "horde/raiders/Nux");
    let whole = of_slot(
        toast,
        &[
            (
                "merge_failed",
                json!({ "relic": "gt-1", "incarnation": 1, "mr": "gt-2", "failure_type": "tests" }),
            ),
            (
                "merged",
                json!({ "relic": "gt-1", "incarnation": 2, "mr": "gt-3" }),
            ),
            ("no_change", json!({ "relic": "gt-9", "raider": toast })),
            (
                "merge_failed",
                json!({ "relic": "gt-1", "incarnation": 1, "mr": "gt-2", "failure_type": "tests" }),
            ),
        ],
    );
    let mut changed = of_slot(
        nux,
        &[
            ("escalated", json!({ "relic": "gt-4" })),
            (
                "merged",
                json!({ "relic": "gt-5", "incarnation": 7, "mr": "gt-6" }),
            ),
        ],
    );
    changed[1].data = json!({ "relic": "gt-5", "incarnation": 8, "mr": "gt-6" });
    let rows: Vec<_> = (whole.iter().map(|entry| (toast, entry.clone())))
        .chain(changed.iter().map(|entry| (nux, entry.clone())))
        .collect();
    let mut conn = old_store(&rows);
    journal_charges(&conn, toast);
    schema::migrate_to(&mut conn, moved_chains::VERSION).unwrap();
    let mut store = SqliteRelics { conn, ..store() };
    let codex = chain(&mut store, &ChainOf::Own, "codex");
    // The merge request failed twice.
    assert_eq!(codex.len(), 2);
    assert_eq!(codex[0].data["failure"], "tests");
    assert_eq!(codex[0].data["work"], "horde/raiders/Toast#1");
    assert_eq!(codex[0].data["charged_by"]["kind"], "person");
    assert_eq!(codex[0].data["moved"]["hash"], whole[0].hash.as_str());
    let claude = chain(&mut store, &ChainOf::Own, "claude");
    assert_eq!((claude.len(), claude[0].kind.as_str()), (1, "merged"));
    // The charges of the others are not in the journal; what does not verify is not moved.
    let unknown = chain(&mut store, &ChainOf::Own, "unknown");
    let kinds: Vec<&str> = unknown.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["escalated", "no_change"]);
    for (name, own) in [("codex", codex), ("claude", claude), ("unknown", unknown)] {
        assert!(verify(name, &own).is_ok(), "{name}");
    }
    for of in [toast, nux] {
        let noted = run(&mut store, |txn| txn.chain_head(&ChainOf::Slot, of)).unwrap();
        let last = chain(&mut store, &ChainOf::Slot, of).pop().unwrap();
        assert_eq!(noted.unwrap().hash, last.hash);
    }
    // The old chains stay as evidence.
    let slot = chain(&mut store, &ChainOf::Slot, nux);
    assert_eq!(verify(nux, &slot), broken(2, Flaw::Changed));
    assert_eq!(chain(&mut store, &ChainOf::Slot, toast), whole);
}
