//! The child processes of a subreaper, a holder or a keeper: the program that it started, and the orphans that it
//! adopted.

use std::io;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};

use super::proc::{self, Pidfd};

/// The time after which a process that survives KILL counts as stuck in the kernel.
pub const UNKILLABLE: Duration = Duration::from_secs(5);

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

/// Returns the end of this child, unreaped so that its pid is not reused; none if it has not ended.
///
/// # Errors
/// `ECHILD`: there is no such child.
pub fn peek_one(pid: u32) -> io::Result<Option<Dead>> {
    wait(libc::P_PID, pid, libc::WNOHANG | libc::WNOWAIT)
}

/// Returns a child that has ended, unreaped so that its pid is not reused; none if no child has.
///
/// # Errors
/// `ECHILD`: there are no children at all.
pub fn peek() -> io::Result<Option<Dead>> {
    wait(libc::P_ALL, 0, libc::WNOHANG | libc::WNOWAIT)
}

/// Like [`peek`], and reaps it.
///
/// # Errors
/// `ECHILD`: there are no children at all.
pub fn reap() -> io::Result<Option<Dead>> {
    wait(libc::P_ALL, 0, libc::WNOHANG)
}

/// Waits for the next end of a child, and reaps it.
///
/// # Errors
/// `ECHILD`: there are no children at all.
pub fn reap_next() -> io::Result<Dead> {
    loop {
        match wait(libc::P_ALL, 0, 0) {
            Ok(Some(dead)) => return Ok(dead),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Reaps one child that was seen to have ended.
pub fn reap_one(pid: u32) {
    // It existed a moment ago and is our child; a failure shows in the next look.
    let _reaped = wait(libc::P_PID, pid, libc::WNOHANG);
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
    let flags = libc::WEXITED | more;
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

/// The result of ending all child processes.
#[derive(Debug)]
pub struct Emptied {
    /// The end of the program that was started; none if it cannot be ended.
    pub first: Option<Dead>,
    /// The number of other processes that were ended.
    pub others: u32,
    /// The number of processes that could not be ended.
    pub undead: u32,
}

/// Kills and reaps until the kernel reports no children. This process must be a subreaper: then every process that
/// `first` left, daemonised or not, is below this one. `signals` reports SIGCHLD.
pub fn end_all(first: u32, signals: &SignalFd) -> Emptied {
    let mut emptied = Emptied {
        first: None,
        others: 0,
        undead: 0,
    };
    let deadline = Instant::now() + UNKILLABLE;
    loop {
        match reap() {
            Ok(Some(dead)) if dead.pid == first => emptied.first = Some(dead),
            Ok(Some(_)) => emptied.others += 1,
            Ok(None) => {
                let left = proc::descendants(std::process::id()).unwrap_or_default();
                if Instant::now() >= deadline {
                    // At least one: there are children, even if they are invisible.
                    emptied.undead = u32::try_from(left.len().max(1)).unwrap_or(u32::MAX);
                    return emptied;
                }
                for process in left {
                    if let Ok(Some(pidfd)) = Pidfd::open(&process) {
                        // A process that ended before the signal needs none.
                        let _gone = pidfd.signal(rustix::process::Signal::KILL);
                    }
                }
                wait_for_a_child(signals);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // No children: nothing is left.
            Err(_) => return emptied,
        }
    }
}

/// Waits for the next child's end, or a moment: a process that forked while it was killed may have left a child whose
/// existence no end announces.
fn wait_for_a_child(signals: &SignalFd) {
    let moment = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    // The caller looks again after any result.
    let _woken = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&moment));
    while let Ok(Some(_)) = signals.read_signal() {}
}

/// Resets all signals to default dispositions and an empty mask, whatever this process uses or was started with.
/// To be called between fork and exec.
///
/// # Safety
/// The process has one thread, and none of its signal handlers is needed any more.
pub unsafe fn reset_signals() {
    // SAFETY: as the caller promises; zeroed is a valid empty set.
    unsafe {
        for signal in SIGNALS {
            set_action(signal, DEFAULT);
        }
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Sends this process a signal with its default action, and no other that is pending or comes meanwhile has one. Returns
/// if the signal ends no process.
///
/// # Safety
/// As for [`reset_signals`].
pub unsafe fn raise_alone(signal: i32) {
    // SAFETY: as the caller promises; zeroed is a valid empty set.
    unsafe {
        for other in SIGNALS.filter(|other| *other != signal) {
            set_action(other, IGNORE);
        }
        set_action(signal, DEFAULT);
        let mut one: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut one, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &one, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// The numbers of all signals.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// The first word of the kernel's structure of an action, on the machines where that is the handler.
const DEFAULT: u64 = libc::SIG_DFL as u64;
const IGNORE: u64 = libc::SIG_IGN as u64;

/// Sets the action of a signal by system call: the C library reserves 32 and 33, even if a parent left them ignored.
///
/// # Safety
/// The handler that is replaced is not needed any more.
unsafe fn set_action(signal: i32, handler: u64) {
    // Without a flag that is set, the rest of the structure has no meaning but its mask, which is empty.
    let action = [handler, 0, 0, 0, 0, 0, 0, 0];
    let set_size = 8_usize;
    // SAFETY: the kernel reads at most the 64 bytes given. An action that cannot be set (KILL, STOP) stays.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            std::ptr::null_mut::<u64>(),
            set_size,
        );
    }
}
