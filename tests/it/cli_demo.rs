//! `hd demo`: the first command of the README.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::support::git::git;
use crate::support::live::until;

/// Raiders land real commits, the work is on the origin's branch, and the supervisor has stopped.
#[test]
fn demo_lands_the_work_of_its_raiders_and_stops() {
    let place = horde_supervisor::testing::scratch();
    let dir = place.path().join("demo");
    let hd = |words: &[&str]| {
        let mut hd = Command::new(cargo_bin("hd"));
        hd.env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", place.path().join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        hd.args(words).output().unwrap()
    };
    let path = dir.to_str().unwrap();
    let demo = hd(&["demo", "--raiders", "2", "--dir", path]);
    let told = String::from_utf8_lossy(&demo.stdout);
    assert!(demo.status.success(), "{demo:?}");
    let subjects = git(&dir.join("origin.git"), &["log", "--format=%s", "main"]);
    let landed: Vec<&str> = subjects.lines().collect();
    // Three of each raider, and the project.
    assert_eq!(landed.len(), 7, "{subjects}");
    for subject in landed {
        assert!(told.contains(subject), "{subject}: {told}");
    }
    assert_eq!(hd(&["--city", path, "ping"]).status.code(), Some(3));
    // The command that it suggests for more work is carried out by its agent.
    assert!(told.contains(" run \"Teach greet.sh german\"\n"), "{told}");
    for words in [&["up", "-d"][..], &["run", "Teach greet.sh german"]] {
        let ran = hd(&[&["--city", path], words].concat());
        assert!(ran.status.success(), "{ran:?}");
    }
    let subjects = || git(&dir.join("origin.git"), &["log", "--format=%s", "main"]);
    until("more work has landed", || {
        subjects().contains("Greet in german")
    });
    assert!(hd(&["--city", path, "stop"]).status.success());
}
