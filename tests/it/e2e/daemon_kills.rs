//! Crash-only: `kill -9` of the daemon loses no agent and no work (`product.md`, promise 3).

use nix::sys::signal::Signal;

use crate::support::live::asks::session_pid as pid;
use crate::support::live::{City, until};
use crate::support::processes;

/// The sessions live on, the next start adopts them, and their work lands.
#[test]
fn sessions_survive_the_kill_of_the_daemon_and_are_adopted() {
    let mut city = City::new();
    let relics: Vec<_> = ["a", "b"]
        .map(|name| {
            let (ready, commit) = (format!("sign {name}"), format!("commit {name}.txt"));
            city.work(name, &[&ready, "await go", &commit, "hd done"])
        })
        .into();
    city.wait_sign("a");
    city.wait_sign("b");
    let before: Vec<_> = relics
        .iter()
        .map(|relic| pid(&city.wait_session(relic, 1)))
        .collect();
    city.kill();
    assert!(before.iter().all(|pid| processes::runs(*pid)));
    city.start();
    let after: Vec<_> = relics
        .iter()
        .map(|relic| pid(&city.wait_session(relic, 1)))
        .collect();
    assert_eq!(before, after);
    for name in ["Toast", "Shadow"] {
        city.wait_event(1, "agent.adopted", &format!("horde/raiders/{name}"));
    }
    city.sign("go");
    for relic in &relics {
        city.wait_status(relic, "closed");
        assert_eq!(city.sessions_of(relic), 1);
    }
    city.wait_no_raiders();
}

/// An agent that dies while the daemon is away is found dead and started again on its sandbox.
#[test]
fn an_agent_that_dies_while_the_daemon_is_away_is_respawned() {
    let mut city = City::new();
    let relic = city.work(
        "die alone",
        &[
            "[ $n = 2 ] || { echo half >half.txt; sign ready; forever; }",
            "git add half.txt",
            "git commit --quiet -m whole",
            "hd done",
        ],
    );
    city.wait_sign("ready");
    let first = pid(&city.wait_session(&relic, 1));
    city.kill();
    processes::signal(first, Signal::SIGKILL);
    until("it is dead", || !processes::runs(first));
    city.start();
    let prompt = city.wait_prompt(&relic, 2);
    assert!(
        prompt.contains("Your last session on this task ended before"),
        "{prompt}"
    );
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"half.txt".to_owned()));
}

/// 3.3: output goes on while the daemon is away, and is complete afterwards.
#[test]
fn the_terminal_log_has_no_gap_where_the_daemon_was_away() {
    let mut city = City::new();
    let steps = [
        "echo before",
        "sign ready",
        "await on",
        "echo meanwhile",
        "sign wrote",
        "forever",
    ];
    let relic = city.work("talk", &steps);
    city.wait_sign("ready");
    city.kill();
    city.sign("on");
    city.wait_sign("wrote");
    city.start();
    city.wait_session(&relic, 1);
    until("both are in the log", || {
        let logs = city.hd(&["logs", "Toast"]).json();
        let text = logs["text"].as_str().unwrap();
        text.contains("before") && text.contains("meanwhile")
    });
}
