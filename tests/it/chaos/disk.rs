//! Disks that cannot be written: a full disk, a read-only disk, a limit on the size of files.

mod full;
mod quota;
mod read_only;
mod start;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;

use horde_supervisor::control::protocol::{ControlError, ErrorKind};
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{agent, count, crowd, kill, runs_as};
use crate::support::disk::Disk;
use crate::support::live::{City, until};
use crate::support::plan::Plan;

/// Two agents that only wait, quarantined at their second death.
fn two_agents() -> Plan {
    let agents = ["a0", "a1"].map(|name| agent(name, "exec sleep 100000"));
    let plan = Plan::new().set("daemon", "max_restarts", "1");
    plan.add(&agents.concat())
}

/// The city of a plan on a disk. The signs of the test's agents are on another disk, so that they can always be
/// written.
fn city_on(disk: &Disk, plan: &Plan) -> (City, TempDir) {
    let city = City::made_in(disk.path(), plan);
    let elsewhere = horde_supervisor::testing::scratch();
    for part in ["signs", "seen"] {
        fs::remove_dir(city.root().join(part)).unwrap();
        fs::create_dir(elsewhere.path().join(part)).unwrap();
        symlink(elsewhere.path().join(part), city.root().join(part)).unwrap();
    }
    (city, elsewhere)
}

/// Starts a city of two agents on a disk. Returns it with their processes.
fn two_run_on(disk: &Disk) -> (City, TempDir, u32, u32) {
    let (mut city, elsewhere) = city_on(disk, &two_agents());
    city.start();
    let (one, other) = (runs_as(&city, "a0", 1), runs_as(&city, "a1", 1));
    (city, elsewhere, one, other)
}

/// An order that must be recorded.
fn write(city: &City) -> Result<Value, ControlError> {
    city.ask("relic.create", json!({ "title": "fill", "rig": "horde" }))
}

/// Waits until an agent's restart is put off; it is never quarantined meanwhile.
fn waits(city: &City, name: &str) {
    until(&format!("{name} waits"), || {
        let agents = city.ask("agent.list", json!({})).unwrap();
        let mut agents = agents.as_array().unwrap().iter();
        let agent = agents.find(|agent| agent["name"] == name).unwrap();
        assert_ne!(agent["state"], "quarantined", "{agent}");
        agent["state"] == "backoff"
    });
}

/// A size above that of session records, and below that of the store's log.
const SMALL: u64 = 64 * 1024;

fn limit(city: &City, bytes: Option<u64>) {
    let pid = Pid::from_raw(city.pid().try_into().unwrap());
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

/// The store cannot grow: the daemon cannot write files above a size (`RLIMIT_FSIZE`), which the store's log soon
/// reaches and the small records of sessions do not.
#[test]
#[ignore = "long tier: chaos"]
fn sessions_run_on_and_restart_while_nothing_can_be_written() {
    let mut city = City::made(&crowd(2));
    let mut supervisor = city.supervisor();
    // SAFETY: between fork and exec only `signal` is called, which is async-signal-safe.
    unsafe {
        supervisor.pre_exec(|| {
            // Without this the kernel kills the process at the limit; a full disk only returns an error.
            signal(Signal::SIGXFSZ, SigHandler::SigIgn)?;
            Ok(())
        });
    }
    city.start_as(supervisor);
    let (first, other) = (runs_as(&city, "a0", 1), runs_as(&city, "a1", 1));
    let log = city.root().join(".horde/relics.db-wal");
    until("the log of the store is large", || {
        write(&city).unwrap();
        fs::metadata(&log).is_ok_and(|meta| meta.len() > 2 * SMALL)
    });
    limit(&city, Some(SMALL));
    let refused = write(&city).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    kill(first);
    runs_as(&city, "a0", 2);
    assert_eq!(runs_as(&city, "a1", 1), other);
    assert!(write(&city).is_err());
    limit(&city, None);
    until("it recovers by itself", || write(&city).is_ok());
    assert_eq!(count(&city, "store.degraded"), 1, "one alarm");
    let crashed = city.happened("agent.crashed", "a0");
    assert_eq!(crashed.len(), 1, "told afterwards");
}

/// A log that cannot be written ends no process, in either format.
#[test]
#[ignore = "long tier: chaos"]
fn a_log_that_takes_nothing_costs_only_the_log() {
    for format in ["json", "pretty"] {
        let mut city = City::made(&crowd(1));
        let mut supervisor = city.supervisor();
        let full = File::options().write(true).open("/dev/full").unwrap();
        supervisor.args(["--log-format", format, "--log-level", "debug"]);
        supervisor.stderr(full);
        city.start_as(supervisor);
        kill(runs_as(&city, "a0", 1));
        runs_as(&city, "a0", 2);
        assert_eq!(count(&city, "agent.crashed"), 1);
        city.stop();
    }
}
