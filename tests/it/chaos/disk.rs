//! A store that cannot grow. Files above a size cannot be written by the daemon (`RLIMIT_FSIZE`), which
//! the store's log is at once and the small records of sessions are not.

use std::fs;
use std::os::unix::process::CommandExt;

use horde_supervisor::control::protocol::ErrorKind;
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::{count, crowd, kill, runs_as};
use crate::support::live::{City, until};

/// Above what a session's records are, below what the log of the store is.
const SMALL: u64 = 64 * 1024;

fn limit(city: &City, bytes: Option<u64>) {
    let pid = Pid::from_raw(city.pid().try_into().unwrap());
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

#[test]
fn sessions_run_on_and_restart_while_nothing_can_be_written() {
    let mut city = City::made(&crowd(2));
    let mut supervisor = city.supervisor();
    // SAFETY: between fork and exec only `signal` is called, which is async-signal-safe.
    unsafe {
        supervisor.pre_exec(|| {
            // Else the kernel ends who writes too much, where a full disk only says no.
            signal(Signal::SIGXFSZ, SigHandler::SigIgn)?;
            Ok(())
        });
    }
    city.start_as(supervisor);
    let (first, other) = (runs_as(&city, "a0", 1), runs_as(&city, "a1", 1));
    let relic = |title: &str| city.ask("relic.create", json!({ "title": title, "rig": "horde" }));
    let log = city.root().join(".horde/relics.db-wal");
    until("the log of the store is large", || {
        relic("fill").unwrap();
        fs::metadata(&log).is_ok_and(|meta| meta.len() > 2 * SMALL)
    });
    limit(&city, Some(SMALL));
    let refused = relic("too much").unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    kill(first);
    runs_as(&city, "a0", 2);
    assert_eq!(runs_as(&city, "a1", 1), other);
    assert!(relic("still too much").is_err());
    limit(&city, None);
    until("it recovers by itself", || relic("room again").is_ok());
    assert_eq!(count(&city, "store.degraded"), 1, "one alarm");
    let crashed = city.happened("agent.crashed", "a0");
    assert_eq!(crashed.len(), 1, "told afterwards");
}
