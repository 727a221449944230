//! The numbers of the README, measured on the real daemon in a temporary directory.
//!
//! ```text
//! cargo bench                    all of them
//! cargo bench -- control         those whose name contains the word
//! ```
//!
//! Criterion shows means; where single outliers matter, percentiles of all samples follow.

mod city;
mod control;
mod lives;
mod sessions;

use std::time::Duration;

use criterion::{criterion_group, criterion_main};

/// Prints what a mean hides.
fn percentiles(name: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let Some(last) = samples.len().checked_sub(1) else {
        return;
    };
    let at = |percent: usize| samples[last * percent / 100];
    println!(
        "{name}: p50 {:?}, p95 {:?}, most {:?} of {} samples",
        at(50),
        at(95),
        samples[last],
        samples.len()
    );
}

criterion_group! {
    name = numbers;
    config = criterion::Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(3));
    targets = control::round_trip, sessions::start, lives::replacement, lives::restart
}
criterion_main!(numbers);
