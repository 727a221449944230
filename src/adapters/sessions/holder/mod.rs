//! The default provider of a session: a small detached process that owns the agent's terminal. This file starts it;
//! [`process`] is its code.

mod process;

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[cfg(test)]
pub(crate) use self::process::view_of;
pub use self::process::{hold_main, hold_pane_main};
pub(super) use self::process::{kill_cgroup, log_tail, remove_cgroup};

use super::launch::{HOLD, Launch, Reply, converse};

/// The program of a holder, and the name of its process in process lists, whatever path it was started by.
pub const PROGRAM: &str = "horde-session";

/// Starts a holder in the directory and waits for its reply.
///
/// # Errors
/// When it could not be started, or its reply is missing or invalid.
pub(super) fn start(exe: &Path, dir: &Path, launch: &Launch) -> io::Result<Reply> {
    // No `pre_exec`, so this is `posix_spawn`, whatever the size of the daemon. The holder detaches itself, so the
    // child that is waited for here is only its short-lived first process.
    let mut child = Command::new(exe)
        .arg0(PROGRAM)
        .args([OsStr::new(HOLD[0]), dir.as_os_str()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let reply = talk(&mut child, launch);
    if reply.is_err() {
        // It may be stuck before it detached; it has started nothing then.
        let _gone_already = child.kill();
    }
    child.wait()?;
    reply
}

fn talk(child: &mut Child, launch: &Launch) -> io::Result<Reply> {
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    converse(stdin, drop, stdout, launch)
}
