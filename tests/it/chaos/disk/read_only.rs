//! A city whose disk turns read-only while it runs.

use serde_json::json;

use super::super::{count, kill, named, runs_as};
use super::{two_run_on, waits};
use crate::support::city::snapshot;
use crate::support::disk::{Disk, read_only};
use crate::support::namespace::apart;
use crate::support::processes;

/// Files that the supervisor and the agents have open for writing stay writable, so the store goes on. Every operation
/// that needs a new file is retried or refused.
#[test]
#[ignore = "long tier: chaos"]
fn a_city_that_turns_read_only_loses_nothing_and_goes_on_when_it_may_be_written_to() {
    if !apart(a_city_that_turns_read_only_loses_nothing_and_goes_on_when_it_may_be_written_to) {
        return;
    }
    let disk = Disk::new();
    let (city, _elsewhere, killed, other) = two_run_on(&disk);
    let steps = [
        "commit a.txt",
        "printf more >>a.txt",
        "sign ready",
        "await go",
        "git commit -qam more",
        "hd done",
    ];
    let relic = city.work("finish", &steps);
    let second = city.relic("second", &["commit b.txt", "hd done"]);
    city.wait_sign("ready");
    let session = city.wait_session(&relic, 1)["session"].clone();
    let sandbox = snapshot(&city.sandbox("Toast"));
    read_only(city.root(), true);

    kill(killed);
    waits(&city, "a0");
    let charge: &[&str] = &["charge", &second, "horde"];
    for order in [charge, &["raider", "nuke", "Toast", "--salvage", "--yes"]] {
        let refused = city.hd(order);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.err.contains("Read-only file system"), "{refused:?}");
    }
    assert_eq!(snapshot(&city.sandbox("Toast")), sandbox);
    assert_eq!(city.status_of(&relic), "hooked");
    assert!(processes::runs(other));
    assert_eq!(city.ask("status", json!({})).unwrap()["city"], "e2e");

    read_only(city.root(), false);
    runs_as(&city, "a0", 2);
    // The nuke was not even able to look at the sandbox, so the session goes on.
    assert_eq!(city.wait_session(&relic, 1)["session"], session);
    assert_eq!(snapshot(&city.sandbox("Toast")), sandbox);
    city.sign("go");
    city.wait_status(&relic, "closed");
    city.charge(&second);
    city.wait_status(&second, "closed");
    city.wait_no_raiders();
    let landed = city.landed();
    assert!(
        ["a.txt", "b.txt"]
            .iter()
            .all(|file| landed.contains(&(*file).to_owned()))
    );
    assert_eq!(runs_as(&city, "a1", 1), other);
    assert_eq!(named(&city, "sleep").len(), 2);
    assert_eq!(
        count(&city, "agent.crashed"),
        1,
        "a start that waits is no death"
    );
}
