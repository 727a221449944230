//! The cost of an idle city.

use std::thread;
use std::time::Duration;

use crate::city::City;
use crate::cost::{Cost, parent, private_kib};

/// The length of the idle period.
const MINUTE: Duration = Duration::from_secs(60);
/// The number of patrols that are counted.
const PATROLS: u32 = 20;

/// Measures a minute between two patrols, with a hundred sessions.
pub fn minute() {
    let city = City::with(100);
    let holders = holders(&city);
    let of_holders = || holders.iter().map(|pid| Cost::of(*pid)).sum::<Cost>();
    wait_until_idle(&city);
    let before = (Cost::of(city.daemon()), of_holders());
    thread::sleep(MINUTE);
    let daemon = Cost::of(city.daemon()) - before.0;
    let sessions = of_holders() - before.1;
    println!(
        "idle, 100 sessions, 60 s: {} wake-ups of the daemon, {} of all holders, {} subprocesses",
        daemon.wakeups,
        sessions.wakeups,
        match daemon.childrens_faults + sessions.childrens_faults {
            0 => "no",
            _ => "some",
        }
    );
    memory(&city, &holders);
}

/// Measures patrols over a thousand agents, one each second.
pub fn patrol() {
    let city = City::with_patrols(1000, "1s");
    let holders = holders(&city);
    thread::sleep(Duration::from_secs(2));
    let before = Cost::of(city.daemon());
    thread::sleep(Duration::from_secs(1) * PATROLS);
    let cost = Cost::of(city.daemon()) - before;
    println!(
        "patrol, 1000 agents: {:?} of processor time each, {} subprocesses",
        cost.cpu / PATROLS,
        if cost.childrens_faults == 0 {
            "no"
        } else {
            "some"
        }
    );
    memory(&city, &holders);
}

fn memory(city: &City, holders: &[u32]) {
    let mut each: Vec<_> = holders.iter().map(|pid| private_kib(*pid)).collect();
    each.sort_unstable();
    println!(
        "memory, {} sessions: daemon {} KiB private, holder {} KiB private (median)",
        holders.len(),
        private_kib(city.daemon()),
        each[each.len() / 2]
    );
}

/// Returns the holders: each is the parent of its agent.
fn holders(city: &City) -> Vec<u32> {
    city.agents.values().map(|pid| parent(*pid)).collect()
}

/// Waits until the start has come to rest: batches are written, idle threads have ended.
fn wait_until_idle(city: &City) {
    let mut last = Cost::of(city.daemon()).wakeups;
    loop {
        thread::sleep(Duration::from_secs(12));
        let now = Cost::of(city.daemon()).wakeups;
        if now == last {
            return;
        }
        last = now;
    }
}
