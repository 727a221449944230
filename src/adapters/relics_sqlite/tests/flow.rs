//! Tests of messages, merge requests and sagas: the flow of work.

use serde_json::json;

use super::rows::hook;
use super::*;
use crate::domain::ids::Incarnation;
use crate::domain::merge::{GateVerdict, HoldReason, MergeRequest, MrState, Verdict};
use crate::domain::message::{Body, Handoff, SHAMAN, Severity};
use crate::domain::saga::SagaKind;
use crate::ports::relics::EventFilter;

#[test]
fn messages_wait_until_they_are_handled() {
    let mut store = store();
    let done = Body::RaiderDone(records::raider_done(&hook(toast(), "gt-1"), oid('a')));
    let help = records::call("horde/raiders/Toast", "no key", Severity::High);
    let help = Body::Help(help);
    let (first, second) = run(&mut store, |txn| {
        let first = txn.send("horde/raiders/Toast", "horde/witness", done.clone())?;
        Ok((
            first,
            txn.send("horde/raiders/Toast", SHAMAN, help.clone())?,
        ))
    })
    .unwrap();
    assert!(first < second);
    let waiting = run(&mut store, |txn| txn.waiting()).unwrap();
    assert_eq!(waiting, ["horde/witness", "shaman"]);
    let inbox = run(&mut store, |txn| txn.inbox("horde/witness")).unwrap();
    assert_eq!(inbox.len(), 1);
    assert_eq!(
        (inbox[0].id, &inbox[0].body, inbox[0].handled_at),
        (first, &done, None)
    );
    assert_eq!(inbox[0].from, "horde/raiders/Toast");
    assert!(run(&mut store, |txn| txn.handled(first)).unwrap());
    assert!(!run(&mut store, |txn| txn.handled(first)).unwrap());
    let unknown = run(&mut store, |txn| txn.handled(99));
    assert!(matches!(
        unknown,
        Err(StoreError::NotFound {
            kind: "message",
            ..
        })
    ));
    assert_eq!(
        run(&mut store, |txn| txn.inbox("horde/witness")).unwrap(),
        []
    );
    assert_eq!(run(&mut store, |txn| txn.waiting()).unwrap(), ["shaman"]);

    let events = run(&mut store, |txn| txn.events(&EventFilter::default())).unwrap();
    assert_eq!(events[0].kind, "message.sent");
    assert_eq!(events[0].subject, "horde/raiders/Toast");
    assert_eq!(events[0].cause, "done");
    assert_eq!(
        events[0].data,
        json!({"type": "POLECAT_DONE", "from": "horde/raiders/Toast", "to": "horde/witness",
            "raider": "horde/raiders/Toast", "incarnation": 1, "rig": "horde", "relic": "gt-1",
            "branch": "raider/Toast/gt-1-1", "head": "a".repeat(40), "exit": "completed",
            "cleanup_status": null, "gate": null})
    );
    assert_eq!(
        (events[1].subject.as_str(), events[1].cause.as_str()),
        ("shaman", "stuck")
    );
}

#[test]
fn a_handoff_goes_to_the_successor_of_the_same_name() {
    let mut store = store();
    let note = Body::Handoff(Handoff {
        note: None,
        relic: None,
        incarnation: None,
        totem_step: Some("2".into()),
        resume: false,
    });
    let name = toast().to_string();
    run(&mut store, |txn| txn.send(&name, &name, note.clone())).unwrap();
    assert_eq!(
        run(&mut store, |txn| txn.inbox(&name)).unwrap()[0].body,
        note
    );
}

pub(super) fn mr(number: u64, relic: &str, raider: RaiderId, state: MrState) -> MergeRequest {
    MergeRequest {
        queued_at: at("2026-05-01T10:00:00Z"),
        ..records::mr(&format!("gt-{number}"), hook(raider, relic), state)
    }
}

#[test]
fn merge_requests_are_listed_in_the_order_they_land() {
    let mut store = store();
    for number in 1..=11 {
        create(&mut store, &task(&number.to_string()));
    }
    let mut full = mr(9, "gt-1", toast(), MrState::Failed);
    full.gates = vec![GateVerdict {
        name: "test".into(),
        verdict: Verdict::Fail,
        ms: 12,
        tail: "boom".into(),
    }];
    full.conflict_files = vec!["a b".into()];
    full.merge_commit = Some(oid('c'));
    full.not_before = Some(at("2026-05-03T10:00:00Z"));
    full.note = Some("red".into());
    full.hold = Some(HoldReason::Checkout);
    full.held_since = Some(at("2026-05-04T10:00:00Z"));
    full.settled_at = Some(at("2026-05-05T10:00:00Z"));
    full.attempts = 3;
    let urgent = MergeRequest {
        priority: 1,
        ..mr(11, "gt-3", toast(), MrState::Testing)
    };
    run(&mut store, |txn| {
        txn.put_mr(&full)?;
        txn.put_mr(&mr(10, "gt-2", toast(), MrState::Queued))?;
        txn.put_mr(&urgent)?;
        txn.put_mr(&mr(8, "gt-1", nux(), MrState::Merged))?;
        txn.put_mr(&mr(7, "gt-1", toast(), MrState::Held))
    })
    .unwrap();
    assert_eq!(run(&mut store, |txn| txn.mr(&full.id)).unwrap(), full);
    let mut ids = |rig: Option<RaiderId>, open| {
        let rig = rig.map(|raider| raider.rig);
        let list = run(&mut store, |txn| txn.mrs(rig.as_ref(), open)).unwrap();
        list.iter()
            .map(|mr| mr.id.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(ids(Some(toast()), true), "gt-11 gt-7 gt-10");
    assert_eq!(ids(Some(toast()), false), "gt-11 gt-7 gt-9 gt-10");
    assert_eq!(ids(None, true), "gt-11 gt-7 gt-10");
    assert_eq!(ids(None, false), "gt-11 gt-7 gt-8 gt-9 gt-10");
    let all = run(&mut store, |txn| txn.mrs_of(&id("gt-1"))).unwrap();
    let all: Vec<_> = all.iter().map(|mr| mr.id.as_str()).collect();
    assert_eq!(all, ["gt-7", "gt-8", "gt-9"]);
    let mut of = |raider: RaiderId, incarnation| {
        let found = run(&mut store, |txn| {
            txn.mr_of(&id("gt-1"), &raider, Incarnation(incarnation))
        });
        found.unwrap().map(|mr| mr.id.to_string())
    };
    assert_eq!(of(toast(), 1).as_deref(), Some("gt-9"), "the newest");
    assert_eq!(
        of(nux(), 1).as_deref(),
        Some("gt-8"),
        "another raider's incarnation 1"
    );
    assert_eq!(of(toast(), 2), None);
    let loose = run(&mut store, |txn| {
        txn.put_mr(&mr(77, "gt-1", toast(), MrState::Queued))
    });
    assert!(matches!(loose, Err(StoreError::NotFound { .. })));
}

#[test]
fn second_open_saga_of_a_kind_and_subject_is_refused() {
    let mut store = store();
    let rig = toast().rig;
    let subject = toast().to_string();
    let open = |store: &mut SqliteRelics, kind, rig: &_| {
        run(store, |txn| {
            txn.open_saga(kind, rig, &subject, "slot", &json!({"n": 1}))
        })
    };
    let charge = open(&mut store, SagaKind::Charge, &rig).unwrap();
    assert_eq!(
        (charge.step.as_str(), charge.opened_at),
        ("slot", charge.progress_at)
    );
    let why = conflict(open(&mut store, SagaKind::Charge, &rig));
    assert_eq!(
        why,
        "a charge of horde/raiders/Toast is already running (at slot)"
    );
    let nuke = open(&mut store, SagaKind::Nuke, &nux().rig).unwrap();
    run(&mut store, |txn| {
        txn.step_saga(charge.id, "hook", &json!({"n": 2}))
    })
    .unwrap();
    let stepped = run(&mut store, |txn| txn.saga(charge.id)).unwrap().unwrap();
    assert_eq!(
        (stepped.step.as_str(), &stepped.data),
        ("hook", &json!({"n": 2}))
    );
    assert!(stepped.progress_at > stepped.opened_at);
    let all = run(&mut store, |txn| txn.sagas(None)).unwrap();
    assert_eq!(all, [stepped.clone(), nuke.clone()]);
    let rigs = run(&mut store, |txn| txn.sagas(Some(&nux().rig))).unwrap();
    assert_eq!(rigs, [nuke]);
    let found = run(&mut store, |txn| txn.saga_of(SagaKind::Charge, &subject)).unwrap();
    assert_eq!(found, Some(stepped));
    run(&mut store, |txn| txn.close_saga(charge.id)).unwrap();
    assert_eq!(run(&mut store, |txn| txn.saga(charge.id)).unwrap(), None);
    let late = run(&mut store, |txn| {
        txn.step_saga(charge.id, "session", &json!(null))
    });
    assert!(matches!(late, Err(StoreError::NotFound { .. })));
    let twice = run(&mut store, |txn| txn.close_saga(charge.id));
    assert!(matches!(twice, Err(StoreError::NotFound { .. })));
    let again = open(&mut store, SagaKind::Charge, &rig).unwrap();
    assert!(again.id > charge.id, "a number names one saga for ever");
}
