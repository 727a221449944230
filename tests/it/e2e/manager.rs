//! A service manager that listens (2.1): told that the city is ready, that it lives, and that it stops.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::git::git;
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

/// A manager, and the daemon of the city as it is to be started under it.
fn managed(city: &City) -> (UnixDatagram, Command) {
    let socket = city.root().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut daemon = city.supervisor();
    daemon.env("NOTIFY_SOCKET", &socket);
    (manager, daemon)
}

/// Stopping takes as long as the agents' grace: the manager hears of it at its beginning.
#[test]
fn a_service_manager_hears_that_it_stops_while_it_does() {
    let plan = Plan::new().set("daemon", "shutdown_timeout", r#""10m""#);
    let city = City::made(&plan);
    let (manager, mut daemon) = managed(&city);
    let mut daemon = daemon.spawn().unwrap();
    heard(&manager, "READY=1");
    city.work("ignore", &["trap '' TERM INT HUP", "sign ready", "forever"]);
    city.wait_sign("ready");
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    assert!(daemon.try_wait().unwrap().is_none(), "it is still stopping");
    processes::signal(daemon.id(), Signal::SIGTERM);
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_service_manager_hears_of_a_stop_during_the_start() {
    let city = City::made(&Plan::new());
    let remote = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("git://{}/silent.git", remote.local_addr().unwrap());
    let checkout = city.root().join("horde-checkout");
    git(&checkout, &["remote", "set-url", "origin", &url]);
    let (manager, mut daemon) = managed(&city);
    let mut daemon = daemon.spawn().unwrap();
    let (_silent, _) = remote.accept().unwrap();
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_service_manager_hears_that_the_root_lives() {
    let city = City::made(&Plan::new());
    let (manager, mut daemon) = managed(&city);
    let mut daemon = daemon.env("WATCHDOG_USEC", "100000").spawn().unwrap();
    for what in ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] {
        heard(&manager, what);
    }
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}
