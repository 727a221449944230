//! The writer: a thread that owns the store and commits everything queued at once.
#![expect(
    clippy::disallowed_methods,
    reason = "the writer is a thread, and its waits know only the real clock"
)]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType, NewEvent};
use crate::ports::relics::{Committed, Durability, Job, Relics, StoreError, Txn};

use super::Open;
use super::handle::panic_text;
use super::queue::{Item, Queue};

/// While the store cannot write, it is retried after this interval, or when a job arrives.
const RETRY: Duration = Duration::from_secs(1);

/// The failure of the store to write, and since when.
pub(super) struct Alarm {
    raised: Instant,
    retry: Instant,
    error: String,
}

/// A writer that has not started.
pub(super) struct Writer {
    queue: Arc<Queue>,
    turn: u64,
    open: Open,
    store: Option<Box<dyn Relics>>,
}

impl Writer {
    /// Creates the writer that has the turn from now on.
    pub(super) fn new(queue: Arc<Queue>, open: Open) -> Self {
        Self {
            turn: queue.open(),
            queue,
            open,
            store: None,
        }
    }

    /// Commits entries until the queue is closed and empty or another writer has the turn.
    ///
    /// # Errors
    /// The text of a panic: this writer's state can no longer be trusted.
    pub(super) fn run(mut self) -> Result<(), String> {
        let queue = Arc::clone(&self.queue);
        let mut alarm = queue.writer.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(items) = queue.take(self.turn, alarm.as_ref().map(|alarm| alarm.retry)) {
            let served = catch_unwind(AssertUnwindSafe(|| self.serve(items, &mut alarm)));
            let crash = match served {
                Ok(None) => continue,
                Ok(Some(panicked)) => panicked,
                Err(payload) => panic_text(payload.as_ref()),
            };
            // The store is closed before the next writer can open it.
            self.store = None;
            // After the queue is closed no other writer starts: this one finishes.
            if !queue.is_closed() {
                return Err(crash);
            }
        }
        Ok(())
    }

    /// Commits what is queued now.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn serve_queued(&mut self) {
        let items = self.queue.take_queued();
        if self.serve(items, &mut None).is_some() {
            self.store = None;
        }
    }

    /// Commits the entries, all at once if possible. Returns the text of a job's panic.
    fn serve(&mut self, mut items: Vec<Item>, alarm: &mut Option<Alarm>) -> Option<String> {
        self.clear(alarm);
        let jobs = items.iter().any(|item| matches!(item, Item::Job(_)));
        if let (Some(alarm), false) = (&alarm, jobs) {
            let error = StoreError::Unavailable(alarm.error.clone());
            let refused = items.into_iter().map(|item| (item, error.clone()));
            self.refuse(refused.collect());
            return None;
        }
        let durability = match jobs {
            true => Durability::Full,
            false => Durability::Behind,
        };
        let mut panicked = None;
        let mut refused = Vec::new();
        match self.commit(&mut items, durability) {
            Ok(results) => panicked = self.answer_jobs(items.into_iter().zip(results)),
            Err(error) if items.len() == 1 => {
                refused = items.into_iter().zip(Some(error)).collect();
            }
            // One by one, so that reads and jobs that still fit are not refused with the rest.
            Err(_) => {
                for mut item in items {
                    match self.commit(std::slice::from_mut(&mut item), durability) {
                        Ok(results) => {
                            let settled = self.answer_jobs(std::iter::once(item).zip(results));
                            panicked = panicked.or(settled);
                        }
                        Err(error) => refused.push((item, error)),
                    }
                }
            }
        }
        if let Some((_, error)) = refused.last() {
            self.raise(alarm, error);
            self.refuse(refused);
        }
        panicked
    }

    /// Makes one commit. Its events are published before any caller is answered.
    fn commit(
        &mut self,
        items: &mut [Item],
        durability: Durability,
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let mut jobs: Vec<_> = items
            .iter_mut()
            .map(|item| |txn: &mut dyn Txn| item.run(txn))
            .collect();
        let mut jobs: Vec<Job<'_>> = jobs.iter_mut().map(|job| job as Job<'_>).collect();
        self.commit_jobs(&mut jobs, durability)
    }

    fn commit_jobs(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let store = match &mut self.store {
            Some(store) => store,
            None => self.store.insert((self.open)()?),
        };
        match store.commit(jobs, durability) {
            Ok(Committed {
                results,
                events,
                wrote,
            }) => {
                if wrote {
                    self.queue.changes.note();
                }
                for event in events {
                    announce(&event);
                    self.queue.publish(event);
                }
                Ok(results)
            }
            Err(refused @ (StoreError::Unavailable(_) | StoreError::Locked(_))) => Err(refused),
            Err(broken) => {
                // Not for lack of room: the file is reopened before it is used again.
                self.store = None;
                Err(broken)
            }
        }
    }

    /// Answers the jobs of a commit. Returns the text of a job's panic.
    fn answer_jobs(
        &self,
        settled: impl Iterator<Item = (Item, Result<(), StoreError>)>,
    ) -> Option<String> {
        let mut panicked = None;
        for (item, result) in settled {
            match item {
                Item::Job(job) => {
                    panicked = panicked.or(job.panicked());
                    job.answer(result);
                }
                Item::Notes(notes) => {
                    if let Err(error) = result {
                        tracing::error!(
                            %error,
                            "the journal rejects these events; they are dropped and counted"
                        );
                        self.queue.count_dropped(notes.len() as u64);
                    }
                }
            }
        }
        panicked
    }

    /// Refuses the jobs, and keeps the notes for later; drops them when the store is stopping.
    fn refuse(&self, refused: Vec<(Item, StoreError)>) {
        let mut kept = VecDeque::new();
        for (item, error) in refused {
            match item {
                Item::Job(job) => job.answer(Err(error)),
                Item::Notes(notes) => kept.extend(notes),
            }
        }
        if self.queue.is_closed() {
            self.queue.count_dropped(kept.len() as u64);
        } else if !kept.is_empty() {
            self.queue.put_back(kept);
        }
    }

    /// Raises the alarm, once until it is cleared.
    fn raise(&self, alarm: &mut Option<Alarm>, error: &StoreError) {
        self.queue.metrics.store_refused();
        let retry = Instant::now() + RETRY;
        match alarm {
            Some(raised) => raised.retry = retry,
            None => {
                let kind = EventType::StoreDegraded.as_str();
                let data = json!({"error": error.to_string()});
                let cause = Cause::Internal.as_str();
                tracing::error!(target: "horde::journal", subject = SUBJECT, "type" = kind, cause, %data);
                self.queue.set_degraded(Some(error.to_string()));
                *alarm = Some(Alarm {
                    raised: Instant::now(),
                    retry,
                    error: error.to_string(),
                });
            }
        }
    }

    /// Tries to journal a raised alarm. If that succeeds and more room is left, the store works again; if the alarm
    /// itself took the last room, it would be raised again at once.
    fn clear(&mut self, alarm: &mut Option<Alarm>) {
        let Some(raised) = alarm else { return };
        if !matches!(
            self.commit_jobs(&mut [&mut take_room], Durability::Behind)
                .as_deref(),
            Ok([Ok(())])
        ) {
            raised.retry = Instant::now() + RETRY;
            return;
        }
        let dropped = self.queue.take_dropped();
        let data = json!({
            "error": raised.error,
            "seconds": raised.raised.elapsed().as_secs_f64(),
            "dropped": dropped,
        });
        let event = NewEvent::new(EventType::StoreDegraded, SUBJECT, Cause::Internal).with(data);
        let mut note = |txn: &mut dyn Txn| {
            give_room(txn)?;
            txn.record(&event).map(|_| ())
        };
        match self
            .commit_jobs(&mut [&mut note], Durability::Behind)
            .as_deref()
        {
            Ok([Ok(())]) => {
                self.queue.set_degraded(None);
                *alarm = None;
            }
            Ok(_) | Err(_) => {
                self.queue.count_dropped(dropped);
                raised.retry = Instant::now() + RETRY;
            }
        }
    }
}

/// The key and size of the room probe: more than any order records, apart from its texts.
const ROOM: (&str, usize) = ("room", 64 * 1024);

/// Takes the room that orders may need. Only a commit proves it.
pub(super) fn take_room(txn: &mut dyn Txn) -> Result<(), StoreError> {
    txn.set(ROOM.0, Some(&" ".repeat(ROOM.1)))
}

/// Frees the room, in another commit.
pub(super) fn give_room(txn: &mut dyn Txn) -> Result<(), StoreError> {
    txn.set(ROOM.0, None)
}

/// The subject of the store's own events.
const SUBJECT: &str = "store";

/// Logs a journal entry with the same fields. The message, which a log in JSON leaves out, is the meaning of its cause.
pub(super) fn announce(event: &Event) {
    let message = match Cause::named(&event.cause) {
        Some(cause) => cause.meaning(),
        None => event.cause.as_str(),
    };
    tracing::info!(
        target: "horde::journal",
        seq = event.seq,
        ts = %event.ts,
        "type" = event.kind,
        subject = event.subject,
        cause = event.cause,
        data = %event.data,
        "{message}",
    );
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_committed_event_is_a_log_line_with_the_same_fields() {
        let log = Log::default();
        let writer = {
            let log = log.clone();
            move || log.clone()
        };
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_writer(writer)
            .finish();
        let event = Event {
            seq: 12,
            ts: "2026-05-01T10:00:00Z".parse().unwrap(),
            kind: "raider.nuked".into(),
            subject: "horde/raiders/Toast".into(),
            cause: "done_clean_pushed".into(),
            data: json!({"relic": "gt-1"}),
        };
        tracing::subscriber::with_default(subscriber, || {
            // Another test may have met this log line first, without a subscriber.
            tracing::callsite::rebuild_interest_cache();
            announce(&event);
        });
        let line: serde_json::Value = serde_json::from_slice(&log.0.lock().unwrap()).unwrap();
        assert_eq!(line["target"], "horde::journal");
        assert_eq!(
            line["fields"],
            json!({"message": Cause::DoneCleanPushed.meaning(), "seq": 12, "ts": "2026-05-01T10:00:00Z", "type": "raider.nuked", "subject": "horde/raiders/Toast",
                "cause": "done_clean_pushed", "data": r#"{"relic":"gt-1"}"#})
        );
    }
}
