//! A service manager that listens (2.1): told that the city is ready, that it lives, and that it stops.

use std::os::unix::net::UnixDatagram;

use nix::sys::signal::Signal;

use crate::support::live::{City, LIMIT, wait};
use crate::support::plan::Plan;
use crate::support::processes;

fn heard(manager: &UnixDatagram, what: &str) {
    wait(what, || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).expect("a word in time");
        let text = std::str::from_utf8(&bytes[..length]).unwrap();
        text.lines().any(|line| line == what).then_some(())
    });
}

#[test]
fn a_service_manager_hears_that_the_root_lives() {
    let city = City::made(&Plan::new());
    let socket = city.root().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut daemon = city.supervisor();
    daemon.env("NOTIFY_SOCKET", &socket);
    let mut daemon = daemon.env("WATCHDOG_USEC", "100000").spawn().unwrap();
    for what in ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] {
        heard(&manager, what);
    }
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}
