//! The cost of one more relic among few and among many, in a store on the disk.

use std::sync::Arc;
use std::time::Instant;

use horde_supervisor::adapters::clock::SystemClock;
use horde_supervisor::adapters::relics_sqlite::SqliteRelics;
use horde_supervisor::ports::relics::{Durability, NewRelic, Relics, StoreError, Txn};
use horde_supervisor::testing::{records, scratch_on_disk};

use crate::percentiles;

/// The number of relics among which one more is made.
const MANY: usize = 100_000;
/// The number of relics in one commit.
const TOGETHER: usize = 1000;
/// The number of measurements.
const SAMPLES: usize = 200;

/// Prints the time of a commit with one relic, before and after there are many.
pub fn relics() {
    let dir = scratch_on_disk();
    let clock = Arc::new(SystemClock::new());
    let mut store = SqliteRelics::open(&dir.path().join("relics.db"), clock).expect("a store");
    let new = NewRelic {
        labels: vec!["bench".into()],
        ..records::task("one of many")
    };
    add(&mut store, &new, 1);
    measure("a relic among few", &mut store, &new);
    for _ in 0..MANY / TOGETHER {
        add(&mut store, &new, TOGETHER);
    }
    measure("a relic among 100,000", &mut store, &new);
}

fn add(store: &mut SqliteRelics, new: &NewRelic, number: usize) {
    let mut make = |txn: &mut dyn Txn| -> Result<(), StoreError> {
        (0..number).try_for_each(|_| txn.create_relic(new).map(drop))
    };
    let made = store.commit(&mut [&mut make], Durability::Full);
    let results = made.expect("a commit").results;
    results.into_iter().for_each(|made| made.expect("relics"));
}

fn measure(name: &str, store: &mut SqliteRelics, new: &NewRelic) {
    let samples = (0..SAMPLES).map(|_| {
        let begun = Instant::now();
        add(store, new, 1);
        begun.elapsed()
    });
    percentiles(name, samples.collect());
}
