//! Turns the daemon's child into a detached holder whose agent runs.
//!
//! ```text
//! read the instructions (stdin) ─ setsid ─ fork: the first process ends, the daemon reaps it
//!   └─ holder: enter the directory, subreaper, alive-lock, socket, terminal, agent, records, reply
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::agent;
use super::cgroup::{self, Cgroup};
use super::terminal::Terminal;
use super::{Holder, log::Log};
use crate::adapters::proc;
use crate::adapters::sessions::files::{self, Meta, SessionRecord, Spec};
use crate::adapters::sessions::launch::{Launch, Reply};
use crate::domain::ids::RelicId;
use crate::domain::terminal_log::mark;

/// Reads the instructions.
pub fn read_launch() -> io::Result<Launch> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Leaves the daemon's session. Returns true in the holder, and false in the first process, which must end at once.
pub fn detach() -> io::Result<bool> {
    // Closes descriptors that the daemon's libraries may have left open.
    // SAFETY: nothing in this process uses a descriptor above 2 yet.
    unsafe {
        nix::libc::syscall(nix::libc::SYS_close_range, 3_u32, u32::MAX, 0);
    }
    rustix::process::setsid()?;
    // SAFETY: the process has one thread.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { .. } => Ok(false),
        nix::unistd::ForkResult::Child => Ok(true),
    }
}

/// Becomes the holder of this session. The daemon gets a reply in any case.
pub fn become_holder(
    dir: &Path,
    launch: Launch,
    terminal: impl FnOnce() -> io::Result<Terminal>,
    daemon: impl AsFd,
) -> Option<Holder> {
    // Otherwise its name is that of the link that it was started by.
    let _only_for_lists = nix::sys::prctl::set_name(c"horde-hold");
    let mut lost_records = Vec::new();
    let (reply, holder) = match build(dir, launch, terminal, &mut lost_records) {
        Ok((holder, state)) => (Reply::Ready(Box::new(state)), Some(holder)),
        Err(reply) => {
            for name in lost_records {
                // They belong to a session that never was; if they stay, they do no harm (see `files`).
                let _best_effort = files::remove(Path::new("."), name);
            }
            (reply, None)
        }
    };
    // A daemon that died meanwhile does not read it, and its successor finds the records.
    let _nobody_listens = rustix::io::write(daemon, reply.line().as_bytes());
    let_go_of_the_daemon();
    holder
}

fn let_go_of_the_daemon() {
    let complaints = files::create_anew(Path::new("."), files::COMPLAINT);
    let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") else {
        return;
    };
    let errors = complaints.as_ref().unwrap_or(&null);
    // Each call can only fail for lack of a descriptor number, and these three are in use already.
    let _in = rustix::stdio::dup2_stdin(&null);
    let _out = rustix::stdio::dup2_stdout(&null);
    let _err = rustix::stdio::dup2_stderr(errors);
}

fn build(
    dir: &Path,
    launch: Launch,
    terminal: impl FnOnce() -> io::Result<Terminal>,
    lost_records: &mut Vec<&'static str>,
) -> Result<(Holder, SessionRecord), Reply> {
    let failed = |what: &'static str| move |error: io::Error| Reply::of(what, &error);
    // From here on every path is relative: the socket's path is short even in a deeply nested city.
    std::env::set_current_dir(dir).map_err(failed("the session's directory"))?;
    let here = Path::new(".");
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let lock = take_lock(here)?;
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))
        .map_err(|error| failed("subreaper")(error.into()))?;
    lost_records.push(files::SOCK);
    let listener = listen(here).map_err(failed("the session's socket"))?;
    let terminal = terminal().map_err(failed("the session's terminal"))?;
    let signals = own_signals(terminal.is_pane()).map_err(failed("signals"))?;
    let cgroup = Cgroup::make(&launch.token);
    let started_at = jiff::Timestamp::now();
    let path = cgroup.as_ref().map(|cgroup| cgroup.path().to_owned());
    lost_records.push(files::SPEC);
    let spec = Spec {
        id: launch.id.clone(),
        token: launch.token.clone(),
        generation: launch.generation,
        incarnation: launch.incarnation,
        argv: launch.argv.clone(),
        env_names: launch.env.keys().cloned().collect(),
        cwd: launch.cwd.clone(),
        cgroup: path.clone(),
        started_at,
    };
    // Before the agent starts: if the holder dies now, the token is recorded and the agent's processes can be found.
    files::write(here, files::SPEC, &spec).map_err(failed(files::SPEC))?;
    let agent = agent::start(&launch, &terminal, lock.as_fd(), cgroup.as_ref());
    let agent = agent.inspect_err(|_| path.iter().for_each(|path| cgroup::remove(path)))?;
    let state = SessionRecord {
        id: launch.id.clone(),
        token: launch.token.clone(),
        generation: launch.generation,
        incarnation: launch.incarnation,
        boot: proc::boot_id().to_owned(),
        agent,
        holder: proc::identify(std::process::id()).map_err(failed("/proc"))?,
        cgroup: path,
        pane: match &terminal {
            Terminal::Own(..) => None,
            Terminal::Pane(pane) => Some(pane.id().clone()),
        },
        started_at,
    };
    let mut log = Log::open(here, launch.output_limit);
    let relic = launch.env.get("HD_RELIC");
    let relic = relic.and_then(|relic| RelicId::new(relic).ok());
    let (incarnation, generation) = (launch.incarnation, launch.generation);
    log.begin(&mark(incarnation, generation, relic.as_ref(), started_at));
    let mut holder = Holder::new(state.clone(), terminal, listener, signals, lock, log);
    let facts = launch.meta;
    let token = launch.token;
    let recorded = files::write(here, files::META, &Meta { token, facts })
        .and_then(|()| files::write(here, files::STATE, &state));
    if let Err(error) = recorded {
        holder.abandon();
        return Err(failed("the session's records")(error));
    }
    Ok((holder, state))
}

fn take_lock(here: &Path) -> Result<File, Reply> {
    let failed = |error: io::Error| Reply::of(files::LOCK, &error);
    let lock = files::open_lock(here).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => Err(Reply::Locked),
        Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Makes the socket. That of an earlier holder is dead, because this one has the lock.
fn listen(here: &Path) -> io::Result<UnixListener> {
    files::remove(here, files::SOCK)?;
    files::remove(here, files::ATTACHED)?;
    let listener = UnixListener::bind(files::SOCK)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Receives the ends of children, a stop request and the loss of a pane through a descriptor; ignores other signals
/// of a terminal or a closed pipe.
fn own_signals(in_pane: bool) -> io::Result<SignalFd> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in [
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
        // A log that has reached a size limit ends no session.
        Signal::SIGXFSZ,
    ] {
        // SAFETY: ignoring installs no handler.
        unsafe { sigaction(signal, &ignore)? };
    }
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.add(Signal::SIGTERM);
    if in_pane {
        mask.add(Signal::SIGHUP);
    } else {
        // SAFETY: as above.
        unsafe { sigaction(Signal::SIGHUP, &ignore)? };
    }
    nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    Ok(SignalFd::with_flags(&mask, flags)?)
}
