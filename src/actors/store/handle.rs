//! The handle through which all other code uses the store.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(any(test, feature = "testing"))]
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};

use crate::domain::event::{Event, NewEvent};
use crate::ports::relics::{StoreError, Txn};
#[cfg(any(test, feature = "testing"))]
use crate::testing::poll;

use super::super::boards::Changes;
use super::super::metrics::Metrics;
use super::queue::{Queue, Request};
use super::writer::{give_room, take_room};

/// A handle to the store. Cheap to clone, and valid as long as the daemon runs: jobs that arrive while the store actor
/// restarts wait for the new writer.
#[derive(Clone)]
pub struct StoreHandle {
    queue: Arc<Queue>,
    /// Ends a writer without actor, with the last clone of its handle.
    #[cfg(any(test, feature = "testing"))]
    pub(super) keeper: Option<Arc<super::in_memory::Keeper>>,
}

impl Default for StoreHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreHandle {
    /// Creates a handle whose queue waits for a store actor.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue: Arc::new(Queue::new()),
            #[cfg(any(test, feature = "testing"))]
            keeper: None,
        }
    }

    /// Runs the job in its own transaction, and answers when its writes and events are on the disk. The job runs to its
    /// end even if the caller stops waiting. It may run more than once, when the commit that it was part of was
    /// refused: the earlier run is undone in the store, so the job must not consume its captures.
    ///
    /// # Errors
    /// The job's own error, its writes undone; [`StoreError::Unavailable`] when the store cannot write
    /// now or is stopped; [`StoreError::Failed`] when the job panicked.
    pub async fn run<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Txn) -> Result<T, StoreError> + Send + 'static,
    {
        self.begin(job).await
    }

    /// Does the same as [`StoreHandle::run`], but the job has its place in the queue when this returns: later jobs are
    /// committed later, even if no caller waits for the answer.
    pub fn begin<T, F>(
        &self,
        job: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&mut dyn Txn) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Call {
            job,
            value: None,
            panicked: None,
            reply,
        };
        self.queue.push(Box::new(call));
        #[cfg(any(test, feature = "testing"))]
        self.serve();
        let lost = || StoreError::Unavailable("the store stopped before it answered".to_owned());
        #[cfg(any(test, feature = "testing"))]
        let in_memory = self.keeper.is_some();
        async move {
            #[cfg(any(test, feature = "testing"))]
            if in_memory {
                return answered_in_still_time(answer)
                    .await
                    .unwrap_or_else(|| Err(lost()));
            }
            answer.await.unwrap_or_else(|_| Err(lost()))
        }
    }

    /// Checks that there is room for the records of an order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when there is no room, or the store cannot write or is stopped.
    pub async fn find_room(&self) -> Result<(), StoreError> {
        self.run(take_room).await?;
        self.run(give_room).await
    }

    /// Journals events asynchronously: never waits, never fails. While the store cannot write, the newest ten thousand
    /// events are kept in memory; the number of dropped events is journalled afterwards.
    pub fn journal(&self, events: Vec<NewEvent>) {
        self.queue.journal(events);
        #[cfg(any(test, feature = "testing"))]
        self.serve();
    }

    #[cfg(any(test, feature = "testing"))]
    fn serve(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.serve();
        }
    }

    /// Returns a stream of every event committed from now on, in order of number. A subscriber that falls behind learns
    /// how many it missed (`Lagged`), and can read them from the journal.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.queue.subscribe()
    }

    /// Returns the counters since the start of the process; events are counted when they are committed.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.queue.metrics
    }

    /// Returns the count of changes to what is published: of commits that wrote, and of what the actors note beside.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.queue.changes
    }

    /// Returns true when the store is known to be unable to write.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.queue.degraded().is_some()
    }

    /// Returns why the store cannot write; none when it can.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.queue.degraded()
    }

    pub(super) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }
}

/// Waits for an answer while paused test time stands still. That time jumps to the next timer whenever the runtime is
/// idle, and the writer's thread does not count as activity; a blocking task does, and so does a blocked thread. Most
/// answers come so soon that a blocking task would cost more than the job.
#[cfg(any(test, feature = "testing"))]
async fn answered_in_still_time<A: Send + 'static>(mut answer: oneshot::Receiver<A>) -> Option<A> {
    const SOON: Duration = Duration::from_millis(5);
    match poll::ready_within(SOON, &mut answer) {
        Some(answered) => answered.ok(),
        None => {
            let waiting = tokio::task::spawn_blocking(move || answer.blocking_recv());
            waiting.await.ok()?.ok()
        }
    }
}

/// A job in the queue, with its waiting caller.
struct Call<T, F> {
    job: F,
    value: Option<T>,
    panicked: Option<String>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Request for Call<T, F>
where
    T: Send,
    F: FnMut(&mut dyn Txn) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, txn: &mut dyn Txn) -> Result<(), StoreError> {
        // The result of an earlier run is void; a claim in it must be free for this run.
        self.value = None;
        // The job's captures may be left in any state: they are not used again.
        match catch_unwind(AssertUnwindSafe(|| (self.job)(txn))) {
            Ok(result) => {
                self.value = Some(result?);
                Ok(())
            }
            Err(payload) => {
                let said = panic_text(payload.as_ref());
                self.panicked = Some(said.clone());
                Err(StoreError::Failed(format!("a job panicked: {said}")))
            }
        }
    }

    fn panicked(&self) -> Option<String> {
        self.panicked.clone()
    }

    fn answer(self: Box<Self>, result: Result<(), StoreError>) {
        let nothing = || StoreError::Failed("a job ended without its value".to_owned());
        let Self { value, reply, .. } = *self;
        let answer = result.and_then(|()| value.ok_or_else(nothing));
        // The caller may have stopped waiting.
        let _told = reply.send(answer);
    }
}

/// Returns the text of a panic.
pub(super) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::adapters::clock::SystemClock;
    use crate::adapters::relics_sqlite::SqliteRelics;
    use crate::ports::relics::{Durability, Job, Relics};

    struct Held(Arc<AtomicBool>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }

    /// A saga is claimed by the job that opens it, and the job may have to run again.
    #[test]
    fn value_of_a_job_is_dropped_before_the_job_runs_again() {
        let held = Arc::new(AtomicBool::new(false));
        let job = move |_: &mut dyn Txn| match held.swap(true, Ordering::SeqCst) {
            false => Ok(Held(Arc::clone(&held))),
            true => Err(StoreError::Failed("claimed already".into())),
        };
        let mut call = Call {
            job,
            value: None,
            panicked: None,
            reply: oneshot::channel().0,
        };
        let mut store = SqliteRelics::in_memory(Arc::new(SystemClock::new())).unwrap();
        for _ in 0..2 {
            let mut run = |txn: &mut dyn Txn| call.run(txn);
            let mut jobs = [&mut run as Job<'_>];
            let committed = store.commit(&mut jobs, Durability::Full).unwrap();
            assert_eq!(committed.results, [Ok(())]);
        }
    }
}
