//! Tests of the relic store, by theme, with their common helpers.

mod chains;
mod commits;
mod current;
mod drums;
mod files;
mod flow;
mod golden;
mod identities;
mod imports;
mod journal;
mod migrate;
mod raiders;
mod retention;
mod reword;
mod rows;
mod shown;
mod totems;

use std::sync::Arc;

use jiff::Timestamp;

use crate::adapters::clock::SystemClock;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::relic::{Relic, RelicKind};
use crate::ports::relics::{Committed, Durability, NewRelic, Relics, StoreError, Txn};
use crate::testing::records::{self, oid, toast};

use super::SqliteRelics;

fn store() -> SqliteRelics {
    SqliteRelics::in_memory(Arc::new(SystemClock::new())).unwrap()
}

/// Runs one job in a commit of its own and returns its result.
fn run<T>(
    store: &mut dyn Relics,
    mut job: impl FnMut(&mut dyn Txn) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut value = None;
    let mut keep = |txn: &mut dyn Txn| {
        value = Some(job(txn)?);
        Ok(())
    };
    let Committed { mut results, .. } = store.commit(&mut [&mut keep], Durability::Full)?;
    results.remove(0)?;
    Ok(value.expect("a job that succeeded has a value"))
}

fn task(title: &str) -> NewRelic {
    NewRelic {
        body: "do it".into(),
        ..records::task(title)
    }
}

fn create(store: &mut dyn Relics, new: &NewRelic) -> Relic {
    run(store, |txn| txn.create_relic(new)).unwrap()
}

fn id(text: &str) -> RelicId {
    RelicId::new(text).unwrap()
}

fn nux() -> RaiderId {
    "rust/raiders/Nux".parse().unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Conflict(why)) => why,
        other => panic!("expected a conflict, got {other:?}"),
    }
}
