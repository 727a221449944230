//! The keeper of a command that the daemon runs (`runs`): a small process between the daemon and the command. It is the
//! subreaper of everything that the command starts, so that no process of a run leaves the tree below it, whatever
//! session, parent or environment it gives up. When the command has ended, the keeper ends everything below it,
//! reports the command's end and ends itself.
//!
//! This file starts it and reads its report; [`process`] is its code.

mod process;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

pub use self::process::{PATIENCE, keep_main};
use super::sessions::holder;

/// The subcommand that makes the program a keeper.
pub const KEEP: &str = "keep";

/// The program of keepers.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program of keepers. Without it, this process's own program is used.
pub fn keep_with(program: PathBuf) {
    // A process has one such program, so only the first call counts.
    let _first = PROGRAM.set(program);
}

/// The end of a command as its keeper reports it: a line of JSON on its standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The command ended by itself, with this exit code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
}

impl Report {
    /// Reads the report from everything that a keeper wrote; none if there is no report in it.
    pub(super) fn read(written: &[u8]) -> Option<Self> {
        let lines = written.split(|byte| *byte == b'\n').rev();
        lines.map(serde_json::from_slice).find_map(Result::ok)
    }
}

/// Makes a keeper that runs this line in a shell. It leads a process group of its own. The command gets its
/// environment, its directory, its standard input, and its standard output for both outputs.
pub(super) fn of(line: &str) -> Command {
    let own_image = || format!("/proc/{}/exe", std::process::id()).into();
    // No `pre_exec`, so this is `posix_spawn`, whatever the size of the daemon.
    let mut keeper = Command::new(PROGRAM.get().cloned().unwrap_or_else(own_image));
    keeper.arg0(holder::PROGRAM).args([KEEP, line]);
    keeper.process_group(0);
    keeper
}

/// Returns true if a process was started as a keeper.
pub(super) fn is_keeper(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
    words.next() == Some(OsStr::new(holder::PROGRAM)) && words.next() == Some(OsStr::new(KEEP))
}

#[cfg(test)]
mod tests;
