//! The time after a death: of an agent, of the daemon.

use std::time::Instant;

use crate::city::{City, kill_agent};
use crate::{FEW, SAMPLES, sample};

/// `kill -9` of an agent's process, until its replacement announces itself, among a hundred.
pub fn replacement() {
    let mut city = City::with(100);
    let mut victims = city
        .agents
        .keys()
        .cloned()
        .collect::<Vec<_>>()
        .into_iter()
        .cycle();
    let once = || {
        let victim = victims.next().expect("a hundred of them");
        let begun = Instant::now();
        kill_agent(city.agents[&victim]);
        let (name, pid) = city.next_up();
        let took = begun.elapsed();
        assert_eq!(name, victim, "another one came up");
        city.agents.insert(name, pid);
        took
    };
    sample("death to replacement", SAMPLES, once);
}

/// `kill -9` of the daemon, until a new one reports that it has all hundred sessions again.
pub fn restart() {
    let mut city = City::with(100);
    let once = || {
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
    sample("daemon: kill -9 to 100 adopted", FEW, once);
}
