//! The time after a death: of an agent, of the daemon.

use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};

use crate::city::{City, kill_agent};
use crate::percentiles;

/// `kill -9` of an agent's process, until its replacement announces itself, among a hundred.
pub fn replacement(criterion: &mut Criterion) {
    let mut city = City::with(100);
    let mut samples = Vec::new();
    let mut victims = city
        .agents
        .keys()
        .cloned()
        .collect::<Vec<_>>()
        .into_iter()
        .cycle();
    let mut once = || {
        let victim = victims.next().expect("a hundred of them");
        let begun = Instant::now();
        kill_agent(city.agents[&victim]);
        let (name, pid) = city.next_up();
        let took = begun.elapsed();
        assert_eq!(name, victim, "another one came up");
        city.agents.insert(name, pid);
        took
    };
    criterion.bench_function("death to replacement", |bencher| {
        bencher.iter_custom(|times| {
            let took: Vec<_> = (0..times).map(|_| once()).collect();
            samples.extend_from_slice(&took);
            took.iter().sum()
        });
    });
    percentiles("death to replacement", samples);
}

/// `kill -9` of the daemon, until a new one reports that it has all hundred sessions again.
pub fn restart(criterion: &mut Criterion) {
    let mut city = City::with(100);
    let mut samples = Vec::new();
    let mut once = || {
        let begun = Instant::now();
        city.restart_daemon();
        let running = city.all_run();
        let took = begun.elapsed();
        assert_eq!(running, city.agents, "each session is the one that it was");
        assert!(
            city.no_other_session_started(),
            "a session was started twice"
        );
        took
    };
    let mut group = criterion.benchmark_group("daemon");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.bench_function("kill -9 to 100 adopted", |bencher| {
        bencher.iter_custom(|times| {
            let took: Vec<_> = (0..times).map(|_| once()).collect();
            samples.extend_from_slice(&took);
            took.iter().sum::<Duration>()
        });
    });
    group.finish();
    percentiles("daemon restart", samples);
}
