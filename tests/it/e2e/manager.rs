//! A service manager that listens (`contract.md`, 2.1): notified that the city is ready, that it lives, and that it stops.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::git::git;
use crate::support::live::{City, LIMIT, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// Returns the next message with this text.
fn heard(manager: &UnixDatagram, what: &str) -> String {
    wait(what, || {
        let text = next(manager);
        text.lines().any(|line| line == what).then_some(text)
    })
}

fn next(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    // A child that ends elsewhere in this process interrupts the call.
    let length = loop {
        match manager.recv(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => break received.expect("a word in time"),
        }
    };
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

/// Makes a manager, and a command for the city's daemon under it.
fn managed(city: &City) -> (UnixDatagram, Command) {
    let socket = city.root().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut daemon = city.supervisor();
    daemon.env("NOTIFY_SOCKET", &socket);
    (manager, daemon)
}

/// A socket without a file, as containers have it.
#[test]
fn a_service_manager_at_an_abstract_socket_is_told() {
    let city = City::made(&Plan::new());
    let name = city.root().join("notify").display().to_string();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut daemon = city.supervisor();
    let mut daemon = daemon
        .env("NOTIFY_SOCKET", format!("@{name}"))
        .spawn()
        .unwrap();
    heard(&manager, "READY=1");
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    assert!(wait("the daemon ends", || daemon.try_wait().unwrap()).success());
}

/// A stop takes as long as the agents' grace: the manager is notified at its beginning.
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
    heard(&manager, "READY=1");
    for _ in 0..2 {
        let alive = heard(&manager, "WATCHDOG=1");
        assert!(alive.contains("STATUS=0 sessions running"), "{alive}");
    }
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

/// SIGHUP, a noticed edit, `hd reload`; applied, unchanged or refused: the manager is notified of the beginning, with
/// its time, and always of the end.
#[test]
fn a_service_manager_hears_of_every_reload_and_of_its_end() {
    let city = City::made(&Plan::new());
    let (manager, mut daemon) = managed(&city);
    let mut daemon = daemon.spawn().unwrap();
    heard(&manager, "READY=1");
    let file = city.root().join("city.toml");
    let good = fs::read_to_string(&file).unwrap();
    // A change may be seen as two, and is notified twice then.
    let reloaded = |wanted: &str| loop {
        let begun = next(&manager);
        let (first, time) = begun.trim().split_once('\n').expect("two assignments");
        assert_eq!(first, "RELOADING=1");
        let time = time.strip_prefix("MONOTONIC_USEC=").expect("a time");
        assert!(time.parse::<u64>().is_ok(), "{time}");
        let over = next(&manager);
        assert!(over.starts_with("READY=1\nSTATUS="), "{over}");
        if over.contains(wanted) {
            break over.trim().to_owned();
        }
    };
    processes::signal(daemon.id(), Signal::SIGHUP);
    reloaded("the configuration is in force");
    // In a single step: a file written in two steps may be read in between.
    let save = |text: String| {
        let new = city.root().join(".city.toml.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &file).unwrap();
    };
    save(good.replace("max = 4", "max = 3"));
    reloaded("the configuration is in force");
    save(good.replace("max = 4", "mx = 4"));
    let refused = reloaded("refused; the previous one stays in force: ");
    assert_eq!(refused.lines().count(), 2, "{refused}");
    assert_eq!(city.hd(&["reload"]).code, 2);
    // Also when it was known already.
    reloaded("refused");
    processes::signal(daemon.id(), Signal::SIGTERM);
    heard(&manager, "STOPPING=1");
    let status = wait("the daemon ends", || daemon.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}
