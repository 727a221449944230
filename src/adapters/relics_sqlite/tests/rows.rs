//! Tests of relics, incarnations, hooks, salvage, identity chains, facts.

use rusqlite::ffi;

use super::*;
use crate::domain::ids::Incarnation;
use crate::domain::nuke::CleanupStatus;
use crate::domain::relic::{Completion, DoneIntent, Hook, RelicStatus};
use crate::domain::saved_work::SavedWork;
use crate::ports::relics::{RelicFilter, SalvageEntry};

/// Returns the cost of an operation: steps of SQLite's machine, and rows that are read without an index.
pub(super) fn cost(store: &mut SqliteRelics, act: impl FnOnce(&mut SqliteRelics)) -> (i32, i32) {
    store.conn.flush_prepared_statement_cache();
    act(store);
    let (mut steps, mut scanned) = (0, 0);
    let mut statement = std::ptr::null_mut();
    loop {
        // SAFETY: the connection is open, and its cache keeps the statements while they are read.
        unsafe {
            statement = ffi::sqlite3_next_stmt(store.conn.handle(), statement);
            if statement.is_null() {
                return (steps, scanned);
            }
            let of = |counter| ffi::sqlite3_stmt_status(statement, counter, 0);
            steps += of(ffi::SQLITE_STMTSTATUS_VM_STEP);
            scanned += of(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
        }
    }
}

#[test]
fn relic_costs_the_same_however_many_there_are() {
    let mut store = store();
    let needed = create(&mut store, &task("needed")).id;
    let whole = NewRelic {
        parent: Some(needed.clone()),
        deps: vec![needed.clone()],
        labels: vec!["a".into(), "b".into()],
        ..task("step")
    };
    create(&mut store, &whole);
    let make = |new: &NewRelic| {
        let new = new.clone();
        move |store: &mut SqliteRelics| drop(create(store, &new))
    };
    let of_few = [&task("few"), &whole].map(|new| cost(&mut store, make(new)));
    add_many(&store, &needed);
    let of_many = [&task("many"), &whole].map(|new| cost(&mut store, make(new)));
    assert_eq!(of_few, of_many);
    assert!(
        of_many
            .iter()
            .all(|(steps, scanned)| *steps > 20 && *scanned == 0)
    );
    let (steps, scanned) = cost(&mut store, |store| {
        let sql = "SELECT 1 FROM relics WHERE title = 'none'";
        let mut scan = store.conn.prepare_cached(sql).unwrap();
        assert!(!scan.exists([]).unwrap());
    });
    let few = i32::try_from(MANY).unwrap();
    assert!(steps > few && scanned >= few, "what is not flat is seen");
}

/// The number of relics among which one more is made.
const MANY: usize = 20_000;

/// Adds that many steps of a relic, each of which depends on it and has labels.
fn add_many(store: &SqliteRelics, parent: &RelicId) {
    let sql = format!(
        "WITH RECURSIVE step (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM step WHERE n < {MANY} + 999)
         INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, parent, created, reworks)
         SELECT id || '.' || n, prefix, number, n, kind, title, body, status, priority, id, created, 0
         FROM relics, step WHERE id = '{parent}';
         INSERT INTO relic_deps SELECT id, 0, parent FROM relics WHERE step >= 1000;
         INSERT INTO relic_labels SELECT id, 0, 'a' FROM relics WHERE step >= 1000;"
    );
    store.conn.execute_batch(&sql).unwrap();
    let count = "SELECT count(*) FROM relics";
    let count: usize = store.conn.query_row(count, [], |row| row.get(0)).unwrap();
    assert!(count > MANY);
}

#[test]
fn relics_are_numbered_per_prefix_and_steps_per_parent() {
    let mut store = store();
    assert_eq!(create(&mut store, &task("one")).id, id("gt-1"));
    let mr = NewRelic {
        kind: RelicKind::MergeRequest,
        ..task("two")
    };
    assert_eq!(create(&mut store, &mr).id, id("gt-2"));
    let other = NewRelic {
        prefix: "my-rig".into(),
        ..task("other")
    };
    assert_eq!(create(&mut store, &other).id, id("my-rig-1"));
    let step = NewRelic {
        parent: Some(id("gt-1")),
        ..task("step")
    };
    assert_eq!(create(&mut store, &step).id, id("gt-1.1"));
    assert_eq!(create(&mut store, &step).id, id("gt-1.2"));
    assert_eq!(create(&mut store, &task("three")).id, id("gt-3"));
    let bad = NewRelic {
        prefix: "../x".into(),
        ..task("bad")
    };
    conflict(run(&mut store, |txn| txn.create_relic(&bad)));
}

#[test]
fn a_relic_comes_back_as_it_was_put() {
    let mut store = store();
    create(&mut store, &task("first"));
    let new = NewRelic {
        labels: vec!["z".into(), "a".into()],
        deps: vec![id("gt-1")],
        priority: 3,
        ..task("second")
    };
    let mut relic = create(&mut store, &new);
    assert_eq!((relic.status, relic.priority), (RelicStatus::Open, 3));
    assert_eq!(run(&mut store, |txn| txn.relic(&relic.id)).unwrap(), relic);
    relic.status = RelicStatus::Deferred;
    relic.assignee = Some("horde/raiders/Toast".into());
    relic.raider = Some(toast());
    relic.until = Some(at("2026-05-01T10:00:00.123456Z"));
    relic.closed = Some(at("2026-05-02T10:00:00Z"));
    relic.branch = Some("raider/Toast/gt-2-1".into());
    relic.context = Some("it conflicted".into());
    relic.reworks = 2;
    relic.charge_failures = 1;
    relic.labels = vec!["b".into()];
    relic.deps = vec![];
    run(&mut store, |txn| txn.put_relic(&relic)).unwrap();
    assert_eq!(run(&mut store, |txn| txn.relic(&relic.id)).unwrap(), relic);
}

#[test]
fn relics_that_are_not_there_are_said_to_be_missing() {
    let mut store = store();
    let relic = create(&mut store, &task("one"));
    let missing = |kind, id: &str| StoreError::NotFound {
        kind,
        id: id.into(),
    };
    let gone = run(&mut store, |txn| txn.relic(&id("gt-9")));
    assert_eq!(gone, Err(missing("relic", "gt-9")));
    let put = Relic {
        id: id("gt-9"),
        ..relic
    };
    let gone = run(&mut store, |txn| txn.put_relic(&put));
    assert_eq!(gone, Err(missing("relic", "gt-9")));
    let new = NewRelic {
        deps: vec![id("gt-1"), id("gt-8")],
        ..task("two")
    };
    let gone = run(&mut store, |txn| txn.create_relic(&new));
    assert_eq!(gone, Err(missing("relic", "gt-8")));
    assert_eq!(
        create(&mut store, &task("two")).id,
        id("gt-2"),
        "no number was used up"
    );
    let gone = run(&mut store, |txn| txn.mr(&id("gt-1")));
    assert_eq!(gone, Err(missing("merge request", "gt-1")));
}

#[test]
fn dependency_cycle_is_refused() {
    let mut store = store();
    let mut first = create(&mut store, &task("one"));
    let second = create(
        &mut store,
        &NewRelic {
            deps: vec![id("gt-1")],
            ..task("two")
        },
    );
    create(
        &mut store,
        &NewRelic {
            deps: vec![second.id],
            ..task("three")
        },
    );
    first.deps = vec![id("gt-3")];
    let why = conflict(run(&mut store, |txn| txn.put_relic(&first)));
    assert_eq!(
        why,
        "gt-1 would depend on itself: gt-1 \u{2192} gt-3 \u{2192} gt-2 \u{2192} gt-1"
    );
    assert_eq!(
        run(&mut store, |txn| txn.relic(&id("gt-1"))).unwrap().deps,
        vec![]
    );
}

#[test]
fn lists_are_filtered_and_ordered_by_priority_age_and_number() {
    let mut store = store();
    run(&mut store, |txn| {
        for number in 1..=11 {
            let priority = if number == 11 { 5 } else { 0 };
            let labels = if number % 2 == 0 {
                vec!["even".into()]
            } else {
                vec![]
            };
            txn.create_relic(&NewRelic {
                priority,
                labels,
                ..task("t")
            })?;
        }
        let mut closed = txn.relic(&id("gt-4"))?;
        closed.status = RelicStatus::Closed;
        txn.put_relic(&closed)?;
        txn.create_relic(&NewRelic {
            prefix: "x".into(),
            kind: RelicKind::Wisp,
            ..task("w")
        })
    })
    .unwrap();
    let mut ids = |filter: RelicFilter| {
        let relics = run(&mut store, |txn| txn.relics(&filter)).unwrap();
        relics
            .iter()
            .map(|relic| relic.id.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let gt = RelicFilter {
        prefix: Some("gt".into()),
        ..Default::default()
    };
    assert_eq!(
        ids(gt),
        "gt-11 gt-1 gt-2 gt-3 gt-4 gt-5 gt-6 gt-7 gt-8 gt-9 gt-10"
    );
    let even = RelicFilter {
        status: Some(RelicStatus::Open),
        label: Some("even".into()),
        ..Default::default()
    };
    assert_eq!(ids(even), "gt-2 gt-6 gt-8 gt-10");
    assert_eq!(
        ids(RelicFilter {
            kind: Some(RelicKind::Wisp),
            ..Default::default()
        }),
        "x-1"
    );
}

#[test]
fn incarnations_count_per_slot() {
    let mut store = store();
    let (toast, nux) = (toast(), nux());
    let last = run(&mut store, |txn| txn.incarnation(&toast)).unwrap();
    assert_eq!(last, Incarnation(0));
    for number in 1..=3 {
        let next = run(&mut store, |txn| txn.next_incarnation(&toast)).unwrap();
        assert_eq!(next, Incarnation(number));
    }
    let next = run(&mut store, |txn| txn.next_incarnation(&nux)).unwrap();
    assert_eq!(next, Incarnation(1));
    let last = run(&mut store, |txn| txn.incarnation(&toast)).unwrap();
    assert_eq!(last, Incarnation(3));
}

pub(super) fn hook(raider: RaiderId, relic: &str) -> Hook {
    Hook {
        charged_at: at("2026-05-01T10:00:00Z"),
        ..records::hook(&raider, &id(relic))
    }
}

#[test]
fn a_hook_ties_one_raider_to_one_relic() {
    let mut store = store();
    let mut first = hook(toast(), "gt-1");
    let gone = run(&mut store, |txn| txn.put_hook(&first));
    assert!(matches!(gone, Err(StoreError::NotFound { .. })));
    create(&mut store, &task("one"));
    create(&mut store, &task("two"));
    run(&mut store, |txn| txn.put_hook(&first)).unwrap();
    let taken = run(&mut store, |txn| txn.put_hook(&hook(nux(), "gt-1")));
    assert_eq!(conflict(taken), "gt-1 is hooked to horde/raiders/Toast");
    run(&mut store, |txn| txn.put_hook(&hook(nux(), "gt-2"))).unwrap();
    first.done = Some(DoneIntent {
        exit: Completion::Deferred,
        head: oid('b'),
        cleanup_status: Some(CleanupStatus::Clean),
        mismatch: None,
        no_change: true,
        wants_review: true,
        until: Some(at("2026-06-01T00:00:00Z")),
        reason: Some("later".into()),
        at: at("2026-05-01T11:00:00Z"),
    });
    run(&mut store, |txn| txn.put_hook(&first)).unwrap();
    let (of_raider, of_relic) = run(&mut store, |txn| {
        Ok((txn.hook(&toast())?, txn.hook_of_relic(&id("gt-1"))?))
    })
    .unwrap();
    assert_eq!(of_raider, Some(first.clone()));
    assert_eq!(of_relic, Some(first.clone()));
    let all = run(&mut store, |txn| txn.hooks(None)).unwrap();
    assert_eq!(all.len(), 2);
    let rig = run(&mut store, |txn| txn.hooks(Some(&toast().rig))).unwrap();
    assert_eq!(rig, [first]);
    let mut drop = |n| run(&mut store, |txn| txn.drop_hook(&toast(), Incarnation(n))).unwrap();
    assert!(!drop(2), "another incarnation's hook stays");
    assert!(drop(1));
    assert!(!drop(1));
    assert_eq!(run(&mut store, |txn| txn.hook(&toast())).unwrap(), None);
}

#[test]
fn salvage_entries_come_back_the_oldest_first() {
    let mut store = store();
    let entry = |id: &str, created: &str| SalvageEntry {
        id: id.into(),
        rig: toast().rig,
        raider: toast().name,
        incarnation: Incarnation(1),
        relic: Some(super::id("gt-1")),
        reason: "operator".into(),
        created: at(created),
        refs: vec!["refs/horde/salvage/horde/Toast/1/head".into()],
        bytes: 1 << 40,
        ignored: vec!["target/".into()],
        work: Some(SavedWork {
            head: Some(oid('a')),
            commits: Some(2),
            ..SavedWork::default()
        }),
    };
    let newer = entry("horde-Toast-1", "2026-05-02T00:00:00Z");
    let older = entry("horde-Toast-2", "2026-05-01T00:00:00Z");
    run(&mut store, |txn| {
        txn.put_salvage(&newer)?;
        txn.put_salvage(&older)?;
        txn.put_salvage(&older)
    })
    .unwrap();
    assert_eq!(
        run(&mut store, |txn| txn.salvages()).unwrap(),
        [older, newer]
    );
}

#[test]
fn facts_are_kept_and_forgotten() {
    let mut store = store();
    let get = |store: &mut SqliteRelics| run(store, |txn| txn.get("cursor")).unwrap();
    assert_eq!(get(&mut store), None);
    for value in [Some("1"), Some("2"), None, None] {
        run(&mut store, |txn| txn.set("cursor", value)).unwrap();
        assert_eq!(get(&mut store).as_deref(), value);
    }
}

#[test]
fn runs_of_automations_are_recorded_listed_and_bounded() {
    use crate::domain::automation::{AutomationId, HISTORY, Mark, RunState};
    use crate::domain::cause::Cause;
    let mut store = store();
    let tidy: AutomationId = "horde/tidy".parse().unwrap();
    let other: AutomationId = "tidy".parse().unwrap();
    run(&mut store, |txn| txn.begin_run(&other, Cause::Cron, None)).unwrap();
    for _ in 0..HISTORY + 5 {
        let mut done = run(&mut store, |txn| {
            txn.begin_run(&tidy, Cause::Event, Some(7))
        })
        .unwrap();
        assert_eq!((done.state, done.ended), (RunState::Running, None));
        done.state = RunState::Failed;
        done.ended = Some(done.started);
        done.end = Some(Cause::Timeout);
        (done.code, done.signal, done.attempts) = (Some(1), Some(9), 3);
        done.tail = "so far".into();
        run(&mut store, |txn| txn.put_run(&done)).unwrap();
        let newest = run(&mut store, |txn| txn.runs(Some(&tidy), 1)).unwrap();
        assert_eq!(newest, [done]);
    }
    let all = run(&mut store, |txn| txn.runs(Some(&tidy), 1000)).unwrap();
    assert_eq!(all.len(), HISTORY);
    assert!(all.is_sorted_by_key(|run| std::cmp::Reverse(run.id)));
    let open = run(&mut store, |txn| txn.open_runs()).unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].automation, other);

    assert_eq!(run(&mut store, |txn| txn.mark(&tidy)).unwrap(), None);
    let away: AutomationId = "away".parse().unwrap();
    for (automation, disabled) in [(&tidy, false), (&other, false), (&away, true)] {
        let mark = Mark {
            automation: automation.clone(),
            gate: "event relic.*".into(),
            disabled,
            slots: at("2026-05-01T10:00:00.123456Z"),
            cursor: 12,
        };
        run(&mut store, |txn| txn.put_mark(&mark)).unwrap();
        let back = run(&mut store, |txn| txn.mark(automation)).unwrap();
        assert_eq!(back, Some(mark));
    }
    run(&mut store, |txn| {
        txn.keep_marks(std::slice::from_ref(&tidy))
    })
    .unwrap();
    assert!(run(&mut store, |txn| txn.mark(&tidy)).unwrap().is_some());
    assert!(run(&mut store, |txn| txn.mark(&other)).unwrap().is_none());
    // An operator's mark also holds for an agent that is away for a while.
    assert!(run(&mut store, |txn| txn.mark(&away)).unwrap().is_some());
}
