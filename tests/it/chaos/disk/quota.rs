//! A city whose user has used up the disk quota (EDQUOT, where a full disk gives ENOSPC). A library that is preloaded
//! into the supervisor returns that error: few kernels have quotas that a test can set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use horde_supervisor::control::protocol::ErrorKind;

use super::super::{count, kill, runs_as};
use super::{two_agents, write};
use crate::support::live::{City, until};
use crate::support::processes;

fn library(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("quota.c"), dir.join("quota.so"));
    fs::write(&source, include_str!("quota.c")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
    assert!(
        compiler
            .arg(&library)
            .arg(&source)
            .status()
            .unwrap()
            .success()
    );
    library
}

/// Orders are refused; sessions run on, and a session that ends is replaced: its small records are written by system
/// calls that bypass the library, as a disk may have room for them.
#[test]
#[ignore = "long tier: chaos"]
fn used_up_quota_is_a_full_disk() {
    let mut city = City::made(&two_agents());
    let flag = city.root().join("used-up");
    let mut supervisor = city.supervisor();
    supervisor.env("LD_PRELOAD", library(city.root()));
    supervisor.env("QUOTA_USED_UP", &flag);
    city.start_as(supervisor);
    let (killed, other) = (runs_as(&city, "a0", 1), runs_as(&city, "a1", 1));
    fs::write(&flag, "").unwrap();
    until("nothing can be put on record", || {
        write(&city).is_err_and(|refused| refused.kind == ErrorKind::Unavailable)
    });
    kill(killed);
    runs_as(&city, "a0", 2);
    assert!(processes::runs(other));
    assert!(write(&city).is_err());
    fs::remove_file(&flag).unwrap();
    until("it recovers by itself", || write(&city).is_ok());
    assert_eq!(runs_as(&city, "a1", 1), other);
    assert_eq!(count(&city, "store.degraded"), 1, "one alarm");
    assert_eq!(count(&city, "agent.crashed"), 1, "told afterwards");
}
