//! The numbers of docs/numbers.md, measured on the real daemon in a temporary directory.
//!
//! ```text
//! cargo bench                    all of them
//! cargo bench -- control         those with the word in their name
//! ```
//!
//! Criterion shows means; where single outliers matter, percentiles of all samples follow. The cost of an idle city is
//! read from the kernel's counters, once.
#![expect(
    clippy::disallowed_methods,
    reason = "benches run programs and measure real time"
)]

mod city;
mod control;
mod cost;
mod idle;
mod lives;
mod measure;
mod relics;
mod reload;
mod sessions;
mod status;
#[path = "../../tests/it/support/mod.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests use more of it, and fail where a bench ends"
)]
mod support;
mod task;

use std::time::Duration;

use criterion::{Criterion, criterion_group};

/// Prints percentiles, which a mean hides.
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

/// Returns whether the command line asks for this name.
fn asked_for(name: &str) -> bool {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    words.next().is_none_or(|word| name.contains(&word))
}

criterion_group! {
    name = numbers;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(3));
    targets = control::round_trip, sessions::start, reload::round_trip, lives::replacement,
        lives::restart
}

fn main() {
    if asked_for("idle") {
        idle::minute();
    }
    if asked_for("patrol") {
        idle::patrol();
    }
    if asked_for("measure") {
        measure::measure();
    }
    if asked_for("relics") {
        relics::relics();
    }
    if asked_for("status") {
        status::status();
    }
    if asked_for("task") {
        task::task();
    }
    numbers();
    Criterion::default().configure_from_args().final_summary();
}
