//! Pids that went round: another process has the number that one of ours had.

use std::fs;
use std::process::{Child, Command};

use super::{crowd, kill, pid, runs_as};
use crate::support::live::until;
use crate::support::processes;

/// This test, where it says which numbers are given.
const NAME: &str = "chaos::reused::who_has_the_pid_of_ours_is_neither_adopted_nor_ended";
const INSIDE: &str = "HORDE_TEST_INSIDE";
const NAMESPACE: [&str; 6] = ["-U", "-r", "-p", "-f", "--mount-proc", "sh"];

/// A process that has this pid.
fn stranger(pid: u32) -> Child {
    let mut child = None;
    until("somebody else has the pid", || {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut born = Command::new("sleep").arg("100000").spawn().unwrap();
        if born.id() == pid {
            child = Some(born);
            return true;
        }
        born.kill().unwrap();
        born.wait().unwrap();
        false
    });
    child.unwrap()
}

fn inside() {
    let mut city = crowd(1).start();
    let agent = runs_as(&city, "a0", 1);
    let started = city.happened("agent.started", "a0").remove(0);
    let ours = [pid(&started["data"]["holder_pid"]), agent, city.pid()];
    city.kill();
    ours.into_iter().for_each(kill);
    until("they are gone", || {
        let there = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap();
        !ours.iter().any(there)
    });
    let strangers = ours.map(stranger);
    city.start();
    assert!(!ours.contains(&runs_as(&city, "a0", 2)));
    city.stop();
    for mut stranger in strangers {
        assert!(processes::runs(stranger.id()), "{stranger:?}");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}

/// In a pid namespace of its own the next pid can be chosen. Where the kernel allows none, the test has
/// nothing to stand on and says so; with `HORDE_TESTS_NEED_NAMESPACE` set it fails.
#[test]
fn who_has_the_pid_of_ours_is_neither_adopted_nor_ended() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let unshare = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(NAMESPACE).args(["-c", script, "sh"]);
        unshare
    };
    let allowed = unshare("echo 1000 >/proc/sys/kernel/ns_last_pid").status();
    if !allowed.is_ok_and(|status| status.success()) {
        let needed = std::env::var_os("HORDE_TESTS_NEED_NAMESPACE").is_some();
        assert!(!needed, "no pid namespace can be made");
        eprintln!("skipped: no pid namespace can be made here");
        return;
    }
    // Whoever is pid 1 there has to wait for every orphan, as a shell does.
    let mut again = unshare(r#""$@"; exit $?"#);
    again.arg(std::env::current_exe().unwrap());
    again
        .args(["--exact", NAME, "--nocapture"])
        .env(INSIDE, "1");
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}
