//! What outlives a holder that was killed: found and ended before anything takes its place.
//!
//! The process tree is gone by then (orphans hang off init), so members are known by their cgroup,
//! by the token in the environment they were started with, by the alive-lock they inherited, and
//! by being a child of such a one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::files::{self, Found, Spec, State, TOKEN_VARIABLE};
use super::holder::{kill_cgroup, remove_cgroup};
use super::launch::is_holder_of;
use crate::adapters::proc::{self, Pidfd};
use crate::domain::facts::ProcessId;

/// The variable that names the session of a process.
const SESSION_VARIABLE: &str = "HD_SESSION";
/// Processes that do not die of KILL within this are in the kernel's hands.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// One pass waits this long for a process to be gone.
const PASS: Duration = Duration::from_millis(100);

/// What marks the members of one session.
#[derive(Debug, Default)]
struct Marks {
    /// The session's id.
    id: String,
    tokens: Vec<String>,
    cgroups: Vec<PathBuf>,
    agent: Option<ProcessId>,
}

/// What ending them came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// How many were killed.
    pub killed: usize,
    /// Whether some could not be.
    pub some_live: bool,
}

/// Ends everything that is left of the sessions this directory knows of, and of the one that is known to be
/// of it. To be called only while no holder of theirs lives and no start is under way.
///
/// # Errors
/// Files or `/proc` cannot be read: then nothing is known.
pub fn end(dir: &Path, known: Option<&State>) -> io::Result<Ending> {
    let marks = marks(dir, known)?;
    let mut killed = 0;
    let mut empty_passes = 0;
    let deadline = Instant::now() + UNKILLABLE;
    // One empty pass may have been outrun by a fork.
    while empty_passes < 2 {
        let found = members(dir, &marks)?;
        if found.is_empty() {
            empty_passes += 1;
            continue;
        }
        empty_passes = 0;
        marks.cgroups.iter().for_each(|path| kill_cgroup(path));
        for process in found {
            if let Some(pidfd) = Pidfd::open(&process)? {
                pidfd.signal(Signal::KILL)?;
                pidfd.wait(PASS)?;
            }
            killed += usize::from(!proc::lives(&process)?);
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    marks.cgroups.iter().for_each(|path| remove_cgroup(path));
    let some_live = empty_passes < 2 || files::is_locked(dir)?;
    Ok(Ending { killed, some_live })
}

/// Whether something is left of them.
///
/// # Errors
/// Files or `/proc` cannot be read: then nothing is known.
pub fn some_live(dir: &Path, known: Option<&State>) -> io::Result<bool> {
    Ok(!members(dir, &marks(dir, known)?)?.is_empty())
}

/// The sessions that may have left something: the recorded one, one whose start broke off, and the one that
/// this supervisor has started or adopted. A record may have been changed by others since: the agent's process
/// counts only where it is known from elsewhere.
fn marks(dir: &Path, known: Option<&State>) -> io::Result<Marks> {
    let id = dir.file_name().and_then(|name| name.to_str());
    let mut marks = Marks {
        id: id.unwrap_or_default().to_owned(),
        ..Marks::default()
    };
    if let Found::Record(state) = files::read::<State>(dir, files::STATE)? {
        marks.add(state.token, state.cgroup);
    }
    if let Found::Record(spec) = files::read::<Spec>(dir, files::SPEC)? {
        marks.add(spec.token, spec.cgroup);
    }
    if let Some(state) = known {
        marks.add(state.token.clone(), state.cgroup.clone());
        marks.agent = (state.boot == proc::boot_id()).then(|| state.agent.clone());
    }
    Ok(marks)
}

impl Marks {
    /// Adds a session. A cgroup is one of ours only by its name.
    fn add(&mut self, token: String, cgroup: Option<PathBuf>) {
        let name = format!("horde-{token}");
        let own = cgroup.filter(|path| path.file_name() == Some(name.as_ref()));
        self.cgroups.extend(own);
        self.tokens.push(token);
    }

    /// Whether a process was started by one of these sessions. A token alone could be another session's.
    fn has(&self, pid: u32) -> bool {
        let token = proc::environment_value(pid, TOKEN_VARIABLE);
        if !token.is_some_and(|token| self.tokens.contains(&token)) {
            return false;
        }
        let session = proc::environment_value(pid, SESSION_VARIABLE);
        session.is_none_or(|session| session == self.id)
    }
}

fn members(dir: &Path, marks: &Marks) -> io::Result<Vec<ProcessId>> {
    let lock = match files::open_lock(dir) {
        // The whole directory is gone, and the lock with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        lock => Some(lock?.metadata()?),
    };
    let contained: Vec<u32> = marks
        .cgroups
        .iter()
        .flat_map(|path| contents(path))
        .collect();
    let all = proc::all()?;
    let mut found = HashMap::new();
    for (&pid, stat) in &all {
        let started = stat.started;
        let is_agent = marks.agent.as_ref() == Some(&ProcessId { pid, started });
        let holds_lock = || {
            lock.as_ref()
                .is_some_and(|lock| proc::holds_lock(pid, lock))
        };
        // Ourselves: a daemon that was itself started inside the session.
        let other = pid != std::process::id() && stat.lives();
        let known = is_agent || contained.contains(&pid);
        if other && (known || marks.has(pid) || is_holder_of(pid, dir) || holds_lock()) {
            found.insert(pid, started);
        }
    }
    let below = proc::below(&all, found.keys().copied().collect(), |_| false);
    found.extend(below.iter().map(|below| (below.pid, below.started)));
    found.remove(&std::process::id());
    let processes = found.into_iter();
    Ok(processes
        .map(|(pid, started)| ProcessId { pid, started })
        .collect())
}

/// The processes in a cgroup; one that is gone has none.
fn contents(cgroup: &Path) -> Vec<u32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
