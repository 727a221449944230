//! The store actor under load, under panics, on a store that cannot write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::JoinHandle;

use super::in_memory::share;
use super::*;
use crate::adapters::clock::{PausedClock, SystemClock};
use crate::adapters::relics_sqlite::SqliteRelics;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::ports::relics::{Committed, Durability, EventFilter, Job, StoreError, Txn};

const DEADLINE: Duration = Duration::from_secs(20);

fn event(n: usize) -> NewEvent {
    NewEvent::new(EventType::AgentStarted, n, Cause::Charged)
}

fn sqlite() -> SqliteRelics {
    SqliteRelics::in_memory(Arc::new(SystemClock::new())).unwrap()
}

/// Restarts the store actor whenever it fails, as the root does.
struct Root;

impl Actor for Root {
    type Msg = ();
    type State = (Args, Arc<AtomicUsize>);
    type Arguments = (Args, Arc<AtomicUsize>);

    async fn pre_start(
        &self,
        me: ActorRef<()>,
        (args, crashes): Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Actor::spawn_linked(None, StoreActor, args.clone(), me.get_cell()).await?;
        Ok((args, crashes))
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        (args, crashes): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(..) = event {
            crashes.fetch_add(1, Ordering::SeqCst);
            Actor::spawn_linked(None, StoreActor, args.clone(), me.get_cell()).await?;
        }
        Ok(())
    }
}

/// A running store: its handle, its root, how often it crashed.
struct Running {
    handle: StoreHandle,
    root: ActorRef<()>,
    crashes: Arc<AtomicUsize>,
}

async fn start(open: Open) -> Running {
    let handle = StoreHandle::new();
    let crashes = Arc::new(AtomicUsize::new(0));
    let args = Args {
        handle: handle.clone(),
        open,
    };
    let (root, _) = Actor::spawn(None, Root, (args, Arc::clone(&crashes)))
        .await
        .unwrap();
    Running {
        handle,
        root,
        crashes,
    }
}

impl Running {
    /// Stops store and root, and waits for it.
    async fn stop(self) {
        self.root.stop_children_and_wait(None, Some(DEADLINE)).await;
        self.root.stop_and_wait(None, Some(DEADLINE)).await.unwrap();
    }
}

async fn subjects(handle: &StoreHandle) -> Vec<String> {
    let all = handle
        .run(|txn| txn.events(&EventFilter::default()))
        .await
        .unwrap();
    all.into_iter().map(|event| event.subject).collect()
}

/// A job that keeps the writer busy until it is let go. It is in a commit of its own.
async fn busy(handle: &StoreHandle) -> (mpsc::Sender<()>, JoinHandle<Result<(), StoreError>>) {
    let (go, wait) = mpsc::channel();
    let (running, started) = oneshot::channel();
    let (wait, mut running) = (Mutex::new(wait), Some(running));
    let handle = handle.clone();
    let job = tokio::spawn(async move {
        let keep = move |_: &mut dyn Txn| {
            if let Some(running) = running.take() {
                running.send(()).unwrap();
            }
            wait.lock().unwrap().recv_timeout(DEADLINE).unwrap();
            Ok(())
        };
        handle.run(keep).await
    });
    started.await.unwrap();
    (go, job)
}

/// Counts commits, and can be told to refuse them.
struct Moody {
    store: SqliteRelics,
    commits: Arc<AtomicUsize>,
    /// Commits of more jobs than this are refused.
    room: Arc<AtomicUsize>,
}

impl Relics for Moody {
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        if jobs.len() > self.room.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("no room".into()));
        }
        self.store.commit(jobs, durability)
    }
}

fn moody(room: usize) -> (Open, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (commits, room) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(room)),
    );
    let store = Moody {
        store: sqlite(),
        commits: Arc::clone(&commits),
        room: Arc::clone(&room),
    };
    (share(store), commits, room)
}

#[tokio::test]
async fn jobs_answer_and_their_events_are_followed_in_order() {
    let store = start(share(sqlite())).await;
    let mut follower = store.handle.subscribe();
    let seq = store.handle.run(|txn| txn.record(&event(1))).await.unwrap();
    store.handle.journal(vec![event(2), event(3)]);
    let undone: Result<(), _> = store
        .handle
        .run(|txn| {
            txn.record(&event(99))?;
            Err(StoreError::Conflict("no".into()))
        })
        .await;
    assert_eq!(undone, Err(StoreError::Conflict("no".into())));
    store.handle.run(|txn| txn.record(&event(4))).await.unwrap();
    assert_eq!(seq, 1);
    for n in 1..=4 {
        let event = follower.recv().await.unwrap();
        assert_eq!(
            (event.seq, event.subject.as_str()),
            (n, n.to_string().as_str())
        );
    }
    assert_eq!(subjects(&store.handle).await, ["1", "2", "3", "4"]);
    assert_eq!(store.crashes.load(Ordering::SeqCst), 0);
    store.stop().await;
}

#[tokio::test]
async fn queued_jobs_are_committed_together() {
    let (open, commits, _) = moody(usize::MAX);
    let store = start(open).await;
    let (go, first) = busy(&store.handle).await;
    let jobs: Vec<_> = (0..300)
        .map(|n| {
            let handle = store.handle.clone();
            tokio::spawn(async move { handle.run(move |txn| txn.record(&event(n))).await })
        })
        .collect();
    until(|| store.handle.queue().len() == 300).await;
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    for job in jobs {
        job.await.unwrap().unwrap();
    }
    assert_eq!(commits.load(Ordering::SeqCst), 3, "one, then 256, then 44");
    store.stop().await;
}

#[tokio::test]
async fn a_panic_fails_its_own_job_and_restarts_the_actor_without_losing_others() {
    let store = start(share(sqlite())).await;
    let handle = store.handle.clone();
    let (go, first) = busy(&handle).await;
    let spawn = |n: usize| {
        let handle = handle.clone();
        tokio::spawn(async move {
            handle
                .run(move |txn| {
                    txn.record(&event(n))?;
                    assert!(n % 100 != 90, "bug {n}");
                    Ok(n)
                })
                .await
        })
    };
    let jobs: Vec<_> = (0..300).map(spawn).collect();
    until(|| handle.queue().len() == 300).await;
    handle.journal(vec![event(1000)]);
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    for (n, job) in jobs.into_iter().enumerate() {
        let answer = job.await.unwrap();
        if n % 100 == 90 {
            let said = format!("a job panicked: bug {n}");
            assert_eq!(answer, Err(StoreError::Failed(said)));
        } else {
            assert_eq!(answer, Ok(n));
        }
    }
    let kept = subjects(&handle).await;
    assert_eq!(kept.len(), 300 - 3 + 1);
    assert!(kept.contains(&"1000".to_owned()));
    let crashes = store.crashes.load(Ordering::SeqCst);
    assert_eq!(
        crashes, 2,
        "two panics in the first commit, one in the second"
    );
    store.stop().await;
}

#[tokio::test]
async fn a_store_that_panics_itself_is_opened_afresh() {
    struct Broken;
    impl Relics for Broken {
        fn commit(&mut self, _: &mut [Job<'_>], _: Durability) -> Result<Committed, StoreError> {
            panic!("the store itself")
        }
    }
    let opened = AtomicUsize::new(0);
    let good = share(sqlite());
    let open: Open = Arc::new(move || match opened.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(Box::new(Broken)),
        _ => good(),
    });
    let store = start(open).await;
    let lost = store.handle.run(|txn| txn.record(&event(1))).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(store.handle.run(|txn| txn.record(&event(2))).await, Ok(1));
    assert_eq!(store.crashes.load(Ordering::SeqCst), 1);
    store.stop().await;
}

#[tokio::test]
async fn a_store_that_cannot_write_refuses_jobs_keeps_notes_and_recovers() {
    let (open, _, room) = moody(0);
    let store = start(open).await;
    let handle = &store.handle;
    handle.journal(vec![event(1)]);
    let refused = handle.run(|txn| txn.record(&event(99))).await;
    assert_eq!(refused, Err(StoreError::Unavailable("no room".into())));
    handle.journal(vec![event(2), event(3)]);
    let refused = handle.run(|txn| txn.record(&event(99))).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    room.store(usize::MAX, Ordering::SeqCst);
    handle.run(|txn| txn.record(&event(4))).await.unwrap();
    assert_eq!(subjects(handle).await, ["store", "1", "2", "3", "4"]);
    let degraded = EventFilter {
        kind: Some("store.degraded".into()),
        ..EventFilter::default()
    };
    let alarms = handle.run(move |txn| txn.events(&degraded)).await.unwrap();
    assert_eq!(alarms.len(), 1, "one alarm for all refusals");
    assert_eq!(
        alarms[0].data["error"],
        "the relic store cannot write: no room"
    );
    assert_eq!(alarms[0].data["dropped"], 0);
    assert_eq!(store.crashes.load(Ordering::SeqCst), 0);
    store.stop().await;
}

#[tokio::test]
async fn a_refused_batch_is_tried_one_by_one() {
    let (open, _, _) = moody(1);
    let store = start(open).await;
    let (go, first) = busy(&store.handle).await;
    let jobs: Vec<_> = (0..5)
        .map(|n| {
            let handle = store.handle.clone();
            tokio::spawn(async move { handle.run(move |txn| txn.record(&event(n))).await })
        })
        .collect();
    until(|| store.handle.queue().len() == 5).await;
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    for job in jobs {
        job.await.unwrap().unwrap();
    }
    assert_eq!(subjects(&store.handle).await.len(), 5);
    store.stop().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_tried_again_with_the_next_job() {
    let opened = AtomicUsize::new(0);
    let good = share(sqlite());
    let open: Open = Arc::new(move || match opened.fetch_add(1, Ordering::SeqCst) {
        0 => Err(StoreError::Failed("the file is damaged".into())),
        _ => good(),
    });
    let store = start(open).await;
    let refused = store.handle.run(|txn| txn.record(&event(1))).await;
    assert_eq!(
        refused,
        Err(StoreError::Failed("the file is damaged".into()))
    );
    assert!(store.handle.run(|txn| txn.record(&event(2))).await.is_ok());
    assert_eq!(subjects(&store.handle).await, ["store", "2"]);
    assert_eq!(store.crashes.load(Ordering::SeqCst), 0);
    store.stop().await;
}

#[tokio::test]
async fn stop_writes_queued_jobs_and_refuses_later_ones() {
    let (open, _, _) = moody(usize::MAX);
    let store = start(Arc::clone(&open)).await;
    let handle = store.handle.clone();
    let (go, first) = busy(&handle).await;
    let queued = {
        let handle = handle.clone();
        tokio::spawn(async move { handle.run(|txn| txn.record(&event(1))).await })
    };
    until(|| handle.queue().len() == 1).await;
    handle.journal(vec![event(2)]);
    let stopping = tokio::spawn(store.stop());
    until(|| handle.queue().is_closed()).await;
    let late = handle.run(|txn| txn.record(&event(3))).await;
    assert_eq!(
        late,
        Err(StoreError::Unavailable("the store is stopped".into()))
    );
    handle.journal(vec![event(4)]);
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap(), Ok(()));
    assert_eq!(queued.await.unwrap(), Ok(1));
    stopping.await.unwrap();
    // The same store, opened by the next daemon.
    let again = start(open).await;
    assert_eq!(subjects(&again.handle).await, ["1", "2"]);
    again.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_hang_on_notes_that_cannot_be_written() {
    let (open, _, _) = moody(0);
    let store = start(open).await;
    store.handle.journal(vec![event(1)]);
    let stopped = tokio::time::timeout(DEADLINE, store.stop()).await;
    assert!(stopped.is_ok());
}

#[tokio::test]
async fn jobs_wait_for_the_actor_to_be_started() {
    let handle = StoreHandle::new();
    let early = {
        let handle = handle.clone();
        tokio::spawn(async move { handle.run(|txn| txn.record(&event(1))).await })
    };
    until(|| handle.queue().len() == 1).await;
    let args = Args {
        handle,
        open: share(sqlite()),
    };
    let (actor, _) = Actor::spawn(None, StoreActor, args).await.unwrap();
    assert_eq!(early.await.unwrap(), Ok(1));
    actor.stop_and_wait(None, Some(DEADLINE)).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn paused_time_stands_still_while_a_job_runs() {
    let start = "2026-05-01T10:00:00Z".parse().unwrap();
    let clock = Arc::new(PausedClock::starting_at(start));
    let handle = StoreHandle::in_memory(clock);
    let slow = |txn: &mut dyn Txn| {
        // Long enough for a runtime with nothing to do to look for its next timer.
        let busy = std::time::Instant::now();
        while busy.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        Ok(txn.now())
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), handle.run(slow)).await;
    assert_eq!(answer.expect("time stood still").unwrap(), start);
    tokio::time::advance(Duration::from_secs(90)).await;
    let later = handle.run(|txn| Ok(txn.now())).await.unwrap();
    assert_eq!(later.to_string(), "2026-05-01T10:01:30Z");
}

/// Waits for the condition, giving way to everything else, for at most [`DEADLINE`].
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn until(mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "it never came true");
        tokio::task::yield_now().await;
    }
}
