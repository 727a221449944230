//! Facts about processes of this machine, from `/proc` and pidfds.
//!
//! A process is identified by pid and start time. No signal goes to a bare pid: a pidfd is opened first and the start
//! time compared afterwards, so that a reused pid is never hit. `kill(pid, 0)` is not used, because it counts zombies
//! as living.

mod environment;
mod files;
mod used;
mod working_dir;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};

pub use self::environment::{environment_text, environment_value};
pub use self::files::{descriptors, is_among_last, is_scarce, open_files, raise_open_files};
pub use self::used::{FileId, UsedFiles, mapped_files, used_files};
pub use self::working_dir::{ProcessDir, place};

use crate::domain::facts::{ProcessId, Usage};

/// A clock tick of `/proc`: `USER_HZ` is 100 on every Linux, independent of the kernel's own clock.
const TICK_MS: u64 = 10;

/// The directory in which the kernel lists processes.
const PROC: &str = "/proc";

/// The contents of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// State letter of the first thread; `Z` and `X` are dead.
    pub state: u8,
    /// Parent.
    pub parent: u32,
    /// The number of its threads, including a first one that has ended.
    pub threads: u64,
    /// Start time in clock ticks since boot.
    pub started: u64,
    /// Processor time that it used itself, in clock ticks.
    pub used: u64,
    /// Processor time of its reaped children and of theirs.
    pub reaped: u64,
}

impl Stat {
    /// Returns false for a zombie or a dead process. The state is that of the first thread, which may end before the
    /// others.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.threads > 1 || !matches!(self.state, b'Z' | b'X' | b'x')
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may contain anything.
        let rest = text.get(text.rfind(')')? + 1..)?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        // Fields 14 to 17, 20, then 22.
        let mut ticks = fields.by_ref().skip(9).map(str::parse);
        let mut next = || ticks.next()?.ok();
        let [own, kernel, children, kernel_of_children]: [u64; 4] =
            [next()?, next()?, next()?, next()?];
        let threads = fields.nth(2)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        Some(Self {
            state,
            parent,
            threads,
            started,
            used: own + kernel,
            reaped: children + kernel_of_children,
        })
    }
}

/// Returns the state of a process; none if no process has this pid.
///
/// # Errors
/// When `/proc` cannot be read: then nothing is known.
pub fn stat(pid: u32) -> io::Result<Option<Stat>> {
    stat_in(Path::new(PROC), pid)
}

fn stat_in(proc: &Path, pid: u32) -> io::Result<Option<Stat>> {
    let path = proc.join(pid.to_string()).join("stat");
    match fs::read(&path) {
        // A program's name need not be text.
        Ok(bytes) => Stat::parse(&String::from_utf8_lossy(&bytes))
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("{} cannot be parsed", path.display()))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Treats a value as empty if the process is gone or belongs to another user. Passes on any other error, which says
/// nothing about the process.
fn empty_if_hidden<T: Default>(read: io::Result<T>) -> io::Result<T> {
    match read {
        Err(error) if is_gone(&error) => Ok(T::default()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(T::default()),
        read => read,
    }
}

/// Returns the identity of a process that is known to exist (oneself, an unreaped child).
///
/// # Errors
/// When the process does not exist, or `/proc` cannot be read.
pub fn identify(pid: u32) -> io::Result<ProcessId> {
    let stat = stat(pid)?.ok_or_else(|| io::Error::other(format!("no process {pid}")))?;
    Ok(ProcessId {
        pid,
        started: stat.started,
    })
}

/// Returns a process and its ancestors, itself first. Ends at the first process of the machine, or where the next one
/// belongs to another user and is hidden from us.
///
/// # Errors
/// When the process is gone, or its ancestry keeps changing: then nothing is known.
pub fn ancestry(pid: u32) -> io::Result<Vec<ProcessId>> {
    /// The longest line of ancestors that is followed.
    const DEEPEST: usize = 256;
    /// The number of retries: if a parent ends meanwhile, its children get another one, and the line is read again.
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let mut line: Vec<ProcessId> = Vec::new();
        let mut next = pid;
        while let Ok(Some(now)) = stat(next) {
            // A parent is never younger than its child; a younger process has reused the parent's pid.
            if line.last().is_some_and(|child| child.started < now.started) {
                break;
            }
            let started = now.started;
            line.push(ProcessId { pid: next, started });
            next = now.parent;
            if next == 0 {
                return Ok(line);
            }
            if line.len() == DEEPEST {
                return Err(io::Error::other(format!("{pid} has too many ancestors")));
            }
        }
        let Some(last) = line.last() else {
            return Err(io::Error::other(format!("process {pid} is gone")));
        };
        let still = stat(last.pid)?;
        let hidden = still.is_some_and(|now| now.started == last.started && now.parent == next);
        if hidden && !Path::new(&format!("/proc/{next}/stat")).exists() {
            return Ok(line);
        }
    }
    Err(io::Error::other(format!(
        "the ancestors of {pid} keep changing"
    )))
}

/// Returns true if exactly this process lives (a zombie does not).
///
/// # Errors
/// When `/proc` cannot be read: then nothing is known.
pub fn lives(process: &ProcessId) -> io::Result<bool> {
    Ok(stat(process.pid)?.is_some_and(|now| now.started == process.started && now.lives()))
}

/// Returns the processor time and memory that this process has used.
///
/// # Errors
/// When the kernel does not tell.
pub fn own_usage() -> io::Result<Usage> {
    let used = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    let used = used.map_err(io::Error::other)?;
    let status = fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
    let kib: Option<u64> = resident.and_then(|kib| kib.trim().parse().ok());
    let kib = kib.ok_or_else(|| io::Error::other("/proc/self/status cannot be parsed"))?;
    Ok(Usage {
        cpu_seconds: used.as_secs_f64(),
        resident_bytes: kib * 1024,
    })
}

/// Returns the id of this boot of the machine: processes of another boot are all dead.
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    })
}

/// A handle on one process that stays valid when its pid is reused.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens exactly this process; none if it is gone.
    ///
    /// # Errors
    /// When the kernel refuses (descriptors, permissions).
    pub fn open(process: &ProcessId) -> io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Compared after opening: a process with this pid *and* this start time is the one that was opened.
        Ok(lives(process)?.then_some(Self(fd)))
    }

    /// Sends a signal. Succeeds if the process is gone.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended, at most this long. Returns true if it has.
    ///
    /// # Errors
    /// When the kernel refuses to poll.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = rustix::time::Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns all processes with their `stat`; skips those that vanish meanwhile.
///
/// # Errors
/// When `/proc` cannot be listed, or a process cannot be read: then the list may have gaps.
pub fn all() -> io::Result<HashMap<u32, Stat>> {
    all_in(Path::new(PROC))
}

fn all_in(proc: &Path) -> io::Result<HashMap<u32, Stat>> {
    let mut found = HashMap::new();
    for entry in fs::read_dir(proc)? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(now) = empty_if_hidden(stat_in(proc, pid))? {
            found.insert(pid, now);
        }
    }
    Ok(found)
}

/// Returns the time since the process was started.
#[must_use]
pub fn age(process: &Stat) -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
    now.saturating_sub(Duration::from_millis(process.started * TICK_MS))
}

/// Returns every living process below this one, nearest first.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn descendants(root: u32) -> io::Result<Vec<ProcessId>> {
    descendants_but(root, |_| false)
}

/// Like [`descendants`], without the processes that the predicate picks and those below them.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn descendants_but(root: u32, apart: impl Fn(u32) -> bool) -> io::Result<Vec<ProcessId>> {
    Ok(below(&all()?, vec![root], apart))
}

/// Returns every living process of a listing below these, nearest first, without those that the predicate picks and
/// those below them.
#[must_use]
pub fn below(
    all: &HashMap<u32, Stat>,
    roots: Vec<u32>,
    apart: impl Fn(u32) -> bool,
) -> Vec<ProcessId> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in all {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut seen: HashSet<u32> = roots.iter().copied().collect();
    let mut level = roots;
    while !level.is_empty() {
        let next = level.iter().filter_map(|pid| children.get(pid)).flatten();
        let new = |pid: &u32| seen.insert(*pid) && !apart(*pid);
        level = next.copied().filter(new).collect();
        found.extend(level.iter().filter_map(|pid| {
            let stat = all.get(pid).filter(|stat| stat.lives())?;
            Some(ProcessId {
                pid: *pid,
                started: stat.started,
            })
        }));
    }
    found
}

/// Returns the processor time of everything below this process, including what it reaped, but not its own; none if it
/// is gone.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn cpu_below(root: &ProcessId) -> io::Result<Option<Duration>> {
    let all = all()?;
    let Some(top) = all.get(&root.pid).filter(|top| top.started == root.started) else {
        return Ok(None);
    };
    let below = below(&all, vec![root.pid], |_| false);
    let below = below.iter().filter_map(|process| all.get(&process.pid));
    let ticks: u64 = below.map(|stat| stat.used + stat.reaped).sum();
    let ticks = ticks + top.reaped;
    Ok(Some(Duration::from_millis(ticks * TICK_MS)))
}

/// Returns the age of this process, and the ages of the living processes below it; none if it is gone.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn ages(root: &ProcessId) -> io::Result<Option<(Duration, Vec<Duration>)>> {
    let all = all()?;
    if all
        .get(&root.pid)
        .is_none_or(|top| top.started != root.started)
    {
        return Ok(None);
    }
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = u64::try_from(up.tv_sec).unwrap_or_default() * 1000;
    let age =
        |process: &ProcessId| Duration::from_millis(up.saturating_sub(process.started * TICK_MS));
    let below = below(&all, vec![root.pid], |_| false);
    Ok(Some((age(root), below.iter().map(age).collect())))
}

/// Returns true if one of these programs runs, as the agent or anywhere below the holder. Without names, returns true
/// if the agent lives. `listed` is a cache of all processes, filled when needed.
///
/// # Errors
/// When `/proc` cannot be read: then nothing is known.
pub fn agent_lives(
    agent: &ProcessId,
    holder: &ProcessId,
    names: &[String],
    listed: &mut Option<HashMap<u32, Stat>>,
) -> io::Result<bool> {
    let started = lives(agent)?;
    if names.is_empty() {
        return Ok(started);
    }
    let proc = Path::new(PROC);
    if started && goes_by(proc, agent.pid, names)? {
        return Ok(true);
    }
    let all = match listed {
        Some(all) => all,
        None => listed.insert(all()?),
    };
    for process in below(all, vec![holder.pid], |_| false) {
        if goes_by(proc, process.pid, names)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the process is one of these programs, by its own name, its executable's, or that of the script
/// that it interprets.
fn goes_by(proc: &Path, pid: u32, names: &[String]) -> io::Result<bool> {
    /// The length to which the kernel cuts names.
    const COMM: usize = 15;
    let dir = proc.join(pid.to_string());
    let comm = empty_if_hidden(fs::read(dir.join("comm")))?;
    let line = empty_if_hidden(fs::read(dir.join("cmdline")))?;
    let exe = empty_if_hidden(fs::read_link(dir.join("exe")))?;
    let words = line.split(|byte| *byte == 0).take(2);
    let paths: Vec<&[u8]> = words.chain([exe.as_os_str().as_bytes()]).collect();
    let named = |name: &String| {
        let name = name.as_bytes();
        let mut bases = paths
            .iter()
            .filter_map(|path| path.rsplit(|byte| *byte == b'/').next());
        comm.trim_ascii_end() == &name[..name.len().min(COMM)] || bases.any(|base| base == name)
    };
    Ok(names.iter().any(named))
}

/// Returns the process's cgroup (version 2), as a path below the mount.
#[must_use]
pub fn cgroup(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.to_owned())
}

/// Returns true if the process has this file open *and* holds a `flock` through it.
#[must_use]
pub fn holds_lock(pid: u32, file: &fs::Metadata) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let same = fs::metadata(entry.path())
            .is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()));
        let info = Path::new("/proc")
            .join(pid.to_string())
            .join("fdinfo")
            .join(entry.file_name());
        same && fs::read_to_string(info).is_ok_and(|text| text.contains("FLOCK"))
    })
}

#[cfg(test)]
mod tests;
