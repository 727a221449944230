//! A supervisor that is started on a disk that cannot be written.

use super::super::{kill, named, runs_as};
use super::{city_on, two_agents, two_run_on, write};
use crate::support::disk::{Disk, read_only};
use crate::support::live::{City, until};
use crate::support::namespace::apart;
use crate::support::processes;

/// Starts a supervisor, which must end with a clear message about a path in its state directory.
fn refused(city: &City) -> String {
    let mut supervisor = city.program("horde-supervisor");
    let output = supervisor.arg(city.root()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let state = city.root().join(".horde");
    assert!(said.contains(state.to_str().unwrap()), "{said}");
    assert!(
        said.contains("check that its disk has free space and is writable"),
        "{said}"
    );
    assert!(!said.contains("panic"), "{said}");
    said
}

/// Without room for bytes, without room for file names, and without permission to write, the message names the path and
/// the next step, and the next start finds nothing half made.
#[test]
#[ignore = "long tier: chaos"]
fn a_supervisor_that_has_no_room_to_start_says_so_and_starts_when_there_is_some() {
    if !apart(a_supervisor_that_has_no_room_to_start_says_so_and_starts_when_there_is_some) {
        return;
    }
    let disk = Disk::new();
    let (mut city, _elsewhere) = city_on(&disk, &two_agents());
    disk.fill();
    refused(&city);
    disk.free();
    disk.take_names();
    refused(&city);
    disk.free();
    city.start();
    runs_as(&city, "a0", 1);
    write(&city).unwrap();
    city.stop();
    read_only(&city.root().join(".horde"), true);
    refused(&city);
    read_only(&city.root().join(".horde"), false);
    city.start();
    runs_as(&city, "a0", 2);
}

/// If its own files exist already, a supervisor needs no room to adopt its sessions.
#[test]
#[ignore = "long tier: chaos"]
fn supervisor_killed_on_a_full_disk_loses_no_agent() {
    if !apart(supervisor_killed_on_a_full_disk_loses_no_agent) {
        return;
    }
    let disk = Disk::new();
    let (mut city, _elsewhere, killed, other) = two_run_on(&disk);
    let relic = city.work(
        "finish",
        &["commit a.txt", "sign ready", "await room", "hd done"],
    );
    city.wait_sign("ready");
    let raider = city.wait_session(&relic, 1)["session"].clone();
    disk.fill();
    until("nothing can be put on record", || write(&city).is_err());
    kill(killed);
    super::waits(&city, "a0");
    city.kill();
    city.start();
    assert_eq!(runs_as(&city, "a1", 1), other);
    city.kill();
    assert!(processes::runs(other));
    disk.free();
    city.start();
    assert_eq!(runs_as(&city, "a1", 1), other);
    assert_eq!(
        city.wait_session(&relic, 1)["session"]["pid"],
        raider["pid"]
    );
    runs_as(&city, "a0", 2);
    city.sign("room");
    city.wait_status(&relic, "closed");
    assert_eq!(named(&city, "sleep").len(), 2);
}
