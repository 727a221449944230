//! Tests of savepoints, refused commits and recovery.

use serde_json::json;

use super::*;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::ports::relics::Committed;
use crate::ports::relics::EventFilter;
use crate::testing::eventually;

fn event(n: usize) -> NewEvent {
    NewEvent::new(EventType::RelicCreated, format!("gt-{n}"), Cause::Operator)
        .with(json!({"filler": "x".repeat(2000)}))
}

fn count(store: &mut SqliteRelics) -> usize {
    run(store, |txn| txn.events(&EventFilter::default()))
        .unwrap()
        .len()
}

/// Journals until the store refuses. Returns the number of written events, and the error.
fn fill(store: &mut SqliteRelics) -> (usize, StoreError) {
    let before = count(store);
    for n in 0..10_000 {
        if let Err(refused) = run(store, |txn| txn.record(&event(n))) {
            assert_eq!(count(store), before + n, "a refused commit leaves nothing");
            return (n, refused);
        }
    }
    panic!("the store never got full");
}

#[test]
fn a_failed_job_rolls_back_its_own_writes_only() {
    let mut store = store();
    let mut good = |txn: &mut dyn Txn| {
        txn.create_relic(&task("kept"))?;
        txn.record(&event(1)).map(|_| ())
    };
    let mut bad = |txn: &mut dyn Txn| {
        let relic = txn.create_relic(&task("lost"))?;
        assert_eq!(relic.id, id("gt-2"), "it sees what the job before it wrote");
        txn.record(&event(2))?;
        Err(StoreError::Conflict("no".into()))
    };
    let mut last = |txn: &mut dyn Txn| {
        assert!(txn.relic(&id("gt-2")).is_err());
        txn.create_relic(&task("kept too"))?;
        txn.record(&event(3)).map(|_| ())
    };
    let Committed {
        results, events, ..
    } = store
        .commit(&mut [&mut good, &mut bad, &mut last], Durability::Full)
        .unwrap();
    assert_eq!(
        results,
        [Ok(()), Err(StoreError::Conflict("no".into())), Ok(())]
    );
    let seen: Vec<_> = events.iter().map(|e| (e.seq, e.subject.as_str())).collect();
    assert_eq!(
        seen,
        [(1, "gt-1"), (2, "gt-3")],
        "no gap where the failed one was"
    );
    assert_eq!(
        run(&mut store, |txn| txn.relic(&id("gt-2"))).unwrap().title,
        "kept too"
    );
}

#[test]
fn a_job_that_panics_takes_the_commit_with_it_and_not_the_store() {
    let mut store = store();
    let crash = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut write = |txn: &mut dyn Txn| txn.create_relic(&task("lost")).map(|_| ());
        let mut boom = |_: &mut dyn Txn| panic!("a bug");
        store.commit(&mut [&mut write, &mut boom], Durability::Full)
    }));
    assert!(crash.is_err());
    assert_eq!(create(&mut store, &task("first")).id, id("gt-1"));
}

#[test]
fn a_full_store_refuses_and_recovers_without_reopening() {
    let dir = crate::testing::scratch();
    let path = dir.path().join("relics.db");
    let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
    let limit = |store: &SqliteRelics, pages: u32| {
        store
            .conn
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| {
                row.get::<_, u32>(0)
            })
            .unwrap()
    };
    limit(&store, 120);
    let (written, refused) = fill(&mut store);
    assert!(written > 10, "only {written} events fitted");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    limit(&store, 100_000);
    let seq = run(&mut store, |txn| txn.record(&event(0))).unwrap();
    assert_eq!(
        seq,
        written as u64 + 1,
        "no number was lost to the refused ones"
    );
}

#[test]
fn a_refusal_that_a_job_swallows_still_fails_the_whole_commit() {
    let mut store = store();
    store
        .conn
        .pragma_update(None, "max_page_count", 60)
        .unwrap();
    let (_, _) = fill(&mut store);
    let before = count(&mut store);
    let mut small = |txn: &mut dyn Txn| txn.set("k", Some("v"));
    let mut swallows = |txn: &mut dyn Txn| {
        for n in 0..10 {
            // The point of the test: a job that carries on after a refusal.
            let _refused = txn.record(&event(n));
        }
        Ok(())
    };
    let answer = store.commit(&mut [&mut small, &mut swallows], Durability::Full);
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
    assert_eq!(count(&mut store), before);
    assert_eq!(run(&mut store, |txn| txn.get("k")).unwrap(), None);
}

#[test]
fn a_store_that_may_only_be_read_is_unavailable_for_writes_and_answers_reads() {
    let mut store = store();
    create(&mut store, &task("one"));
    store.conn.pragma_update(None, "query_only", true).unwrap();
    let refused = run(&mut store, |txn| txn.create_relic(&task("two")));
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(run(&mut store, |txn| txn.relic(&id("gt-1"))).is_ok());
    store.conn.pragma_update(None, "query_only", false).unwrap();
    assert_eq!(create(&mut store, &task("two")).id, id("gt-2"));
}

/// Runs `test` with a small file system mounted that only this thread sees. Mounting needs privileges: without them
/// the test is skipped with a message.
fn on_a_small_disk(test: impl FnOnce(&std::path::Path) + Send) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    let dir = crate::testing::scratch();
    let disk = dir.path();
    let none = None::<&str>;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mounted = unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)
                .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
                .and_then(|()| {
                    let flags = MsFlags::empty();
                    mount(Some("tmpfs"), disk, Some("tmpfs"), flags, Some("size=1m"))
                });
            match mounted {
                Ok(()) => test(disk),
                Err(errno) => eprintln!("skipped: a disk cannot be mounted here: {errno}"),
            }
        });
    });
}

#[test]
fn a_really_full_disk_refuses_and_recovers_when_there_is_room_again() {
    on_a_small_disk(|disk| {
        let path = disk.join("relics.db");
        let ballast = disk.join("ballast");
        std::fs::write(&ballast, vec![0; 400 * 1024]).unwrap();
        let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
        let (written, refused) = fill(&mut store);
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
        std::fs::remove_file(&ballast).unwrap();
        assert_eq!(
            run(&mut store, |txn| txn.record(&event(0))).unwrap(),
            written as u64 + 1
        );
        drop(store);
        let mut again = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
        assert_eq!(count(&mut again), written + 1);
    });
}

#[test]
fn a_disk_that_turns_read_only_refuses_and_recovers() {
    use nix::mount::{MsFlags, mount};
    on_a_small_disk(|disk| {
        // A process that another test spawns at this moment has a copy of every open file until it executes its
        // program.
        let remount = |flags| {
            let none = None::<&str>;
            eventually("no other process has a file open", || {
                let done = mount(none, disk, none, MsFlags::MS_REMOUNT | flags, none);
                (done != Err(nix::errno::Errno::EBUSY)).then_some(done)
            })
        };
        let path = disk.join("relics.db");
        let store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
        drop(store);
        remount(MsFlags::MS_RDONLY).unwrap();
        let refused = SqliteRelics::open(&path, Arc::new(SystemClock::new())).err();
        assert!(
            matches!(refused, Some(StoreError::Unavailable(_))),
            "{refused:?}"
        );
        remount(MsFlags::empty()).unwrap();
        let mut store = SqliteRelics::open(&path, Arc::new(SystemClock::new())).unwrap();
        assert_eq!(create(&mut store, &task("one")).id, id("gt-1"));
    });
}
