//! Stops, and the lock of the city (`rules.md`, stop and start; `health-patrol.md`, single
//! controller).

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::git::git;
use crate::support::live::{City, LIMIT, until, wait};
use crate::support::plan::Plan;
use crate::support::processes;

const TOAST: &str = "horde/raiders/Toast";

/// `TestControllerLockExclusion`: the second exits with 4 at once, and the first is left alone.
#[test]
fn a_second_supervisor_ends_at_once_and_leaves_the_first_alone() {
    let city = City::new();
    let relic = city.work("stay", &["forever"]);
    let before = city.wait_session(&relic, 1)["session"].clone();
    let begun = Instant::now();
    let second = city
        .program("horde-supervisor")
        .arg(city.root())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(4), "{second:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "not at once");
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(
        told.contains(&city.pid().to_string()),
        "who holds it is not in {told}"
    );
    assert_eq!(city.hd(&["ping"]).json()["pid"], city.pid());
    assert_eq!(city.wait_session(&relic, 1)["session"], before);
}

/// The second one waited for the lock when `hd up` had returned, and began when the first was stopped.
#[test]
fn two_starts_at_once_leave_one_supervisor_and_none_after_a_stop() {
    let city = City::made(&Plan::new());
    let up = || {
        let mut up = city.program("hd");
        up.arg("--city").arg(city.root()).args(["up", "-d"]);
        up.spawn().unwrap()
    };
    for mut up in [up(), up()] {
        assert!(up.wait().unwrap().success());
    }
    let supervisors = || {
        let is_one = |pid: &u32| processes::describe(&[*pid]).contains("horde-supervisor /");
        processes::of(city.root())
            .into_iter()
            .filter(is_one)
            .count()
    };
    assert_eq!(supervisors(), 1);
    city.hd(&["stop"]).json();
    until("it has ended", || supervisors() == 0);
}

/// `hd stop` names the running sessions of a supervisor that was killed, because the city is not stopped while they run.
#[test]
fn stop_without_a_supervisor_tells_that_sessions_run() {
    let mut city = City::new();
    let relic = city.work("stay", &["forever"]);
    city.wait_session(&relic, 1);
    city.kill();
    let stop = city.hd_text(&["stop"]);
    assert_eq!(stop.code, 3, "{stop:?}");
    let said = "1 session of an earlier supervisor still runs";
    assert!(stop.err.contains(said), "{stop:?}");
    assert!(stop.err.contains("hd up"), "{stop:?}");
    let told = city.hd(&["stop"]).error(3);
    assert!(told["message"].as_str().unwrap().contains(said), "{told}");
    assert!(told["hint"].as_str().unwrap().contains("hd up"), "{told}");
    // Whatever became of its directory.
    for session in fs::read_dir(city.root().join(".horde/sessions")).unwrap() {
        fs::remove_dir_all(session.unwrap().path()).unwrap();
    }
    assert!(city.hd_text(&["stop"]).err.contains(said));
    city.start();
    city.stop();
    assert_eq!(city.hd_text(&["stop"]).code, 3);
    assert!(!city.hd_text(&["stop"]).err.contains("still run"));
}

/// An agent that ignores every polite signal, as does its child in a session of its own.
const STUBBORN: &[&str] = &[
    "[ $n = 1 ] || { await go; commit a.txt; hd done; forever; }",
    "trap '' TERM INT HUP",
    "setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >$0.new; mv $0.new $0; while :; do sleep 0.2; done' $signs/child &",
    "echo half >half.txt",
    "sign ready",
    "forever",
];

fn child(city: &City) -> u32 {
    wait("the child's pid", || {
        let pid = fs::read_to_string(city.root().join("signs/child")).ok()?;
        pid.trim().parse().ok()
    })
}

/// Every process dies within the grace, children in sessions of their own too; the next start brings the raider back on
/// its sandbox with the respawn prompt, and does not count that as a restart.
#[test]
fn a_graceful_stop_ends_everything_and_the_next_start_brings_it_back() {
    let mut city = Plan::new()
        .set("daemon", "shutdown_timeout", r#""1s""#)
        .start();
    let relic = city.work("be stubborn", STUBBORN);
    city.wait_sign("ready");
    let child = child(&city);
    assert!(processes::runs(child));
    let begun = Instant::now();
    city.stop();
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert!(!processes::runs(child));
    let left = processes::of(city.root());
    assert!(left.is_empty(), "{}", processes::describe(&left));
    assert!(!city.root().join(".horde/control.sock").exists());
    let lock = fs::File::open(city.root().join(".horde/supervisor.lock")).unwrap();
    lock.try_lock().expect("the lock is free");
    drop(lock);
    assert_eq!(city.hd(&["ping"]).code, 3);
    city.start();
    let prompt = city.wait_prompt(&relic, 2);
    assert!(
        prompt.contains("Your last session on this task ended before"),
        "{prompt}"
    );
    let raider = city.wait_session(&relic, 2);
    assert_eq!(
        (&raider["restarts"], &raider["incarnation"]),
        (&json!(0), &json!(1))
    );
    assert!(city.sandbox("Toast").join("half.txt").exists());
    assert_eq!(city.happened("agent.crashed", TOAST), Vec::<Value>::new());
    fs::remove_file(city.sandbox("Toast").join("half.txt")).unwrap();
    city.sign("go");
    city.wait_status(&relic, "closed");
}

/// 2.1: a second signal skips the grace.
#[test]
fn a_second_signal_skips_the_grace() {
    let mut city = Plan::new()
        .set("daemon", "shutdown_timeout", r#""10m""#)
        .start();
    let steps = ["trap 'sign asked' TERM INT HUP", "sign ready", "forever"];
    city.work("ignore", &steps);
    city.wait_sign("ready");
    processes::signal(city.pid(), Signal::SIGTERM);
    city.wait_sign("asked");
    processes::signal(city.pid(), Signal::SIGTERM);
    let begun = Instant::now();
    assert_eq!(city.ended().code(), Some(0));
    assert!(begun.elapsed() < LIMIT);
    assert_eq!(processes::of(city.root()), Vec::<u32>::new());
}

/// 2.3: sessions run on, and the next start adopts the very same.
#[test]
fn kept_sessions_run_on_and_are_adopted() {
    let mut city = City::new();
    let steps = ["sign ready", "await go", "commit a.txt", "hd done"];
    let relic = city.work("run on", &steps);
    city.wait_sign("ready");
    let before = city.wait_session(&relic, 1)["session"].clone();
    city.detach();
    let pid = before["pid"].as_u64().unwrap().try_into().unwrap();
    assert!(processes::runs(pid));
    assert!(!city.root().join(".horde/control.sock").exists());
    city.start();
    let after = city.wait_session(&relic, 1)["session"].clone();
    assert_eq!(
        (&after["pid"], &after["generation"]),
        (&before["pid"], &before["generation"])
    );
    until("it is told", || {
        city.happened("agent.adopted", TOAST).len() == 1
    });
    city.sign("go");
    city.wait_status(&relic, "closed");
    assert_eq!(city.sessions_of(&relic), 1);
}

/// A stop while a rig's remote does not answer: it happens at once, in order, and ends git, too.
#[test]
fn a_stop_during_the_start_leaves_nothing_behind() {
    let city = City::made(&Plan::new());
    let remote = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("git://{}/silent.git", remote.local_addr().unwrap());
    let checkout = city.root().join("horde-checkout");
    git(&checkout, &["remote", "set-url", "origin", &url]);
    let mut daemon = city.supervisor().spawn().unwrap();
    let (_silent, _) = remote.accept().unwrap();
    let begun = Instant::now();
    processes::signal(daemon.id(), Signal::SIGTERM);
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(20));
    let left = processes::of(city.root());
    assert!(left.is_empty(), "{}", processes::describe(&left));
}

#[test]
fn the_journal_says_when_a_supervisor_began_and_ended() {
    let mut city = City::new();
    city.stop();
    city.start();
    let times = |kind| city.happened(kind, "e2e").len();
    let seen = [
        "controller.started",
        "controller.ready",
        "controller.stopped",
    ]
    .map(times);
    assert_eq!(seen, [2, 2, 1]);
}

/// `TestSocketFallbackUsesShortPathForLongCityPath`: a socket's path has 107 bytes at most; a city with a longer path
/// answers all the same, at a place that every client finds.
#[test]
fn a_city_with_a_long_path_answers_at_a_short_one() {
    let city = City::made(&Plan::new());
    let deep = city.root().join("a-rather-long-name/".repeat(6));
    let run = city.root().join("run");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(&run).unwrap();
    fs::write(deep.join("city.toml"), "[workspace]\nname = \"deep\"\n").unwrap();
    let program = |name: &str| {
        let mut program = city.program(name);
        program.env("XDG_RUNTIME_DIR", &run);
        program
    };
    let mut daemon = program("horde-supervisor").arg(&deep).spawn().unwrap();
    let answers = || {
        let mut hd = program("hd");
        hd.args(["--json", "--city"]).arg(&deep).arg("ping");
        hd.output().unwrap()
    };
    let said = wait("it answers", || {
        Some(answers()).filter(|said| said.status.success())
    });
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["pid"], daemon.id());
    assert!(!deep.join(".horde/control.sock").exists());
    processes::signal(daemon.id(), Signal::SIGTERM);
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(answers().status.code(), Some(3));
}
