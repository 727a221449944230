//! Tests of the journal: numbering and filters, and a model to compare sagas and events with.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType, NewEvent};
use crate::domain::saga::SagaKind;
use crate::ports::relics::Committed;
use crate::ports::relics::EventFilter;

fn seqs(store: &mut SqliteRelics, filter: EventFilter) -> Vec<u64> {
    let events = run(store, |txn| txn.events(&filter)).unwrap();
    events.iter().map(|event| event.seq).collect()
}

fn story() -> SqliteRelics {
    let mut store = store();
    let toast = "horde/raiders/Toast";
    let events = [
        NewEvent::new(
            EventType::ControllerStarted,
            "bright-lights",
            Cause::Operator,
        ),
        NewEvent::new(EventType::RaiderCharged, toast, Cause::Charged)
            .with(json!({"relic": "gt-1"})),
        NewEvent::new(EventType::MrQueued, "gt-2", Cause::Done)
            .with(json!({"relic": "gt-1", "raider": toast, "mr": "gt-2"})),
        NewEvent::new(
            EventType::RaiderCharged,
            "horde/raiders/Nux",
            Cause::Charged,
        )
        .with(json!({"relic": "gt-3"})),
        NewEvent::new(EventType::RaiderMergeFailed, toast, Cause::MergeFailed)
            .with(json!({"mr": "gt-2", "raider": {"not": "a name"}})),
        NewEvent::new(EventType::EscalationRaised, "gt-4", Cause::Stuck)
            .with(json!({"agent": toast})),
    ];
    run(&mut store, |txn| {
        for event in &events {
            txn.record(event)?;
        }
        Ok(())
    })
    .unwrap();
    store
}

#[test]
fn events_are_found_by_number_and_type() {
    let mut store = story();
    let all = EventFilter::default();
    assert_eq!(seqs(&mut store, all.clone()), [1, 2, 3, 4, 5, 6]);
    let after = EventFilter {
        after: 4,
        ..all.clone()
    };
    assert_eq!(seqs(&mut store, after.clone()), [5, 6]);
    let page = EventFilter {
        after: 1,
        limit: 2,
        ..all.clone()
    };
    assert_eq!(seqs(&mut store, page), [2, 3]);
    let kind = |kind: &str| EventFilter {
        kind: Some(kind.into()),
        ..all.clone()
    };
    assert_eq!(seqs(&mut store, kind("raider.charged")), [2, 4]);
    assert_eq!(seqs(&mut store, kind("raider.*")), [2, 4, 5]);
    assert_eq!(seqs(&mut store, kind("raid.*")), [0; 0]);
    assert_eq!(
        seqs(&mut store, kind("raider.merge_*")),
        [0; 0],
        "only whole prefixes"
    );
    let both = EventFilter {
        after: 2,
        ..kind("raider.*")
    };
    assert_eq!(seqs(&mut store, both), [4, 5]);
}

#[test]
fn events_are_found_by_everyone_they_are_about() {
    let mut store = story();
    let about = |subject: &str| EventFilter {
        subject: Some(subject.into()),
        ..EventFilter::default()
    };
    assert_eq!(seqs(&mut store, about("horde/raiders/Toast")), [2, 3, 5, 6]);
    assert_eq!(seqs(&mut store, about("gt-1")), [2, 3]);
    assert_eq!(seqs(&mut store, about("gt-2")), [3, 5]);
    assert_eq!(seqs(&mut store, about("Toast")), [0; 0]);
    let some = EventFilter {
        after: 2,
        kind: Some("raider.*".into()),
        limit: 1,
        ..about("horde/raiders/Toast")
    };
    assert_eq!(seqs(&mut store, some), [5]);
}

#[test]
fn an_event_comes_back_as_it_was_committed() {
    let mut store = store();
    let new = NewEvent::new(
        EventType::RaiderNuked,
        "horde/raiders/Toast",
        Cause::DoneCleanPushed,
    )
    .with(json!({"n": [1, 2.5, null], "text": "ä\n"}));
    let mut record = |txn: &mut dyn Txn| txn.record(&new).map(|_| ());
    let Committed { events, .. } = store
        .commit(&mut [&mut record], Durability::Behind)
        .unwrap();
    let read = run(&mut store, |txn| txn.events(&EventFilter::default())).unwrap();
    assert_eq!(events, read);
    assert_eq!(events[0].kind, "raider.nuked");
    assert_eq!(events[0].cause, "done_clean_pushed");
    assert_eq!(events[0].data, new.data);
}

#[test]
fn numbers_go_on_after_the_journal_was_pruned() {
    let mut store = story();
    assert!(
        store
            .conn
            .execute("UPDATE events SET cause = 'x'", [])
            .is_err()
    );
    store.conn.execute("DELETE FROM events", []).unwrap();
    let event = NewEvent::new(EventType::ControllerReady, "city", Cause::Operator);
    assert_eq!(run(&mut store, |txn| txn.record(&event)).unwrap(), 7);
    let about = EventFilter {
        subject: Some("gt-1".into()),
        ..EventFilter::default()
    };
    assert_eq!(seqs(&mut store, about), [0; 0]);
}

/// The steps of a job in the model test.
#[derive(Debug, Clone)]
enum Step {
    Open(u8),
    Advance(u8),
    Close(u8),
    Record(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..4).prop_map(Step::Open),
        (0u8..4).prop_map(Step::Advance),
        (0u8..4).prop_map(Step::Close),
        any::<u8>().prop_map(Step::Record),
    ]
}

/// Does the step in the store and in the model; both must agree on whether it is allowed.
fn play(txn: &mut dyn Txn, model: &mut Model, step: &Step) -> Result<(), StoreError> {
    let rig = "horde".parse().unwrap();
    let subject = |n: &u8| format!("horde/raiders/R{n}");
    let open = |txn: &mut dyn Txn, n| txn.saga_of(SagaKind::Nuke, &subject(n));
    match step {
        Step::Open(n) => {
            let opened = txn.open_saga(SagaKind::Nuke, &rig, &subject(n), "judge", &json!(0));
            assert_eq!(opened.is_ok(), !model.sagas.contains_key(&subject(n)));
            model
                .sagas
                .insert(subject(n), opened?.data.as_u64().unwrap());
        }
        Step::Advance(n) => {
            if let Some(saga) = open(txn, n)? {
                let next = saga.data.as_u64().unwrap() + 1;
                txn.step_saga(saga.id, "salvage", &json!(next))?;
                *model.sagas.get_mut(&subject(n)).unwrap() = next;
            }
        }
        Step::Close(n) => {
            if let Some(saga) = open(txn, n)? {
                txn.close_saga(saga.id)?;
                model.sagas.remove(&subject(n)).unwrap();
            }
        }
        Step::Record(n) => {
            let event = NewEvent::new(EventType::RaiderNudged, subject(n), Cause::Patrol);
            let seq = txn.record(&event)?;
            model.events += 1;
            assert_eq!(seq, model.events);
        }
    }
    Ok(())
}

/// The expected content of the store.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    sagas: BTreeMap<String, u64>,
    events: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Commits jobs of steps, some of which fail at their end. Failed jobs must leave nothing, events must be
    /// numbered without a gap, and a commit must return exactly the journalled events.
    #[test]
    fn failed_jobs_leave_nothing_behind(
        commits in prop::collection::vec(
            prop::collection::vec((prop::collection::vec(step(), 0..6), any::<bool>()), 0..4),
            1..6,
        )
    ) {
        let mut store = store();
        let model = std::cell::RefCell::new(Model::default());
        let mut handed_out: Vec<Event> = Vec::new();
        for jobs in &commits {
            let mut closures: Vec<_> = jobs
                .iter()
                .map(|(steps, fails)| {
                    let model = &model;
                    move |txn: &mut dyn Txn| {
                        let mut trial = model.borrow().clone();
                        steps.iter().try_for_each(|step| play(txn, &mut trial, step))?;
                        if *fails {
                            return Err(StoreError::Conflict("changed my mind".into()));
                        }
                        model.replace(trial);
                        Ok(())
                    }
                })
                .collect();
            let mut jobs: Vec<crate::ports::relics::Job<'_>> =
                closures.iter_mut().map(|job| job as _).collect();
            let Committed {
        results, events, ..
    } = store.commit(&mut jobs, Durability::Behind).unwrap();
            prop_assert_eq!(results.len(), jobs.len());
            handed_out.extend(events);
        }
        let model = model.into_inner();
        let sagas = run(&mut store, |txn| txn.sagas(None)).unwrap();
        let sagas: BTreeMap<_, _> = sagas
            .into_iter()
            .map(|saga| (saga.subject, saga.data.as_u64().unwrap()))
            .collect();
        prop_assert_eq!(sagas, model.sagas);
        let numbers: Vec<u64> = handed_out.iter().map(|event| event.seq).collect();
        prop_assert_eq!(numbers, (1..=model.events).collect::<Vec<_>>());
        prop_assert_eq!(handed_out, run(&mut store, |txn| txn.events(&EventFilter::default())).unwrap());
    }
}
