//! The real store in memory, for the tests of actors.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

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

/// Closes the queue, which ends the writer.
pub(super) struct Keeper(Arc<Queue>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl StoreHandle {
    /// Creates a store in memory, whose writer runs without an actor until the last clone is dropped.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Self {
        Self::on(SqliteRelics::in_memory(clock).unwrap())
    }

    /// Does the same as [`StoreHandle::in_memory`], on the test's own store.
    pub fn on(store: impl Relics + 'static) -> Self {
        let mut handle = Self::new();
        let open = share(store);
        let writer = Writer::new(handle.queue(), open);
        std::thread::spawn(move || writer.run().unwrap());
        handle.keeper = Some(Arc::new(Keeper(handle.queue())));
        handle
    }

    /// Does the same as [`StoreHandle::in_memory`], but the store rewords every text as soon as it is written.
    pub fn reworded(clock: &Arc<dyn Clock>) -> Self {
        Self::on(Reworded(
            SqliteRelics::in_memory(Arc::clone(clock)).unwrap(),
        ))
    }

    /// Does the same as [`StoreHandle::in_memory`], but the store is full while `full` is set.
    pub fn full_while(clock: &Arc<dyn Clock>, full: &Arc<AtomicBool>) -> Self {
        let store = SqliteRelics::in_memory(Arc::clone(clock)).unwrap();
        Self::on(Full(store, Arc::clone(full)))
    }
}
