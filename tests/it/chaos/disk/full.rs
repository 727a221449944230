//! A city whose disk is full while it runs.

use horde_supervisor::control::protocol::ErrorKind;
use serde_json::json;

use super::super::{count, kill, named, runs_as};
use super::{city_on, two_agents, two_run_on, waits, write};
use crate::support::city::snapshot;
use crate::support::disk::Disk;
use crate::support::live::{City, until};
use crate::support::namespace::apart;
use crate::support::processes;

const TOAST: &str = "horde/raiders/Toast";

/// Fills the disk, and the free space inside the store.
fn fill(disk: &Disk, city: &City) {
    disk.fill();
    until("nothing can be put on record", || {
        write(city).is_err_and(|refused| refused.kind == ErrorKind::Unavailable)
    });
}

/// Orders are refused, looks are answered, running sessions go on. A session that ends cannot be replaced, because its
/// start must be recorded: it waits, and the wait does not count as a restart. No work of a raider is touched.
/// Everything continues by itself as soon as there is room.
#[test]
#[ignore = "long tier: chaos"]
fn on_a_full_disk_sessions_run_on_and_all_is_well_when_there_is_room() {
    if !apart(on_a_full_disk_sessions_run_on_and_all_is_well_when_there_is_room) {
        return;
    }
    let disk = Disk::new();
    let (city, _elsewhere, killed, other) = two_run_on(&disk);
    let steps = [
        "commit a.txt",
        "sign ready",
        "await full",
        "try done hd --json done",
        "await room",
        "hd done",
    ];
    let relic = city.work("finish", &steps);
    city.wait_sign("ready");
    let raider = city.wait_session(&relic, 1)["session"].clone();
    let sandbox = snapshot(&city.sandbox("Toast"));
    fill(&disk, &city);

    kill(killed);
    waits(&city, "a0");
    city.sign("full");
    let done = city.wait_tried("done").error(3);
    let message = done["message"].as_str().unwrap();
    assert!(
        message.contains("full") && message.contains(".horde/outbox"),
        "{done}"
    );
    let nuke = ["raider", "nuke", "Toast", "--salvage", "--yes"];
    assert_eq!(city.hd(&nuke).error(3)["kind"], "unavailable");
    assert_eq!(snapshot(&city.sandbox("Toast")), sandbox);
    assert_eq!(city.wait_session(&relic, 1)["session"], raider);
    assert_eq!(city.status_of(&relic), "hooked");
    assert!(processes::runs(other));
    assert!(write(&city).is_err(), "all this made no room");

    disk.free();
    until("it recovers by itself", || write(&city).is_ok());
    runs_as(&city, "a0", 2);
    city.sign("room");
    city.wait_status(&relic, "closed");
    city.wait_no_raiders();
    assert!(city.landed().contains(&"a.txt".to_owned()));
    assert_eq!(runs_as(&city, "a1", 1), other);
    assert_eq!(named(&city, "sleep").len(), 2);
    assert_eq!(count(&city, "store.degraded"), 1, "one alarm");
    assert_eq!(
        count(&city, "agent.crashed"),
        1,
        "told afterwards, and a start that waits is no death"
    );
    assert_eq!(count(&city, "agent.started"), 4);
}

/// There is room to record an order, and none for its work: salvage that cannot be written destroys nothing, and the
/// raider continues when it can be started again.
#[test]
#[ignore = "long tier: chaos"]
fn a_nuke_whose_salvage_has_no_room_destroys_nothing() {
    if !apart(a_nuke_whose_salvage_has_no_room_destroys_nothing) {
        return;
    }
    let disk = Disk::new();
    let (mut city, _elsewhere) = city_on(&disk, &two_agents());
    city.start();
    let steps = [
        "[ $n = 1 ] || forever",
        "commit a.txt",
        "printf more >>a.txt",
        "printf new >new.txt",
        "sign ready",
        "forever",
    ];
    let relic = city.work("dirty", &steps);
    city.wait_sign("ready");
    let sandbox = snapshot(&city.sandbox("Toast"));
    disk.take_names();
    write(&city).unwrap();
    let refused = city.hd(&["raider", "nuke", "Toast", "--salvage", "--yes"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("No space left"), "{refused:?}");
    assert_eq!(snapshot(&city.sandbox("Toast")), sandbox);
    assert_eq!(city.status_of(&relic), "hooked");
    assert_eq!(city.ask("salvage.list", json!({})).unwrap(), json!([]));
    assert_eq!(city.happened("agent.quarantined", TOAST).len(), 0);
    disk.free();
    // If the nuke was able to look at the sandbox, the session was ended, and there is another.
    city.wait_session(&relic, 1);
    assert_eq!(snapshot(&city.sandbox("Toast")), sandbox);
    city.hd(&["raider", "nuke", "Toast", "--salvage", "--yes"])
        .json();
    assert_eq!(
        city.ask("salvage.list", json!({}))
            .unwrap()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
