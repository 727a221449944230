//! Tests of what is read for `status`: counts and lists that do not grow with closed work.

use super::rows::cost;
use super::*;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;

/// Reads everything of the store that `status` shows.
fn shown(store: &mut SqliteRelics) {
    let blocked = RelicFilter {
        kind: Some(RelicKind::Task),
        status: Some(RelicStatus::Blocked),
        ..RelicFilter::default()
    };
    let open = RelicFilter {
        kind: Some(RelicKind::Escalation),
        status: Some(RelicStatus::Open),
        ..RelicFilter::default()
    };
    run(store, |txn| {
        txn.task_counts()?;
        txn.relics(&blocked)?;
        txn.relics(&open)?;
        txn.hooks(None)?;
        txn.sagas(None)?;
        txn.mrs(None, true)?;
        txn.usage_of_hooked()?;
        txn.key_values_under("stall/")?;
        txn.last_seq()
    })
    .unwrap();
}

fn close(store: &mut SqliteRelics, mut relic: Relic) {
    relic.status = RelicStatus::Closed;
    run(store, move |txn| txn.put_relic(&relic)).unwrap();
}

#[test]
fn status_costs_the_same_however_much_work_is_closed() {
    let mut store = store();
    let first = create(&mut store, &task("first"));
    close(&mut store, first);
    let with_few = cost(&mut store, shown);
    for _ in 0..500 {
        let next = create(&mut store, &task("next"));
        close(&mut store, next);
    }
    assert_eq!(with_few, cost(&mut store, shown));
}

#[test]
fn tasks_are_counted_by_prefix_and_status() {
    let mut store = store();
    let mut made: Vec<_> = (0..6).map(|_| create(&mut store, &task("work"))).collect();
    let other = NewRelic {
        prefix: "other".into(),
        ..task("work")
    };
    create(&mut store, &other);
    let wisp = NewRelic {
        kind: RelicKind::Wisp,
        ..task("no work")
    };
    create(&mut store, &wisp);
    for (relic, status) in made.iter_mut().zip([
        RelicStatus::Closed,
        RelicStatus::Closed,
        RelicStatus::Blocked,
    ]) {
        relic.status = status;
        let changed = relic.clone();
        run(&mut store, move |txn| txn.put_relic(&changed)).unwrap();
    }
    // The same once more changes nothing, and an undone change neither.
    let same = made[0].clone();
    run(&mut store, move |txn| txn.put_relic(&same)).unwrap();
    let mut undone = made[3].clone();
    undone.status = RelicStatus::Closed;
    let refused = run(&mut store, move |txn| {
        txn.put_relic(&undone)?;
        Err::<(), _>(StoreError::Conflict("no".into()))
    });
    assert!(refused.is_err());
    let gt = |status, count| ("gt".to_owned(), status, count);
    let mut counts = run(&mut store, |txn| txn.task_counts()).unwrap();
    counts.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    assert_eq!(
        counts,
        [
            gt(RelicStatus::Open, 3),
            gt(RelicStatus::Blocked, 1),
            gt(RelicStatus::Closed, 2),
            ("other".to_owned(), RelicStatus::Open, 1),
        ]
    );
}

#[test]
fn facts_are_listed_by_the_begin_of_their_keys() {
    let mut store = store();
    run(&mut store, |txn| {
        for key in ["stal", "stall", "stall/a", "stall/é", "stall0", "wait/a"] {
            txn.set(key, Some(key))?;
        }
        Ok(())
    })
    .unwrap();
    let found = run(&mut store, |txn| txn.key_values_under("stall/")).unwrap();
    let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["stall/a", "stall/é"]);
}
