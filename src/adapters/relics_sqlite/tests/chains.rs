//! Long chains of dependencies: how a check for cycles grows with them.

use std::time::{Duration, Instant};

use super::*;

const LONG: usize = 100_000;

/// Adds a dependency as `hd relic dep add` does, and returns the time that it took.
fn depend(store: &mut SqliteRelics, relic: &str, on: &str) -> (Result<(), StoreError>, Duration) {
    let (relic, on) = (id(relic), id(on));
    let start = Instant::now();
    let put = run(store, |txn| {
        let mut relic = txn.relic(&relic)?;
        relic.deps.push(on.clone());
        txn.put_relic(&relic)
    });
    (put, start.elapsed())
}

/// The chain grows at its end and at its begin, by relics that are made with their dependency and by `relic dep add`.
#[test]
#[ignore = "long tier: a chain of 100,000 dependencies"]
fn chain_of_a_hundred_thousand_dependencies_grows_at_an_even_pace_and_closes_to_no_cycle() {
    let mut store = store();
    create(&mut store, &task("first"));
    let mut paces = Vec::new();
    for part in 0..10 {
        let start = Instant::now();
        run(&mut store, |txn| {
            for n in part * LONG / 10..(part + 1) * LONG / 10 {
                let last = id(&format!("gt-{}", n + 1));
                let made = txn.create_relic(&task("next"))?;
                txn.put_relic(&Relic {
                    deps: vec![last],
                    ..made
                })?;
            }
            Ok(())
        })
        .unwrap();
        paces.push(start.elapsed());
    }
    println!("each 10,000 dependencies took {paces:?}");
    let slow = paces[9].as_secs_f64() / paces[0].as_secs_f64();
    assert!(slow < 5.0, "{paces:?}");
    // A new relic at either end.
    for title in ["before", "behind"] {
        create(&mut store, &task(title));
    }
    let last = format!("gt-{}", LONG + 1);
    let ends = [("gt-1", "gt-100002"), ("gt-100003", last.as_str())];
    for (relic, on) in ends {
        let (put, took) = depend(&mut store, relic, on);
        put.unwrap();
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    // The one search that must go over the whole chain is no recursion.
    let (refused, took) = depend(&mut store, "gt-1", &last);
    println!("a cycle of {LONG} relics was refused after {took:?}");
    let Err(StoreError::Conflict(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("others)") && why.len() < 400, "{why}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
