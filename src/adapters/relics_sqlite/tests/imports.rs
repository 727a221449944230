//! Tests of relics from elsewhere: ids that are kept, sources, pages, and the links between relics.

use super::rows::cost;
use super::*;
use crate::domain::relic::{RelicStatus, Source};

fn source(id: &str) -> Source {
    Source {
        system: "beads".into(),
        id: id.into(),
    }
}

#[test]
fn a_relic_keeps_its_id_and_later_ones_get_later_numbers() {
    let mut store = store();
    let mut create_as = |as_id: &str| {
        run(&mut store, |txn| {
            txn.create_relic_as(&id(as_id), &task("a"))
        })
    };
    assert_eq!(create_as("gt-7").unwrap().id, id("gt-7"));
    assert_eq!(create_as("gt-7.3").unwrap().id, id("gt-7.3"));
    assert_eq!(create_as("gt-2").unwrap().id, id("gt-2"));
    assert_eq!(conflict(create_as("gt-7")), "gt-7 is taken");
    assert_eq!(create(&mut store, &task("next")).id, id("gt-8"));
    let step = NewRelic {
        parent: Some(id("gt-7")),
        ..task("step")
    };
    assert_eq!(create(&mut store, &step).id, id("gt-7.4"));
    let first = run(&mut store, |txn| txn.tasks_after("", 3)).unwrap();
    let ids: Vec<_> = first.into_iter().map(|relic| relic.id).collect();
    assert_eq!(ids, [id("gt-2"), id("gt-7"), id("gt-7.3")]);
    let rest = run(&mut store, |txn| txn.tasks_after("gt-7.3", 3)).unwrap();
    assert_eq!(rest.len(), 2);
}

/// Each number of an id may be a million ahead of its counter; beyond that the relic gets the next number.
#[test]
fn an_id_that_is_far_ahead_is_not_kept() {
    let mut store = store();
    let mut create_as = |as_id: &str, parent: Option<&str>| {
        let new = NewRelic {
            parent: parent.map(id),
            ..task("a")
        };
        let made = run(&mut store, |txn| txn.create_relic_as(&id(as_id), &new));
        made.unwrap().id.to_string()
    };
    let rows = [
        ("gt-9223372036854775807", None, "gt-1"),
        ("gt-999999999999999999999999", None, "gt-2"),
        ("gt-1000003", None, "gt-3"),
        ("gt-1000003", None, "gt-1000003"),
        ("gt-2000004", None, "gt-1000004"),
        ("gt-1.1000001", Some("gt-1"), "gt-1.1"),
        ("gt-1.1000001", Some("gt-1"), "gt-1.1000001"),
        ("gt-1.9223372036854775807", Some("gt-1"), "gt-1.1000002"),
        ("gt-9223372036854775807.1", None, "gt-1000005"),
        ("gt-1.9223372036854775807.1", None, "gt-1000006"),
    ];
    for (as_id, parent, kept) in rows {
        assert_eq!(create_as(as_id, parent), kept, "{as_id}");
    }
    assert_eq!(create(&mut store, &task("next")).id, id("gt-1000007"));
}

#[test]
fn a_source_is_found_within_its_prefix_and_at_the_same_cost_among_many() {
    let mut store = store();
    let make = |store: &mut SqliteRelics, prefix: &str, of: &str| {
        let new = NewRelic {
            prefix: prefix.into(),
            ..task("a")
        };
        let mut relic = create(store, &new);
        relic.source = Some(source(of));
        run(store, |txn| txn.put_relic(&relic)).unwrap();
        relic.id
    };
    let (here, there) = (
        make(&mut store, "gt", "bd-1"),
        make(&mut store, "web", "bd-1"),
    );
    let find = |store: &mut SqliteRelics, prefix: Option<&'static str>| {
        run(store, |txn| txn.relic_of_source(&source("bd-1"), prefix)).unwrap()
    };
    assert_eq!(find(&mut store, Some("gt")), Some(here.clone()));
    assert_eq!(find(&mut store, Some("web")), Some(there));
    assert_eq!(find(&mut store, Some("no")), None);
    assert!(find(&mut store, None).is_some());
    let find_one = |store: &mut SqliteRelics| cost(store, |store| drop(find(store, Some("gt"))));
    let (few, _) = find_one(&mut store);
    for number in 2..200 {
        make(&mut store, "gt", &format!("bd-{number}"));
    }
    let (many, scanned) = find_one(&mut store);
    assert_eq!((many, scanned), (few, 0));
}

#[test]
fn dependents_and_children_are_listed() {
    let mut store = store();
    create(&mut store, &task("first"));
    for _ in 0..2 {
        let new = NewRelic {
            deps: vec![id("gt-1")],
            parent: Some(id("gt-1")),
            ..task("step")
        };
        create(&mut store, &new);
    }
    let both = [id("gt-1.1"), id("gt-1.2")];
    assert_eq!(
        run(&mut store, |txn| txn.dependents(&id("gt-1"))).unwrap(),
        both
    );
    assert_eq!(
        run(&mut store, |txn| txn.children(&id("gt-1"))).unwrap(),
        both
    );
    assert!(
        run(&mut store, |txn| txn.children(&id("gt-1.1")))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_relic_is_no_step_of_itself() {
    let mut store = store();
    let mut first = create(&mut store, &task("first"));
    let step = NewRelic {
        parent: Some(id("gt-1")),
        ..task("step")
    };
    create(&mut store, &step);
    first.parent = Some(id("gt-1.1"));
    let why = conflict(run(&mut store, |txn| txn.put_relic(&first)));
    assert_eq!(
        why,
        "gt-1 would be a step of itself: gt-1 \u{2192} gt-1.1 \u{2192} gt-1"
    );
}

/// Status, assignee, status of the dependency; ready, and charged without a request.
#[test]
fn what_is_ready_and_what_is_charged_without_a_request() {
    use RelicStatus::{Blocked, Closed, Deferred, Hooked, Open};
    let rows = [
        (Open, None, Closed, true, true),
        (Open, Some("alice"), Closed, true, false),
        (Open, None, Open, false, false),
        (Open, None, Blocked, false, false),
        (Open, None, Deferred, false, false),
        (Blocked, None, Closed, false, false),
        (Deferred, None, Closed, false, false),
        (Hooked, None, Closed, false, false),
        (Closed, None, Closed, false, false),
    ];
    for (status, assignee, of_dep, ready, charged) in rows {
        let mut store = store();
        let mut needed = create(&mut store, &task("needed"));
        needed.status = of_dep;
        let new = NewRelic {
            deps: vec![needed.id.clone()],
            ..task("work")
        };
        let mut relic = create(&mut store, &new);
        (relic.status, relic.assignee) = (status, assignee.map(str::to_owned));
        run(&mut store, |txn| {
            txn.put_relic(&needed)?;
            txn.put_relic(&relic)
        })
        .unwrap();
        let is_in = |list: Vec<Relic>| list.iter().any(|one| one.id == relic.id);
        let row = (status, assignee, of_dep);
        let all = run(&mut store, |txn| txn.ready("gt", None)).unwrap();
        assert_eq!(is_in(all), ready, "{row:?}");
        let some = run(&mut store, |txn| txn.chargeable("gt", None, 9)).unwrap();
        assert_eq!(is_in(some), charged, "{row:?}");
    }
}
