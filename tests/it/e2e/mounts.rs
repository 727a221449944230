//! A person's directory is mounted in the sandbox of a raider, under the daemon. No completion, patrol or nuke deletes a
//! file of it, and the sandbox goes by itself once it is unmounted.

use std::fs;

use nix::sys::signal::Signal;

use crate::custody_mounts::Mounted;
use crate::support::live::{City, until};
use crate::support::namespace::apart;
use crate::support::plan::Plan;

fn plan() -> Plan {
    Plan::new()
        .set("daemon", "patrol_interval", r#""1s""#)
        .file(".gitignore", "target/\n")
}

/// Mounts a person's directory among the ignored files of Toast.
fn mounted(city: &City) -> Mounted {
    let place = city.sandbox("Toast").join("target/data");
    Mounted::at(&place, &city.root().join("persons"))
}

fn is_kept(city: &City) -> bool {
    let persons = fs::read_to_string(city.root().join("persons/precious"));
    persons.is_ok() && city.sandbox("Toast").join("target/data/precious").exists()
}

/// Asks for a nuke with and without salvage: it names the mount, and nothing goes.
fn assert_nuke_names_the_mount(city: &City) {
    for more in [&["--yes"][..], &["--salvage", "--yes"]] {
        // A patrol may be at it: then the answer is a conflict.
        until("the mount is named", || {
            let refused = city.hd(&[&["raider", "nuke", "Toast"], more].concat());
            assert_ne!(refused.code, 0, "{refused:?}");
            assert!(is_kept(city), "{more:?}");
            refused.err.contains("mount point")
        });
    }
}

/// The directory is mounted when the work is handed over already, before or after it landed: the daemon dies before it
/// removes the sandbox. The next patrol calls a person, and goes on once it is unmounted.
/// Case A59b of an adversary: such a mount in a finished sandbox.
#[test]
fn patrol_after_a_completion_does_not_reach_through_a_mount() {
    if !apart(patrol_after_a_completion_does_not_reach_through_a_mount) {
        return;
    }
    for (fault, lands) in [
        ("witness.ready.before:1", false),
        ("nuke.intent.before:1", true),
    ] {
        let mut city = City::made(&plan());
        city.start_to_die(fault);
        let relic = city.work("with a mount", &["commit a.txt", "hd done", "forever"]);
        city.wait_killed_by(Signal::SIGABRT);
        let mount = mounted(&city);
        city.start();
        until("a person is called", || {
            let told = city.hd(&["escalations"]).json().to_string();
            told.contains("mount point")
        });
        match lands {
            true => city.wait_status(&relic, "closed"),
            false => assert_eq!(city.status_of(&relic), "hooked"),
        }
        assert!(is_kept(&city), "{fault}");
        assert_nuke_names_the_mount(&city);
        drop(mount);
        city.wait_status(&relic, "closed");
        city.wait_no_raiders();
        assert!(!city.sandbox("Toast").exists(), "{fault}");
        assert!(city.root().join("persons/precious").exists(), "{fault}");
        city.stop();
    }
}

/// The agent is told why its completion is refused, and may complete once the directory is unmounted.
#[test]
fn completion_and_nuke_of_a_raider_at_work_do_not_reach_through_a_mount() {
    if !apart(completion_and_nuke_of_a_raider_at_work_do_not_reach_through_a_mount) {
        return;
    }
    let mut city = plan().start();
    let steps = [
        "commit a.txt",
        "sign made",
        "await mounted",
        "try refused hd done",
        "await unmounted",
        "hd done",
        "forever",
    ];
    let relic = city.work("with a mount", &steps);
    city.wait_sign("made");
    let mount = mounted(&city);
    city.sign("mounted");
    let refused = city.wait_tried("refused");
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.err.contains("mount point"), "{refused:?}");
    assert_nuke_names_the_mount(&city);
    drop(mount);
    city.sign("unmounted");
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert!(!city.sandbox("Toast").exists());
    assert!(city.root().join("persons/precious").exists());
    city.stop();
}
