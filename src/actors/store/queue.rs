//! The writer's queue: jobs and notes in the order of arrival. Shared by all handles and by successive writers.
#![expect(
    clippy::disallowed_methods,
    reason = "the writer is a thread, and its waits know only the real clock"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::broadcast;

use super::about;
use crate::domain::event::{Event, NewEvent};
use crate::ports::relics::{StoreError, Txn};

use super::super::boards::Changes;
use super::super::metrics::Metrics;
use super::writer::Alarm;

/// Maximum number of jobs in a commit.
pub(super) const BATCH: usize = 256;
/// Maximum number of notes kept while the store cannot write.
pub(super) const NOTES: usize = 10_000;
/// Number of events after which a slow subscriber loses the oldest.
const FOLLOW: usize = 4096;

/// A job with a waiting caller.
pub(super) trait Request: Send {
    /// Runs the job in a savepoint. May be called again when the commit was refused.
    fn run(&mut self, txn: &mut dyn Txn) -> Result<(), StoreError>;
    /// Returns the text of the job's panic, if it panicked.
    fn panicked(&self) -> Option<String>;
    /// Answers the caller.
    fn answer(self: Box<Self>, result: Result<(), StoreError>);
}

/// An entry of the queue.
pub(super) enum Item {
    /// A job.
    Job(Box<dyn Request>),
    /// Consecutive notes.
    Notes(VecDeque<NewEvent>),
}

impl Item {
    /// Runs it, as one job of a commit.
    pub(super) fn run(&mut self, txn: &mut dyn Txn) -> Result<(), StoreError> {
        match self {
            Self::Job(request) => request.run(txn),
            Self::Notes(events) => events
                .iter()
                .try_for_each(|event| about::record(txn, event).map(|_| ())),
        }
    }
}

/// The queue.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    ready: Condvar,
    events: broadcast::Sender<Arc<Event>>,
    pub(super) metrics: Metrics,
    /// Noted after each commit that wrote, before its callers are answered.
    pub(super) changes: Changes,
    /// Held by a writer for its whole life, so that there is one at a time; holds the raised alarm.
    pub(super) writer: Mutex<Option<Alarm>>,
}

struct Waiting {
    items: VecDeque<Item>,
    jobs: usize,
    notes: usize,
    dropped: u64,
    /// Why the store cannot write; notes are limited then.
    degraded: Option<String>,
    closed: bool,
    /// The writer that may take entries.
    turn: u64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                jobs: 0,
                notes: 0,
                dropped: 0,
                degraded: None,
                closed: false,
                turn: 0,
            }),
            ready: Condvar::new(),
            events: broadcast::channel(FOLLOW).0,
            metrics: Metrics::new(),
            changes: Changes::default(),
            writer: Mutex::new(None),
        }
    }

    /// No code panics while it holds the lock, so the guarded value is consistent even if poisoned.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, job: Box<dyn Request>) {
        let mut waiting = self.waiting();
        if waiting.closed {
            std::mem::drop(waiting);
            job.answer(Err(stopped()));
            return;
        }
        waiting.items.push_back(Item::Job(job));
        waiting.jobs += 1;
        self.ready.notify_all();
    }

    pub(super) fn journal(&self, events: Vec<NewEvent>) {
        let mut waiting = self.waiting();
        if waiting.closed {
            tracing::warn!(
                count = events.len(),
                "events after the stop of the store are dropped"
            );
            return;
        }
        waiting.notes += events.len();
        match waiting.items.back_mut() {
            Some(Item::Notes(last)) => last.extend(events),
            Some(Item::Job(_)) | None => waiting.items.push_back(Item::Notes(events.into())),
        }
        waiting.drop_oldest();
        self.ready.notify_all();
    }

    /// Puts back notes that could not be committed, before all other entries.
    pub(super) fn put_back(&self, notes: VecDeque<NewEvent>) {
        let mut waiting = self.waiting();
        waiting.notes += notes.len();
        waiting.items.push_front(Item::Notes(notes));
        waiting.drop_oldest();
    }

    /// Makes the caller the only writer; an earlier one ends at its next [`Queue::take`].
    pub(super) fn open(&self) -> u64 {
        let mut waiting = self.waiting();
        waiting.closed = false;
        waiting.turn += 1;
        self.ready.notify_all();
        waiting.turn
    }

    /// Closes the queue: new jobs are refused. The writer ends when the queue is written.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.ready.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiting().closed
    }

    /// Waits for entries: everything queued, with at most [`BATCH`] jobs. While the store cannot write, notes alone do
    /// not cause a try before `retry`; at that time it is tried even with an empty queue. `None` ends the writer.
    pub(super) fn take(&self, turn: u64, retry: Option<Instant>) -> Option<Vec<Item>> {
        let mut waiting = self.waiting();
        loop {
            if waiting.turn != turn {
                return None;
            }
            let now = Instant::now();
            let due = retry.is_none_or(|retry| retry <= now);
            if waiting.jobs > 0
                || waiting.closed
                || due && (retry.is_some() || !waiting.items.is_empty())
            {
                let last_words = waiting.closed && waiting.items.is_empty();
                return (!last_words).then(|| waiting.drain());
            }
            waiting = match retry {
                Some(retry) => {
                    self.ready
                        .wait_timeout(waiting, retry - now)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .ready
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Returns true while something is queued.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn has_entries(&self) -> bool {
        !self.waiting().items.is_empty()
    }

    /// Returns what is queued, with at most [`BATCH`] jobs.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn take_queued(&self) -> Vec<Item> {
        self.waiting().drain()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting().items.len()
    }

    /// Sets why the store cannot write, or that it can.
    pub(super) fn set_degraded(&self, degraded: Option<String>) {
        self.waiting().degraded = degraded;
    }

    /// Returns why the store cannot write.
    pub(super) fn degraded(&self) -> Option<String> {
        self.waiting().degraded.clone()
    }

    /// Returns the number of notes dropped since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.waiting().dropped)
    }

    /// Counts notes as dropped.
    pub(super) fn count_dropped(&self, notes: u64) {
        self.waiting().dropped += notes;
    }

    /// Answers the jobs that a writer left behind when it ended for good.
    pub(super) fn abandon(&self) {
        let (items, dropped) = {
            let mut waiting = self.waiting();
            waiting.dropped += waiting.notes as u64;
            (std::mem::take(&mut waiting.items), waiting.dropped)
        };
        for item in items {
            if let Item::Job(job) = item {
                job.answer(Err(stopped()));
            }
        }
        if dropped > 0 {
            tracing::error!(
                dropped,
                "the store could not write these events before it stopped; they are lost"
            );
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.events.subscribe()
    }

    /// Counts a committed event and sends it to all subscribers.
    pub(super) fn publish(&self, event: Event) {
        self.metrics.count(&event);
        // An error means that there is no subscriber.
        let _followers = self.events.send(Arc::new(event));
    }
}

impl Waiting {
    fn drain(&mut self) -> Vec<Item> {
        let mut taken = Vec::new();
        let mut jobs = 0;
        while jobs < BATCH
            && let Some(item) = self.items.pop_front()
        {
            match &item {
                Item::Job(_) => jobs += 1,
                Item::Notes(notes) => self.notes -= notes.len(),
            }
            taken.push(item);
        }
        self.jobs -= jobs;
        taken
    }

    fn drop_oldest(&mut self) {
        if self.degraded.is_none() {
            return;
        }
        let mut surplus = self.notes.saturating_sub(NOTES);
        self.notes -= surplus;
        self.dropped += surplus as u64;
        for item in &mut self.items {
            if let Item::Notes(notes) = item {
                let here = surplus.min(notes.len());
                notes.drain(..here);
                surplus -= here;
            }
            if surplus == 0 {
                break;
            }
        }
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store is stopped".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cause::Cause;
    use crate::domain::event::EventType;

    fn event(n: usize) -> NewEvent {
        NewEvent::new(EventType::AgentStarted, n, Cause::Charged)
    }

    fn subjects(items: Vec<Item>) -> Vec<String> {
        let notes = items.into_iter().filter_map(|item| match item {
            Item::Notes(notes) => Some(notes),
            Item::Job(_) => None,
        });
        notes.flatten().map(|event| event.subject).collect()
    }

    #[test]
    fn while_the_store_cannot_write_the_oldest_notes_are_dropped_and_counted() {
        let queue = Queue::new();
        let turn = queue.open();
        for n in 0..NOTES + 5 {
            queue.journal(vec![event(n)]);
        }
        let kept = subjects(queue.take(turn, None).unwrap());
        assert_eq!(kept.len(), NOTES + 5, "a burst alone loses nothing");
        queue.set_degraded(Some("full".to_owned()));
        for n in 0..NOTES + 5 {
            queue.journal(vec![event(n)]);
        }
        let taken = queue.take(turn, None).unwrap();
        let mut old = VecDeque::new();
        for item in taken {
            if let Item::Notes(notes) = item {
                old.extend(notes);
            }
        }
        assert_eq!((old.len(), old[0].subject.as_str()), (NOTES, "5"));
        queue.journal(vec![event(77_777), event(88_888)]);
        queue.put_back(old);
        assert_eq!(queue.take_dropped(), 7);
        assert_eq!(queue.take_dropped(), 0);
        let kept = subjects(queue.take(turn, None).unwrap());
        assert_eq!((kept.len(), kept[0].as_str()), (NOTES, "7"));
        assert_eq!(kept[NOTES - 2..], ["77777", "88888"]);
    }

    #[test]
    fn while_the_store_cannot_write_a_retry_comes_by_itself() {
        let queue = Queue::new();
        let turn = queue.open();
        let retry = Instant::now();
        assert!(queue.take(turn, Some(retry)).unwrap().is_empty());
        queue.journal(vec![event(1)]);
        let soon = Instant::now() + std::time::Duration::from_millis(20);
        assert_eq!(subjects(queue.take(turn, Some(soon)).unwrap()), ["1"]);
        assert!(Instant::now() >= soon, "notes alone do not hurry it");
    }

    #[test]
    fn a_new_writer_ends_the_one_before() {
        let queue = Queue::new();
        let (first, second) = (queue.open(), queue.open());
        queue.journal(vec![event(1)]);
        assert!(queue.take(first, None).is_none());
        assert_eq!(subjects(queue.take(second, None).unwrap()), ["1"]);
        queue.journal(vec![event(2)]);
        queue.close();
        queue.journal(vec![event(3)]);
        assert_eq!(subjects(queue.take(second, None).unwrap()), ["2"]);
        assert!(queue.take(second, None).is_none());
    }
}
