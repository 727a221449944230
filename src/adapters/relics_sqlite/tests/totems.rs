//! Tests of totems.

use std::collections::BTreeMap;

use super::*;
use crate::domain::totem::{StepRow, TotemRow};

fn step(store: &mut SqliteRelics, of: &RelicId) -> RelicId {
    let new = NewRelic {
        kind: RelicKind::Step,
        parent: Some(of.clone()),
        ..task("step")
    };
    create(store, &new).id
}

fn totem(store: &mut SqliteRelics, relic: &RelicId) -> TotemRow {
    let steps = ["plan", "build"].map(|name| StepRow {
        relic: step(store, relic),
        name: name.parse().unwrap(),
        fresh_session: name == "build",
    });
    TotemRow {
        relic: relic.clone(),
        ritual: "work".parse().unwrap(),
        vars: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        started: at("2026-01-31T12:00:00Z"),
        by: Some("operator".to_owned()),
        steps: steps.into(),
    }
}

#[test]
fn a_totem_is_read_as_it_was_stored_and_found_by_its_steps() {
    let mut store = store();
    let relic = create(&mut store, &task("work")).id;
    assert_eq!(run(&mut store, |txn| txn.totem(&relic)), Ok(None));
    let row = totem(&mut store, &relic);
    run(&mut store, |txn| txn.add_totem(&row)).unwrap();
    assert_eq!(run(&mut store, |txn| txn.totem(&relic)), Ok(Some(row)));
    let of = |store: &mut SqliteRelics, step: &str| {
        run(store, |txn| txn.totem_of_step(&id(step))).unwrap()
    };
    assert_eq!(of(&mut store, "gt-1.2"), Some(relic.clone()));
    assert_eq!(of(&mut store, "gt-1"), None);
    assert_eq!(of(&mut store, "gt-9.1"), None);
}

#[test]
fn a_relic_has_one_totem() {
    let mut store = store();
    let relic = create(&mut store, &task("work")).id;
    let row = totem(&mut store, &relic);
    run(&mut store, |txn| txn.add_totem(&row)).unwrap();
    let again = totem(&mut store, &relic);
    let why = conflict(run(&mut store, |txn| txn.add_totem(&again)));
    assert!(why.contains("has a totem already"), "{why}");
    assert_eq!(run(&mut store, |txn| txn.totem(&relic)), Ok(Some(row)));
}

/// A step is done by the raider of its totem: it is neither charged nor listed as ready work.
#[test]
fn a_step_is_never_charged_by_itself() {
    let mut store = store();
    let relic = create(&mut store, &task("work")).id;
    step(&mut store, &relic);
    let ids = |relics: Vec<Relic>| relics.into_iter().map(|it| it.id).collect::<Vec<_>>();
    let ready = run(&mut store, |txn| txn.ready("gt", None)).unwrap();
    let chargeable = run(&mut store, |txn| txn.chargeable("gt", None, 9)).unwrap();
    assert_eq!(
        (ids(ready), ids(chargeable)),
        (vec![relic.clone()], vec![relic])
    );
}
