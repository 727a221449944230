//! The processes of a city, found by the kernel's data and not by the daemon's.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub use horde_supervisor::testing::watchdog::processes_of as of;

/// Returns whether a process runs; a zombie does not.
pub fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Returns whether a process handles TERM itself.
pub fn hears_term(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let caught = lines.find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (Signal::SIGTERM as u32 - 1)) != 0)
}

/// Sends a signal; a process that is gone needs none.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().expect("a pid"));
    match kill(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("{signal} to {pid}: {error}"),
    }
}

/// Describes processes, for the message of a failed test.
pub fn describe(pids: &[u32]) -> String {
    let line = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!(
            "{pid} {}",
            String::from_utf8_lossy(&words).replace('\0', " ")
        )
    };
    pids.iter().map(line).collect::<Vec<_>>().join("\n")
}
