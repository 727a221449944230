//! Gates and set-up commands belong to the supervisor: only sessions outlive it (`product.md`, crash-only).

use std::fs;

use nix::sys::signal::Signal;

use crate::support::git::write;
use crate::support::live::{City, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// A command that reports its pid and waits for the sign `go`. It and its child, in a session of its own, ignore polite
/// signals.
const SLOW: &str = r#"
trap '' TERM INT HUP
signs=$(cd "$(dirname "$0")" && pwd)/signs
slow() {
    echo >"$signs/$1.$$"
    while [ ! -e "$signs/go" ]; do sleep 0.1; done
}
[ -z "${1-}" ] || { slow child; exit; }
setsid sh "$0" child &
slow slow
"#;

/// Makes a city whose gate, or set-up, is `sh slow.sh`.
fn slow(section: &'static str, key: &'static str, value: &str) -> City {
    let plan = Plan::new()
        .set("raiders", "auto_charge", "true")
        .set(section, key, value);
    let mut city = City::made(&plan);
    write(city.root(), "slow.sh", SLOW);
    city.start();
    city
}

fn slow_set_up() -> City {
    slow("raiders", "setup", r#"["sh ../../../slow.sh"]"#)
}

fn slow_gate() -> City {
    let gates = r#"[{ name = "slow", run = "sh ../../../slow.sh" }]"#;
    slow("forge", "gates", gates)
}

/// Returns the pids that runs of this part have reported.
fn pids(city: &City, part: &str) -> Vec<u32> {
    let signs = fs::read_dir(city.root().join("signs")).unwrap();
    let names = signs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pid = |name: String| name.strip_prefix(part)?.strip_prefix('.')?.parse().ok();
    names.filter_map(pid).collect()
}

/// Waits for the n-th run. Returns the pids of all runs and of their children.
fn wait_run(city: &City, n: usize) -> Vec<u32> {
    wait(&format!("run {n}"), || {
        let (runs, children) = (pids(city, "slow"), pids(city, "child"));
        (runs.len() == n && children.len() == n).then(|| [runs, children].concat())
    })
}

fn assert_nothing_runs(city: &City, pids: &[u32]) {
    let left: Vec<_> = pids
        .iter()
        .copied()
        .filter(|pid| processes::runs(*pid))
        .collect();
    assert!(left.is_empty(), "{}", processes::describe(&left));
    let left = processes::of(city.root());
    assert!(left.is_empty(), "{}", processes::describe(&left));
}

#[test]
fn a_gate_ends_with_a_stop_and_runs_again_after_the_next_start() {
    let mut city = slow_gate();
    let relic = city.relic("land", &["commit a.txt", "hd done"]);
    let pids = wait_run(&city, 1);
    city.stop();
    assert_nothing_runs(&city, &pids);
    city.start();
    wait_run(&city, 2);
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert!(city.landed().contains(&"a.txt".to_owned()));
}

#[test]
fn a_set_up_ends_with_a_signal_and_runs_again_after_the_next_start() {
    let mut city = slow_set_up();
    let relic = city.relic("be set up", &["commit a.txt", "hd done"]);
    let pids = wait_run(&city, 1);
    processes::signal(city.pid(), Signal::SIGTERM);
    assert!(city.ended().success());
    assert_nothing_runs(&city, &pids);
    city.start();
    wait_run(&city, 2);
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert_eq!(
        city.happened("raider.charged", "horde/raiders/Toast").len(),
        1
    );
}

/// A command that a killed supervisor left running is ended by the next before that runs it again.
#[test]
fn a_set_up_of_a_killed_supervisor_never_runs_beside_the_next() {
    let mut city = slow_set_up();
    let relic = city.relic("be set up", &["commit a.txt", "hd done"]);
    let first = wait_run(&city, 1);
    city.kill();
    assert!(first.iter().all(|pid| processes::runs(*pid)));
    city.start();
    let all = wait_run(&city, 2);
    for pid in first {
        assert!(!processes::runs(pid), "{}", processes::describe(&[pid]));
    }
    assert_eq!(all.iter().filter(|pid| processes::runs(**pid)).count(), 2);
    city.sign("go");
    city.wait_status(&relic, "closed");
    until("nothing of it runs", || {
        !all.iter().any(|pid| processes::runs(*pid))
    });
}

#[test]
fn a_gate_of_a_killed_supervisor_does_not_outlive_the_stop_of_the_next() {
    let mut city = slow_gate();
    city.relic("land", &["commit a.txt", "hd done"]);
    let first = wait_run(&city, 1);
    city.kill();
    city.start();
    city.stop();
    assert_nothing_runs(&city, &first);
}
