//! The ends of the holder's children: its agent, and the orphans that it adopted.

use std::io;

use nix::libc;

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dead {
    /// Its pid.
    pub pid: u32,
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it (real-time signals included).
    pub signal: Option<i32>,
}

impl Dead {
    /// Returns true if it ended like a program after the interrupt or the quit key: by the signal, or with the exit
    /// code that shells and programs that handle the signal use for it.
    pub fn is_interrupted(&self) -> bool {
        const INTERRUPT: i32 = 2;
        const QUIT: i32 = 3;
        [INTERRUPT, QUIT]
            .iter()
            .any(|signal| self.signal == Some(*signal) || self.code == Some(128 + *signal))
    }
}

/// Returns a child that has ended, unreaped so that its pid is not reused; none if no child has.
///
/// # Errors
/// `ECHILD`: there are no children at all.
pub fn peek() -> io::Result<Option<Dead>> {
    wait(libc::P_ALL, 0, libc::WNOWAIT)
}

/// Like [`peek`], and reaps it.
///
/// # Errors
/// `ECHILD`: there are no children at all.
pub fn reap() -> io::Result<Option<Dead>> {
    wait(libc::P_ALL, 0, 0)
}

/// Reaps one child that was seen to have ended.
pub fn reap_one(pid: u32) {
    // It existed a moment ago and is our child; a failure shows in the next look.
    let _reaped = wait(libc::P_PID, pid, 0);
}

/// Returns the signal that stopped this child, if it was stopped since the last look.
pub fn stopped(pid: u32) -> Option<i32> {
    let flags = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: zeroed is a valid `siginfo_t`; the kernel fills it in or leaves the pid 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let asked = libc::waitid(libc::P_PID, pid, &raw mut info, flags);
        (asked == 0 && info.si_pid() != 0).then(|| info.si_status())
    }
}

fn wait(which: libc::idtype_t, pid: u32, more: libc::c_int) -> io::Result<Option<Dead>> {
    let flags = libc::WEXITED | libc::WNOHANG | more;
    // SAFETY: zeroed is a valid `siginfo_t`, and with `WEXITED` the kernel fills in a child's end
    // or leaves the pid 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        if libc::waitid(which, pid, &raw mut info, flags) < 0 {
            return Err(io::Error::last_os_error());
        }
        let Ok(pid @ 1..) = u32::try_from(info.si_pid()) else {
            return Ok(None);
        };
        let by_itself = info.si_code == libc::CLD_EXITED;
        let number = info.si_status();
        Ok(Some(Dead {
            pid,
            code: by_itself.then_some(number),
            signal: (!by_itself).then_some(number),
        }))
    }
}
