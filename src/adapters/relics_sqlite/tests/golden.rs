//! Tests with a store of the first schema, kept in `tests/golden/v1.db`: the current program must read every row of
//! it as its own.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{HarnessName, Incarnation};
use crate::domain::merge::{GateVerdict, HoldReason, MergeRequest, MrState, Review, Verdict};
use crate::domain::message::{Body, Handoff};
use crate::domain::relic::{Completion, DoneIntent, Hook, RelicStatus, Source};
use crate::domain::restart::{DeathRecord, Mono};
use crate::domain::saga::SagaKind;
use crate::ports::clock::Clock;
use crate::ports::relics::{ChainOf, EventFilter, RelicFilter, SalvageEntry};

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        at("2026-01-01T12:00:00.123456Z")
    }

    fn mono(&self) -> Mono {
        Mono::default()
    }
}

/// A store of the schema before relics could be imported. It has the rows of the first one, and an open relic that is
/// still assigned to a raider.
fn unassigned() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v13.db")
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.db")
}

/// Writes a row of every kind, with every column used. This must never change, because the file is fixed.
fn fill(txn: &mut dyn Txn) -> Result<(), StoreError> {
    let mut work = txn.create_relic(&NewRelic {
        labels: vec!["rework".into(), "backend".into()],
        ..task("first")
    })?;
    let step = NewRelic {
        parent: Some(work.id.clone()),
        deps: vec![work.id.clone()],
        ..task("its step")
    };
    txn.create_relic(&step)?;
    let raider = toast();
    txn.next_incarnation(&raider)?;
    work.status = RelicStatus::Hooked;
    work.assignee = Some(raider.to_string());
    work.raider = Some(raider.clone());
    work.until = Some(at("2026-02-01T00:00:00Z"));
    work.branch = Some("raider/Toast/gt-1-1".into());
    (work.reworks, work.context) = (2, Some("it was red".into()));
    work.target = Some("release".into());
    work.harness = Some(HarnessName::new("script").unwrap());
    txn.put_relic(&work)?;
    txn.put_hook(&hook(work.id.clone()))?;
    let note = Body::Handoff(Handoff {
        note: Some("half way".into()),
        relic: Some(work.id.clone()),
        incarnation: None,
        totem_step: None,
        resume: false,
    });
    txn.send("horde/raiders/Toast", "horde/raiders/Toast", note)?;
    let new = NewRelic {
        kind: RelicKind::MergeRequest,
        ..task("land gt-1")
    };
    let mr = txn.create_relic(&new)?;
    txn.put_mr(&merge_request(mr.id, work.id.clone()))?;
    let data = json!({ "head": oid('b') });
    txn.open_saga(
        SagaKind::Done,
        &raider.rig,
        &raider.to_string(),
        "push",
        &data,
    )?;
    let event = NewEvent::new(EventType::RaiderDone, &raider, Cause::Done);
    txn.record(&event.with(json!({ "relic": work.id })))?;
    txn.put_salvage(&SalvageEntry {
        id: "horde-Nux-1".into(),
        rig: raider.rig.clone(),
        raider: nux().name,
        incarnation: Incarnation(1),
        relic: Some(work.id.clone()),
        reason: "operator".into(),
        created: txn.now(),
        refs: vec!["refs/horde/salvage/horde/Nux/1/head".into()],
        bytes: 7,
        ignored: vec!["target/".into()],
        work: None,
    })?;
    txn.set("cursor", Some("12"))
}

fn hook(relic: RelicId) -> Hook {
    Hook {
        raider: toast(),
        incarnation: Incarnation(1),
        relic,
        branch: "raider/Toast/gt-1-1".into(),
        base: oid('a'),
        from_target: false,
        target: "release".into(),
        harness: HarnessName::new("script").unwrap(),
        charged_at: Still.now(),
        done: Some(DoneIntent {
            exit: Completion::Completed,
            head: oid('b'),
            cleanup_status: None,
            mismatch: None,
            no_change: false,
            wants_review: true,
            until: None,
            reason: Some("ready".into()),
            at: Still.now(),
        }),
    }
}

fn merge_request(id: RelicId, relic: RelicId) -> MergeRequest {
    MergeRequest {
        id,
        rig: toast().rig,
        relic,
        raider: toast(),
        incarnation: Incarnation(1),
        branch: "raider/Toast/gt-1-1".into(),
        head: oid('b'),
        target: "release".into(),
        state: MrState::Queued,
        priority: 3,
        queued_at: at("2026-01-01T11:00:00Z"),
        attempts: 1,
        not_before: Some(at("2026-01-01T13:00:00Z")),
        gates: vec![GateVerdict {
            name: "test".into(),
            verdict: Verdict::Fail,
            ms: 5,
            tail: "red".into(),
        }],
        conflict_files: vec!["src/a.rs".into()],
        merge_commit: None,
        note: Some("parked".into()),
        began: None,
        // The values that a later schema makes of it.
        hold: Some(HoldReason::Infra),
        held_since: None,
        settled_at: None,
        review: Review::Wanted,
        pr: None,
        replaced: false,
        decided_at: None,
    }
}

/// Returns every row as text.
fn everything(txn: &mut dyn Txn) -> Result<Vec<String>, StoreError> {
    let (relics, events) = (RelicFilter::default(), EventFilter::default());
    let name = toast().to_string();
    Ok(vec![
        format!("{:#?}", txn.relics(&relics)?),
        format!("{:#?}", txn.hooks(None)?),
        format!("{:#?}", txn.incarnation(&toast())?),
        format!("{:#?}", txn.inbox(&name)?),
        format!("{:#?}", txn.mrs(None, false)?),
        format!("{:#?}", txn.sagas(None)?),
        format!("{:#?}", txn.events(&events)?),
        format!("{:#?}", txn.salvages()?),
        format!("{:#?}", txn.get("cursor")?),
    ])
}

#[test]
fn a_store_of_the_first_schema_is_read_whole() {
    if std::env::var_os("HORDE_MAKE_GOLDEN").is_some() {
        make();
    }
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    std::fs::copy(golden(), &path).unwrap();
    let mut old = SqliteRelics::open(&path, Arc::new(Still)).unwrap();
    let mut fresh = SqliteRelics::in_memory(Arc::new(Still)).unwrap();
    run(&mut fresh, fill).unwrap();
    let expected = run(&mut fresh, everything).unwrap();
    assert_eq!(run(&mut old, everything).unwrap(), expected);
    // Its entry of a slot is in the chain of an identity, and its hook has an attempt.
    let own = run(&mut old, |txn| {
        txn.chain_entries(&ChainOf::Own, "unknown", 0, 9)
    })
    .unwrap();
    let (moved, relic) = (&own[0].entry.data["moved"], &own[0].entry.data["relic"]);
    assert_eq!((&moved["chain"], relic), (&json!(toast()), &json!("gt-1")));
    let attempt = run(&mut old, |txn| txn.attempt(&toast(), Incarnation(1))).unwrap();
    let hook = hook(id("gt-1"));
    assert_eq!(attempt.unwrap().identity, hook.harness.as_str());
    // The store can be written as usual.
    assert_eq!(create(&mut old, &task("next")).id, id("gt-3"));
    // The tables of later schemas exist, and are empty.
    assert_eq!(run(&mut old, |txn| txn.deaths()).unwrap(), []);
    let mut deaths = DeathRecord {
        child: toast().to_string(),
        made_from: "1".into(),
        open: true,
        at: vec![at("2026-01-01T11:00:00Z"), at("2026-01-01T11:30:00Z")],
    };
    run(&mut old, |txn| txn.put_deaths(&deaths)).unwrap();
    assert_eq!(run(&mut old, |txn| txn.deaths()).unwrap(), [deaths.clone()]);
    (deaths.open, deaths.at) = (false, Vec::new());
    run(&mut old, |txn| txn.put_deaths(&deaths)).unwrap();
    assert_eq!(run(&mut old, |txn| txn.deaths()).unwrap(), []);
}

#[test]
fn a_store_of_before_imports_keeps_its_relics_and_takes_imported_ones() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    std::fs::copy(unassigned(), &path).unwrap();
    let mut store = SqliteRelics::open(&path, Arc::new(Still)).unwrap();
    let all = run(&mut store, |txn| txn.relics(&RelicFilter::default())).unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|relic| relic.source.is_none()));
    let mut left = run(&mut store, |txn| txn.relic(&id("gt-3"))).unwrap();
    assert_eq!(left.assignee, None, "an open relic has no raider");
    let hooked = run(&mut store, |txn| txn.relic(&id("gt-1"))).unwrap();
    assert_eq!(hooked.assignee, Some(toast().to_string()));
    let source = Source {
        system: "beads".into(),
        id: "bd-1".into(),
    };
    left.source = Some(source.clone());
    run(&mut store, |txn| txn.put_relic(&left)).unwrap();
    let found = run(&mut store, |txn| txn.relic_of_source(&source, Some("gt")));
    assert_eq!(found, Ok(Some(id("gt-3"))));
}

/// Makes the golden file: run once, with the program of its schema, when `HORDE_MAKE_GOLDEN` is set. The file of a
/// later schema needs another name.
fn make() {
    assert!(!golden().exists(), "it is there, and must never change");
    let mut store = SqliteRelics::open(&golden(), Arc::new(Still)).unwrap();
    run(&mut store, fill).unwrap();
    // One file without a log beside it.
    let single = store.conn.pragma_update(None, "journal_mode", "DELETE");
    single.unwrap();
}
