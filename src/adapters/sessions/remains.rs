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
use crate::adapters::proc::{self, Pidfd};
use crate::domain::facts::ProcessId;

/// Processes that do not die of KILL within this are in the kernel's hands.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// One pass waits this long for a process to be gone.
const PASS: Duration = Duration::from_millis(100);

/// What marks the members of one session.
#[derive(Debug, Default)]
struct Marks {
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

/// Ends everything that is left of the sessions this directory knows of. To be called only while
/// no holder of theirs lives and no start is under way.
///
/// # Errors
/// Files or `/proc` cannot be read: then nothing is known.
pub fn end(dir: &Path) -> io::Result<Ending> {
    let marks = marks(dir)?;
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

/// The sessions that may have left something: the recorded one, and one whose start broke off.
fn marks(dir: &Path) -> io::Result<Marks> {
    let mut marks = Marks::default();
    if let Found::Record(state) = files::read::<State>(dir, files::STATE)? {
        marks.tokens.push(state.token);
        marks.cgroups.extend(state.cgroup);
        marks.agent = (state.boot == proc::boot_id()).then_some(state.agent);
    }
    if let Found::Record(spec) = files::read::<Spec>(dir, files::SPEC)? {
        marks.tokens.push(spec.token);
        marks.cgroups.extend(spec.cgroup);
    }
    Ok(marks)
}

fn members(dir: &Path, marks: &Marks) -> io::Result<Vec<ProcessId>> {
    let lock = files::open_lock(dir)?.metadata()?;
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
        let is_marked = || {
            let token = proc::environment_value(pid, TOKEN_VARIABLE);
            token.is_some_and(|token| marks.tokens.contains(&token))
        };
        // Ourselves: a daemon that was itself started inside the session.
        let other = pid != std::process::id() && stat.lives();
        let known = is_agent || contained.contains(&pid);
        if other && (known || is_marked() || proc::holds_lock(pid, &lock)) {
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
