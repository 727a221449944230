//! The keeper of a command that the daemon runs (`runs`): a small process between the daemon and the command. It is the
//! subreaper of everything that the command starts, so that no process of a run leaves the tree below it, whatever
//! session, parent or environment it gives up. When the command has ended, the keeper ends everything below it,
//! and ends as the command ended.
//!
//! This file starts it and reads its report; [`process`] is its code. A program whose processes may outlive it runs
//! below an [`anchor`] instead.

mod anchor;
mod process;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::libc;
use nix::sys::prctl::set_dumpable;
use serde::{Deserialize, Serialize};

pub use self::process::PATIENCE;
use super::children;
use super::sessions::holder;

/// The subcommand that makes the program a keeper.
const KEEP: &str = "keep";
/// The subcommand that makes the program an anchor.
const ANCHOR: &str = "anchor";

/// The program of keepers.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program of keepers. Without it, this process's own program is used.
pub fn keep_with(program: PathBuf) {
    // A process has one such program, so only the first call counts.
    let _first = PROGRAM.set(program);
}

/// Runs a keeper or an anchor to its end, if these arguments of the process ask for one. Returns its exit code. Call
/// this before the process has any other thread.
#[must_use]
pub fn main_if_asked(args: &[OsString]) -> Option<u8> {
    let (subcommand, args) = args.split_first()?;
    match subcommand.to_str()? {
        KEEP => Some(process::keep_main(args)),
        ANCHOR => Some(anchor::anchor_main(args)),
        _ => None,
    }
}

/// The exit code of a keeper or an anchor that could not start its program, as a shell has it.
pub(super) const NOT_STARTED: u8 = 127;

/// The report of a keeper, a line of JSON on its standard error: what its end does not tell. The keeper ends as its
/// command ended, because only that cannot be written by another process of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    /// The reason why the command could not be started.
    pub(super) not_started: Option<String>,
    /// The number of processes that no signal of the keeper ended.
    pub(super) left: u32,
}

/// Ends this process by a signal. Returns if the signal ends no process.
fn end_by(signal: i32) {
    // The command's own memory is what a core file would be of use for.
    let _no_core = set_dumpable(false);
    // SAFETY: this process has one thread, and no handlers.
    unsafe { children::raise_alone(signal) }
}

/// Ends this process as a program ended: by the same signal, or else returns its exit code.
fn end_as(code: Option<i32>, signal: Option<i32>) -> u8 {
    let code = code.unwrap_or_else(|| {
        let signal = signal.unwrap_or(libc::SIGKILL);
        end_by(signal);
        128 + signal
    });
    u8::try_from(code).unwrap_or(u8::MAX)
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
    let mut keeper = own_program();
    keeper.args([KEEP, line]).process_group(0);
    keeper
}

/// Makes an anchor that runs this program, with the arguments that are added. It must be made the leader of a process
/// group. The program gets its environment, its directory, its input and its outputs.
pub(super) fn anchored(program: &Path) -> Command {
    let mut anchor = own_program();
    anchor.arg(ANCHOR).arg(program);
    anchor
}

fn own_program() -> Command {
    let own_image = || format!("/proc/{}/exe", std::process::id()).into();
    // No `pre_exec`, so this is `posix_spawn`, whatever the size of the daemon.
    let mut command = Command::new(PROGRAM.get().cloned().unwrap_or_else(own_image));
    command.arg0(holder::PROGRAM);
    command
}

/// Returns true if a process was started as a keeper.
pub(super) fn is_keeper(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
    words.next() == Some(OsStr::new(holder::PROGRAM)) && words.next() == Some(OsStr::new(KEEP))
}

#[cfg(test)]
mod tests;
