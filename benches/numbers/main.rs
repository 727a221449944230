//! The numbers of docs/numbers.md, measured on the real daemon in a temporary directory.
//!
//! ```text
//! cargo bench                    all of them
//! cargo bench -- control         those with the word in their name
//! ```
//!
//! Percentiles of all samples are shown, because a mean hides outliers. The cost of an idle city is read from the
//! kernel's counters, once.
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

use std::time::{Duration, Instant};

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

/// The number of samples of what takes milliseconds.
const SAMPLES: usize = 100;
/// The number of samples of what takes longer.
const FEW: usize = 10;

/// Takes samples, after one that warms up, and prints their percentiles.
fn sample(name: &str, count: usize, mut once: impl FnMut() -> Duration) {
    once();
    percentiles(name, (0..count).map(|_| once()).collect());
}

/// Measures a call.
fn timed<T>(call: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    std::hint::black_box(call());
    begun.elapsed()
}

/// Returns whether the command line asks for this name.
fn asked_for(name: &str) -> bool {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    words.next().is_none_or(|word| name.contains(&word))
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
    if asked_for("control") {
        control::round_trip();
    }
    if asked_for("sessions") {
        sessions::start();
    }
    if asked_for("reload") {
        reload::round_trip();
    }
    if asked_for("death") {
        lives::replacement();
    }
    if asked_for("daemon") {
        lives::restart();
    }
}
