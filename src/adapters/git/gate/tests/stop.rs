//! A gate that is ended before its time.

use super::*;
use crate::ports::repo::Repo;
use crate::testing::poll::poll;

/// A merge request that was withdrawn does not hold the lane: its gate ends with all its processes, at once.
#[test]
fn gate_is_ended_by_a_stop() {
    let rig = Rigged::new();
    rig.repo.stop_gate();
    passes(&rig, &rig.base, "true");
    let out = rig.path("out");
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            gate(
                &rig,
                &rig.base,
                "sleep 1000 & echo $! >$OUT.new; mv $OUT.new $OUT; wait",
            )
        });
        let began = || fs::read_to_string(&out).ok();
        let child = poll(LONG, began).expect("the gate runs");
        rig.repo.stop_gate();
        let run = run.join().unwrap();
        assert!(!lives(&child), "a process of the gate is left");
        run
    });
    assert!(run.stopped && !run.timed_out, "{run:?}");
    passes(&rig, &rig.base, "true");
}
