//! Starts the agent: own session, own terminal, clean signals and descriptors, its environment and nothing else.
//!
//! Everything that the child needs is made before the fork; between fork and exec it only makes system calls.

use std::ffi::{CString, NulError, c_char};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::libc;

use super::cgroup::Cgroup;
use super::terminal::Terminal;
use crate::adapters::sessions::files::TOKEN_VARIABLE;
use crate::adapters::sessions::launch::{Launch, Reply, candidates};
use crate::adapters::{children, proc};
use crate::domain::facts::ProcessId;

/// The `libc` crate has no such constant of a fitting type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// The stages at which the child can fail, as reported over its pipe.
const NO_CWD: u8 = b'c';
const NO_PROGRAM: u8 = b'p';
const NO_TERMINAL: u8 = b't';

/// The data that the child needs.
struct Prepared {
    candidates: Vec<CString>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    cwd: CString,
    open_files: Option<libc::rlimit>,
    // Owns the strings that `argv` and `envp` point to.
    _words: Vec<CString>,
}

/// Starts the agent on this terminal. It inherits the alive-lock as descriptor 3.
pub fn start(
    launch: &Launch,
    terminal: &Terminal,
    lock: BorrowedFd<'_>,
    cgroup: Option<&Cgroup>,
) -> Result<ProcessId, Reply> {
    if let Err(error) = std::fs::read_dir(&launch.cwd)
        && let Some(gone) = no_cwd(&error)
    {
        return Err(gone);
    }
    let prepared = Prepared::new(launch)?;
    let failed = |error: io::Error| Reply::Failed(format!("the agent's process: {error}"));
    let (reader, low) = io::pipe().map_err(failed)?;
    // High numbers, so that none of them collides with 0 to 3.
    let high = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 10);
    let writer = high(low.as_fd()).map_err(|error| failed(error.into()))?;
    // A remaining original would stay open, and the reader would never see the end.
    drop(low);
    let lock = high(lock).map_err(|error| failed(error.into()))?;
    match fork(cgroup).map_err(failed)? {
        0 => child(&prepared, terminal, lock.as_raw_fd(), writer.as_raw_fd()),
        pid => {
            drop((writer, lock));
            verdict(pid.cast_unsigned(), reader, launch)
        }
    }
}

/// Waits until the child runs its program or reports why it cannot.
fn verdict(pid: u32, mut reader: io::PipeReader, launch: &Launch) -> Result<ProcessId, Reply> {
    let mut said = Vec::new();
    let failed = |error: io::Error| Reply::Failed(format!("the agent's process: {error}"));
    reader.read_to_end(&mut said).map_err(failed)?;
    let Some((&stage, errno)) = said.split_first() else {
        return proc::identify(pid).map_err(failed);
    };
    let errno = errno.try_into().map_or(0, i32::from_ne_bytes);
    let why = io::Error::from_raw_os_error(errno);
    let reaped = rustix::process::Pid::from_raw(pid.cast_signed());
    // It is our child and has ended, so this cannot fail.
    let _ended = rustix::process::waitpid(reaped, rustix::process::WaitOptions::empty());
    Err(match stage {
        NO_CWD => no_cwd(&why)
            .unwrap_or_else(|| Reply::Failed(format!("{}: {why}", launch.cwd.display()))),
        NO_PROGRAM => Reply::NoProgram(describe(&why, launch)),
        _ => Reply::Failed(format!("the agent's terminal: {why}")),
    })
}

/// Returns a reply if the directory does not exist; an inaccessible directory is another error.
fn no_cwd(why: &io::Error) -> Option<Reply> {
    let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    gone.contains(&why.kind()).then_some(Reply::NoCwd)
}

fn describe(why: &io::Error, launch: &Launch) -> String {
    let plain = launch.argv.first().is_some_and(|name| !name.contains('/'));
    if plain && why.raw_os_error() == Some(libc::ENOENT) {
        return "it is not in the session's PATH".to_owned();
    }
    match why.raw_os_error() {
        Some(libc::ENOENT) => "no such file".to_owned(),
        Some(libc::EACCES) => "it is not executable".to_owned(),
        Some(libc::ENOEXEC) => "it is neither a binary nor a script with a #! line".to_owned(),
        _ => why.to_string(),
    }
}

impl Prepared {
    fn new(launch: &Launch) -> Result<Self, Reply> {
        let nul = |_: NulError| {
            Reply::NoProgram("a zero byte in its arguments or environment".to_owned())
        };
        let Some(program) = launch.argv.first().filter(|name| !name.is_empty()) else {
            return Err(Reply::NoProgram("the program is missing".to_owned()));
        };
        let mut words = Vec::with_capacity(launch.argv.len() + launch.env.len() + 1);
        for word in &launch.argv {
            words.push(CString::new(word.as_bytes()).map_err(nul)?);
        }
        for (key, value) in &launch.env {
            if key != TOKEN_VARIABLE {
                words.push(CString::new(format!("{key}={value}")).map_err(nul)?);
            }
        }
        words.push(CString::new(format!("{TOKEN_VARIABLE}={}", launch.token)).map_err(nul)?);
        let pointers = |words: &[CString]| -> Vec<*const c_char> {
            let ends = std::iter::once(std::ptr::null());
            words.iter().map(|word| word.as_ptr()).chain(ends).collect()
        };
        let (argv, envp) = words.split_at(launch.argv.len());
        Ok(Self {
            candidates: found_at(program, launch).map_err(nul)?,
            argv: pointers(argv),
            envp: pointers(envp),
            cwd: CString::new(launch.cwd.as_os_str().as_bytes()).map_err(nul)?,
            open_files: launch.open_files.and_then(soft_limit),
            _words: words,
        })
    }
}

fn soft_limit(soft: u64) -> Option<libc::rlimit> {
    let (_, hard) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).ok()?;
    Some(libc::rlimit {
        rlim_cur: soft.min(hard),
        rlim_max: hard,
    })
}

fn found_at(program: &str, launch: &Launch) -> Result<Vec<CString>, NulError> {
    let path = launch.env.get("PATH").map(String::as_str);
    let candidates = candidates(program, path).into_iter();
    candidates
        .map(|file| CString::new(file.into_os_string().into_encoded_bytes()))
        .collect()
}

/// Forks, directly into the cgroup if there is one: moving a process later costs milliseconds.
fn fork(cgroup: Option<&Cgroup>) -> io::Result<i32> {
    if let Some(cgroup) = cgroup {
        let target = cgroup.as_fd().as_raw_fd();
        // The fields of `struct clone_args`; zero means none.
        let mut arguments = [0_u64; 11];
        arguments[0] = CLONE_INTO_CGROUP;
        arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
        arguments[10] = u64::from(target.cast_unsigned());
        // SAFETY: without CLONE_VM this is a fork; this process has one thread, and the child makes
        // only system calls before it executes another program or exits.
        let pid = unsafe {
            libc::syscall(
                libc::SYS_clone3,
                arguments.as_ptr(),
                std::mem::size_of_val(&arguments),
            )
        };
        // Refused by an older kernel or a sandbox: the session does without containment.
        if let (false, Ok(pid)) = (pid < 0, i32::try_from(pid)) {
            return Ok(pid);
        }
    }
    // SAFETY: as above.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(pid)
}

/// Runs the child, from fork to exec.
fn child(prepared: &Prepared, terminal: &Terminal, lock: RawFd, failure: RawFd) -> ! {
    let in_pane = terminal.is_pane();
    let terminal = terminal.of_the_agent().as_raw_fd();
    // SAFETY: plain system calls on descriptors and memory that were made before the fork.
    unsafe {
        let taken = if in_pane {
            // The terminal belongs to our session, so a process group of its own in the foreground is enough.
            // (SIGTTOU is ignored, which the child inherits.)
            libc::setpgid(0, 0);
            libc::tcsetpgrp(terminal, libc::getpid())
        } else {
            libc::setsid();
            libc::ioctl(terminal, libc::TIOCSCTTY, 0)
        };
        if taken < 0 {
            fail(failure, NO_TERMINAL);
        }
        for target in 0..3 {
            if libc::dup2(terminal, target) < 0 {
                fail(failure, NO_TERMINAL);
            }
        }
        if libc::dup2(lock, 3) < 0 {
            fail(failure, NO_TERMINAL);
        }
        // Every descriptor of the holder is CLOEXEC anyway; a kernel without the call loses nothing.
        libc::syscall(
            libc::SYS_close_range,
            4_u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        libc::umask(0o022);
        children::reset_signals();
        if let Some(limit) = &prepared.open_files {
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        if libc::chdir(prepared.cwd.as_ptr()) < 0 {
            fail(failure, NO_CWD);
        }
        execute(prepared);
        fail(failure, NO_PROGRAM)
    }
}

/// Tries each candidate. Returns only if none can be run, with the most helpful `errno` set.
unsafe fn execute(prepared: &Prepared) {
    let mut telling = libc::ENOENT;
    for candidate in &prepared.candidates {
        // SAFETY: the pointers end with a null and point into memory that `prepared` owns.
        unsafe {
            libc::execve(
                candidate.as_ptr(),
                prepared.argv.as_ptr(),
                prepared.envp.as_ptr(),
            );
        }
        match nix::errno::Errno::last_raw() {
            libc::ENOENT | libc::ENOTDIR => {}
            // A later candidate may work; otherwise this is the reason.
            libc::EACCES => telling = libc::EACCES,
            other => {
                telling = other;
                break;
            }
        }
    }
    nix::errno::Errno::set_raw(telling);
}

unsafe fn fail(pipe: RawFd, stage: u8) -> ! {
    let [a, b, c, d] = nix::errno::Errno::last_raw().to_ne_bytes();
    let said = [stage, a, b, c, d];
    // SAFETY: the descriptor is open and the buffer is ours; nothing is unwound on the way out.
    unsafe {
        libc::write(pipe, said.as_ptr().cast(), said.len());
        libc::_exit(127)
    }
}
