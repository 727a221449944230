//! Tests of the deletion of old rows, and of those that stay.

use super::*;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::Incarnation;
use crate::domain::merge::{MergeRequest, MrState};
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::self_review::{Round, Verdict};
use crate::ports::relics::{EventFilter, RelicFilter};

const OLD: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-02T00:00:00Z";

fn wisp(parent: Option<&str>, deps: &[&str]) -> NewRelic {
    NewRelic {
        kind: RelicKind::Wisp,
        labels: vec!["totem".into()],
        parent: parent.map(id),
        deps: deps.iter().map(|dep| id(dep)).collect(),
        ..task("wisp")
    }
}

fn close(store: &mut SqliteRelics, relic: &str, when: &str) {
    run(store, |txn| {
        let mut relic = txn.relic(&id(relic))?;
        relic.status = RelicStatus::Closed;
        relic.closed = Some(at(when));
        txn.put_relic(&relic)
    })
    .unwrap();
}

fn collect(store: &mut SqliteRelics) -> Vec<String> {
    let collected = run(store, |txn| txn.collect_wisps(at(NOW), 100)).unwrap();
    collected.iter().map(ToString::to_string).collect()
}

fn rows(store: &SqliteRelics, table: &str) -> u64 {
    let count = format!("SELECT count(*) FROM {table}");
    let rows = store.conn.query_row(&count, [], |row| row.get(0));
    rows.unwrap()
}

#[test]
fn a_closed_wisp_goes_with_all_its_rows_and_its_number_is_not_given_again() {
    let mut store = store();
    create(&mut store, &wisp(None, &[]));
    create(&mut store, &wisp(Some("gt-1"), &["gt-1"]));
    for relic in ["gt-1", "gt-1.1"] {
        close(&mut store, relic, OLD);
    }
    assert_eq!(collect(&mut store), ["gt-1", "gt-1.1"]);
    for table in ["relics", "relic_labels", "relic_deps"] {
        assert_eq!(rows(&store, table), 0, "{table}");
    }
    assert_eq!(rows(&store, "counters"), 1, "that of the prefix");
    assert_eq!(create(&mut store, &task("next")).id, id("gt-2"));
    assert_eq!(collect(&mut store), [""; 0]);
}

#[test]
fn only_wisps_that_were_closed_long_enough_ago_go() {
    let mut store = store();
    create(&mut store, &wisp(None, &[]));
    create(&mut store, &wisp(None, &[]));
    create(&mut store, &task("no wisp"));
    create(&mut store, &wisp(None, &[]));
    for (relic, when) in [("gt-2", NOW), ("gt-3", OLD), ("gt-4", OLD)] {
        close(&mut store, relic, when);
    }
    assert_eq!(collect(&mut store), ["gt-4"]);
    let left = run(&mut store, |txn| txn.relics(&RelicFilter::default())).unwrap();
    assert_eq!(left.len(), 3);
}

#[test]
fn a_wisp_that_something_open_needs_stays_until_that_is_closed() {
    let mut store = store();
    for _ in 1..=4 {
        create(&mut store, &wisp(None, &[]));
    }
    create(
        &mut store,
        &NewRelic {
            parent: Some(id("gt-1")),
            ..task("part")
        },
    );
    create(
        &mut store,
        &NewRelic {
            deps: vec![id("gt-2")],
            ..task("waits")
        },
    );
    create(&mut store, &wisp(Some("gt-3"), &["gt-4"]));
    for relic in ["gt-1", "gt-2", "gt-3", "gt-4"] {
        close(&mut store, relic, OLD);
    }
    assert_eq!(collect(&mut store), [""; 0]);
    for relic in ["gt-1.1", "gt-5", "gt-3.1"] {
        close(&mut store, relic, NOW);
    }
    assert_eq!(collect(&mut store), ["gt-1", "gt-2", "gt-3", "gt-4"]);
    // The remaining relics do not mention the deleted ones.
    let part = run(&mut store, |txn| txn.relic(&id("gt-1.1"))).unwrap();
    let waits = run(&mut store, |txn| txn.relic(&id("gt-5"))).unwrap();
    assert_eq!((part.parent, waits.deps), (None, vec![]));
}

#[test]
fn a_wisp_on_a_hook_stays() {
    let mut store = store();
    create(&mut store, &wisp(None, &[]));
    close(&mut store, "gt-1", OLD);
    let hook = records::hook(&toast(), &id("gt-1"));
    run(&mut store, |txn| txn.put_hook(&hook)).unwrap();
    assert_eq!(collect(&mut store), [""; 0]);
}

#[test]
fn no_more_wisps_go_at_once_than_were_asked_for_and_the_oldest_go_first() {
    let mut store = store();
    for (n, when) in [(1, NOW), (2, OLD), (3, "2026-01-01T12:00:00Z")] {
        create(&mut store, &wisp(None, &[]));
        close(&mut store, &format!("gt-{n}"), when);
    }
    let far = at("2027-01-01T00:00:00Z");
    let some = run(&mut store, |txn| txn.collect_wisps(far, 2)).unwrap();
    assert_eq!(some, [id("gt-2"), id("gt-3")]);
}

fn record(store: &mut SqliteRelics, times: u64) -> u64 {
    let event = NewEvent::new(EventType::RaiderWorking, toast(), Cause::Charged);
    run(store, |txn| {
        (0..times).try_fold(0, |_, _| txn.record(&event))
    })
    .unwrap()
}

fn bounds(store: &mut SqliteRelics) -> (u64, u64) {
    run(store, |txn| Ok((txn.first_seq()?, txn.last_seq()?))).unwrap()
}

#[test]
fn events_are_pruned_in_parts_and_never_from_a_number_on() {
    let mut store = store();
    assert_eq!(bounds(&mut store), (1, 0));
    record(&mut store, 10);
    let prune = |store: &mut SqliteRelics, before: Timestamp, seq, limit| {
        run(store, |txn| txn.prune_events(before, seq, &[], limit)).unwrap()
    };
    let later = Timestamp::now() + std::time::Duration::from_secs(60);
    assert_eq!(
        prune(&mut store, at(OLD), u64::MAX >> 1, 100),
        0,
        "too young"
    );
    assert_eq!(prune(&mut store, later, 8, 4), 4);
    assert_eq!(prune(&mut store, later, 8, 4), 3);
    assert_eq!(bounds(&mut store), (8, 10));
    assert_eq!(rows(&store, "event_subjects"), 6, "the raider and its rig");
    let about = EventFilter {
        subject: Some(toast().to_string()),
        ..EventFilter::default()
    };
    let story = run(&mut store, |txn| txn.events(&about)).unwrap();
    assert_eq!(story.len(), 3);
}

/// An event that is kept among deleted ones does not make the journal look whole.
#[test]
fn kept_event_is_not_pruned_and_hides_no_gap_behind_it() {
    let mut store = store();
    record(&mut store, 10);
    let later = Timestamp::now() + std::time::Duration::from_secs(60);
    let mut prune =
        |limit| run(&mut store, |txn| txn.prune_events(later, 8, &[1, 3], limit)).unwrap();
    assert_eq!((prune(4), prune(4), prune(4)), (4, 1, 0));
    assert_eq!(bounds(&mut store), (8, 10));
    let left = run(&mut store, |txn| {
        txn.events(&EventFilter {
            limit: 100,
            ..EventFilter::default()
        })
    });
    let left: Vec<u64> = left.unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(left, [1, 3, 8, 9, 10]);
}

/// Rounds are read with the merge request of their work, and count while the raider works.
#[test]
fn rounds_of_self_review_go_with_their_raider_once_the_work_is_settled() {
    let mut store = store();
    create(&mut store, &task("a"));
    let relic = id("gt-1");
    let round = |incarnation| Round {
        relic: relic.clone(),
        raider: toast(),
        incarnation: Incarnation(incarnation),
        round: 1,
        verdict: Verdict::Failed,
        note: Some("x".repeat(4096)),
        at: at(OLD),
    };
    let request = create(
        &mut store,
        &NewRelic {
            kind: RelicKind::MergeRequest,
            ..task("mr")
        },
    );
    let mr = records::mr(
        request.id.as_str(),
        records::hook(&toast(), &relic),
        MrState::Queued,
    );
    let hook = Hook {
        incarnation: Incarnation(2),
        ..records::hook(&toast(), &relic)
    };
    run(&mut store, |txn| {
        (1..=3).try_for_each(|incarnation| txn.add_self_review(&round(incarnation)))?;
        txn.put_hook(&hook)?;
        txn.put_mr(&mr)
    })
    .unwrap();
    let kept = |store: &mut SqliteRelics, before: &str| {
        run(store, |txn| txn.prune_self_reviews(at(before), 9)).unwrap();
        let is_kept = |incarnation: &u64| {
            let rounds =
                |txn: &mut dyn Txn| txn.self_reviews(&relic, &toast(), Incarnation(*incarnation));
            !run(store, rounds).unwrap().is_empty()
        };
        (1..=3).filter(is_kept).collect::<Vec<_>>()
    };
    assert_eq!(kept(&mut store, OLD), [1, 2, 3], "too young");
    assert_eq!(
        kept(&mut store, NOW),
        [1, 2],
        "an open merge request, a raider at work"
    );
    let landed = MergeRequest {
        state: MrState::Merged,
        ..mr
    };
    run(&mut store, |txn| txn.put_mr(&landed)).unwrap();
    assert_eq!(kept(&mut store, NOW), [2]);
}

#[test]
fn numbers_go_on_when_every_event_was_pruned_even_after_a_restart() {
    let dir = crate::testing::scratch();
    let file = dir.path().join("relics.db");
    let open = || SqliteRelics::open(&file, Arc::new(SystemClock::new())).unwrap();
    let mut store = open();
    record(&mut store, 3);
    let later = Timestamp::now() + std::time::Duration::from_secs(60);
    let pruned = run(&mut store, |txn| txn.prune_events(later, 4, &[], 100)).unwrap();
    assert_eq!((pruned, bounds(&mut store)), (3, (4, 3)));
    drop(store);
    let mut store = open();
    assert_eq!(bounds(&mut store), (4, 3));
    assert_eq!(record(&mut store, 1), 4);
    assert_eq!(bounds(&mut store), (4, 4));
}
