//! The real store in memory, for the tests of actors.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use crate::adapters::relics_sqlite::SqliteRelics;
use crate::ports::clock::Clock;
use crate::ports::relics::{Committed, Durability, Job, Relics, StoreError, Txn};

use super::queue::Queue;
use super::writer::Writer;
use super::{Open, StoreHandle};

/// A store that may be opened several times.
struct Shared(Arc<Mutex<dyn Relics>>);

impl Relics for Shared {
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError> {
        self.0.lock().unwrap().commit(jobs, durability)
    }
}

/// Returns an opener of the same store, which survives restarts of the store actor.
pub fn share(store: impl Relics + 'static) -> Open {
    let store = Arc::new(Mutex::new(store));
    Arc::new(move || Ok(Box::new(Shared(Arc::clone(&store) as _)) as _))
}

/// A store that refuses all writes while it is full.
struct Full(SqliteRelics, Arc<AtomicBool>);

impl Relics for Full {
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError> {
        if self.1.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("no room".into()));
        }
        self.0.commit(jobs, durability)
    }
}

/// A store that rewords every text as soon as it is written.
struct Reworded(SqliteRelics);

impl Relics for Reworded {
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError> {
        let committed = self.0.commit(jobs, durability)?;
        if committed.wrote {
            let mut reword = |txn: &mut dyn Txn| txn.reword();
            let mut reworded = self.0.commit(&mut [&mut reword], Durability::Behind)?;
            reworded.results.remove(0).unwrap();
        }
        Ok(committed)
    }
}

/// Keeps a writer without an actor; closes its queue when it is dropped, which ends it.
pub(super) struct Keeper {
    queue: Arc<Queue>,
    /// The writer, when it has no thread of its own.
    writer: Option<Mutex<Writer>>,
}

impl Keeper {
    /// Commits what is queued on the caller's thread, unless the writer has a thread or another caller is at it, which
    /// then finds this, too. A thread of its own would cost two switches of threads for each job, a tenth of the time of all
    /// tests of actors.
    pub(super) fn serve(&self) {
        let Some(writer) = &self.writer else { return };
        while self.queue.has_entries() {
            let mut writer = match writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            writer.serve_queued();
            // It would be tried again without end.
            let refused = self.queue.degraded();
            assert!(refused.is_none(), "a store in memory refused: {refused:?}");
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl StoreHandle {
    /// Creates a store in memory without an actor: what is queued is committed before the caller continues.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Self {
        Self::at_once(SqliteRelics::in_memory(clock).unwrap())
    }

    /// Creates a store without an actor on the test's own store, whose writer has a thread: the store may refuse, and is
    /// tried again then.
    pub fn on(store: impl Relics + 'static) -> Self {
        let mut handle = Self::new();
        let writer = Writer::new(handle.queue(), share(store));
        std::thread::spawn(move || writer.run().unwrap());
        handle.keeper = Some(Arc::new(Keeper {
            queue: handle.queue(),
            writer: None,
        }));
        handle
    }

    fn at_once(store: impl Relics + 'static) -> Self {
        let mut handle = Self::new();
        let writer = Writer::new(handle.queue(), share(store));
        handle.keeper = Some(Arc::new(Keeper {
            queue: handle.queue(),
            writer: Some(Mutex::new(writer)),
        }));
        handle
    }

    /// Does the same as [`StoreHandle::in_memory`], but the store rewords every text as soon as it is written.
    pub fn reworded(clock: &Arc<dyn Clock>) -> Self {
        let store = SqliteRelics::in_memory(Arc::clone(clock)).unwrap();
        Self::at_once(Reworded(store))
    }

    /// Does the same as [`StoreHandle::in_memory`], but the store is full while `full` is set.
    pub fn full_while(clock: &Arc<dyn Clock>, full: &Arc<AtomicBool>) -> Self {
        let store = SqliteRelics::in_memory(Arc::clone(clock)).unwrap();
        Self::on(Full(store, Arc::clone(full)))
    }
}
