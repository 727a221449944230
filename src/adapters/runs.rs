//! Commands that the daemon runs for itself: gates, set-up, automations, checks of pools, notices, pull requests. A run
//! is ended with all processes that it started, even those that left its process group, and even after the daemon was
//! killed.
//!
//! Between the daemon and the command there is a keeper (`keeper`), the leader of the run. Every process of the run stays
//! below it: the kernel gives it the orphans, whatever session or environment they have. So ancestry alone finds a run's
//! processes, and the keeper ends them with the run. Only a program that kills its keeper sets the others free; then
//! they are found as far as they carry a mark.
//!
//! Every process of a run inherits a variable with a token that no other run has. The token is recorded before the
//! run starts, as the name of an empty file. A record alone never ends a process: the process must carry the token, be
//! below a process that carries it, or be in the process group of a leader that carries it. A keeper that a killed
//! daemon left is found by its token, and ended after everything below it.
//!
//! The rights of a run's processes on the daemon last as long as the run. Rights come from ancestry alone; a token in
//! the environment only takes rights away. So does the mark of an errand, for processes of no present run: those of a
//! run of an earlier daemon, unless it had all rights, and those that git starts for us (hooks, helpers) and leaves
//! behind. The mark counts for everything below a process that carries it; of a command of git that is its anchor
//! (`keeper::anchored`), which stays as long as they do.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};

use super::proc::{self, Pidfd};
use super::{beneath, keeper};
use crate::adapters::city_root;
use crate::domain::city::Rights;
use crate::domain::facts::ProcessId;

/// The variable that marks a run's processes.
pub const TOKEN: &str = "HD_RUN_TOKEN";

/// The variable that marks processes started for a city that may only read. Its value names the city.
pub const ERRAND: &str = "HD_ERRAND";

/// The city of this process.
static CITY: OnceLock<OsString> = OnceLock::new();

/// Sets the city that this process works for, by its state directory: the mark of its git processes.
pub fn work_for(state_dir: &Path) {
    // A process works for one city, so only the first call counts.
    let _first = CITY.set(state_dir.as_os_str().to_owned());
}

/// Returns the mark of an errand; none before [`work_for`].
#[must_use]
pub fn errand() -> Option<&'static OsStr> {
    CITY.get().map(OsString::as_os_str)
}

fn is_errand(process: &ProcessId) -> bool {
    errand().is_some_and(|ours| {
        let mark = proc::environment_text(process.pid, ERRAND);
        mark.is_some_and(|mark| OsStr::new(&mark) == ours)
    })
}

/// The timeout for the ends of killed processes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A run in progress.
struct UnderWay {
    record: PathBuf,
    rights: Rights,
    leader: Option<ProcessId>,
    /// The name that its processes' calls go by.
    name: Option<String>,
}

/// Returns the runs of this process, by their tokens.
fn under_way() -> MutexGuard<'static, HashMap<String, UnderWay>> {
    static RUNS: LazyLock<Mutex<HashMap<String, UnderWay>>> = LazyLock::new(Mutex::default);
    // Every change is one insert or removal, so a poisoned map is consistent.
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run. Its record is an empty file named after its token.
#[derive(Debug)]
pub struct Run {
    record: PathBuf,
    token: String,
}

impl Run {
    /// Records a new run in this directory. The caller starts its processes with the token; they have these rights on
    /// the daemon.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn begin(dir: &Path, rights: Rights) -> io::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let token = format!(
            "{}-{}-{}",
            std::process::id(),
            jiff::Timestamp::now().as_nanosecond(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        city_root::make_dirs(dir)?;
        let record = dir.join(&token);
        beneath::create(dir, Path::new(&token))?;
        let run = UnderWay {
            record: record.clone(),
            rights,
            leader: None,
            name: None,
        };
        under_way().insert(token.clone(), run);
        Ok(Self { record, token })
    }

    /// Sets the name by which the run's processes go when they ask the daemon.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        if let Some(run) = under_way().get_mut(&self.token) {
            run.name = Some(name.to_owned());
        }
        self
    }

    /// Returns the variables that its processes carry: the token, and below all rights the mark of an errand, which
    /// outlives the run and this daemon.
    #[must_use]
    pub fn marks(&self) -> Vec<(&'static str, OsString)> {
        let mut marks = vec![(TOKEN, self.token.clone().into())];
        let rights = under_way().get(&self.token).map(|run| run.rights);
        if rights != Some(Rights::All) {
            marks.extend(errand().map(|city| (ERRAND, city.to_owned())));
        }
        marks
    }

    /// Sets the leader: the keeper, a child that was not reaped yet.
    ///
    /// # Errors
    /// When the leader cannot be read.
    pub fn started(&self, leader: u32) -> io::Result<()> {
        let leader = proc::identify(leader)?;
        if let Some(run) = under_way().get_mut(&self.token) {
            run.leader = Some(leader);
        }
        Ok(())
    }

    /// Ends the processes of the run, its keeper last.
    ///
    /// # Errors
    /// When a process cannot be ended.
    pub fn kill(&self) -> io::Result<()> {
        end_marked(&self.token)
    }

    /// Ends the processes that are left of the run, and forgets it.
    ///
    /// # Errors
    /// When a process cannot be ended.
    pub fn end(&self) -> io::Result<()> {
        self.kill()?;
        under_way().remove(&self.token);
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Returns the rights of a process as part of a run, or as another process below the daemon, which may only read. A
/// process that cannot be judged may only read, too. None for every other process.
#[must_use]
pub fn rights_of(pid: u32) -> Option<Rights> {
    let Ok(mut line) = proc::ancestry(pid) else {
        return Some(Rights::Read);
    };
    let own = std::process::id();
    let below = line.iter().position(|process| process.pid == own);
    line.truncate(below.unwrap_or(line.len()));
    let marks = |process: &ProcessId| proc::environment_text(process.pid, TOKEN);
    let led = |process: &ProcessId| {
        let runs = under_way();
        let mut runs = runs.values();
        let run = runs.find(|run| run.leader.as_ref() == Some(process));
        run.map(|run| run.rights)
    };
    let of = |token: &String| under_way().get(token).map(|run| run.rights);
    if let Some(rights) = line.iter().find_map(led) {
        return Some(rights);
    }
    match (below, line.last()) {
        // The leader has just been started, and is not known yet.
        (Some(_), Some(child)) => Some(marks(child).as_ref().and_then(of).unwrap_or(Rights::Read)),
        // The daemon itself.
        (Some(_), None) => None,
        (None, _) if line.iter().any(is_errand) => Some(Rights::Read),
        // The process left its leader.
        (None, _) => {
            let marked = line.iter().filter_map(marks);
            let fewest = marked.filter_map(|token| of(&token)).min();
            fewest.filter(|rights| *rights < Rights::All)
        }
    }
}

/// Returns the name of the run that the process belongs to. Its token alone is enough: a name gives no rights.
#[must_use]
pub fn name_of(pid: u32) -> Option<String> {
    let line = proc::ancestry(pid).ok()?;
    let marks: Vec<_> = line
        .iter()
        .filter_map(|process| proc::environment_text(process.pid, TOKEN))
        .collect();
    let runs = under_way();
    let led = |process: &ProcessId| {
        let mut runs = runs.values();
        runs.find(|run| run.leader.as_ref() == Some(process))
    };
    let marked = || marks.iter().find_map(|token| runs.get(token));
    let run = line.iter().find_map(led).or_else(marked)?;
    run.name.clone()
}

/// Ends the processes that are left of every run recorded in this directory. Call this only while no run is in
/// progress.
///
/// # Errors
/// When the records cannot be read, or a process cannot be ended.
pub fn end_leftovers(dir: &Path) -> io::Result<()> {
    let records = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        records => records?,
    };
    // All are listed first: this may take so long that a caller gives it up, and a later run is not a leftover.
    for entry in records.collect::<io::Result<Vec<_>>>()? {
        let token = entry.file_name().to_string_lossy().into_owned();
        let record = entry.path();
        // A run in progress with this token has its record in another directory; a file here with its name is
        // foreign.
        let of = |run: &UnderWay| run.record == record;
        if under_way().get(&token).is_none_or(of) {
            Run { record, token }.end()?;
        } else {
            tracing::warn!(
                record = %record.display(),
                "a record names a run in progress of another directory; the record is removed and the run continues"
            );
            fs::remove_file(record)?;
        }
    }
    Ok(())
}

/// Kills every process that carries the token with everything below it, and the group of each that leads one, until two
/// looks in a row find none: a process may fork between being seen and being killed, and has no readable environment
/// while it executes a program. Keepers are killed when nothing was seen below them in two looks in a row, because what
/// is below a killed keeper is below it no longer.
fn end_marked(token: &str) -> io::Result<()> {
    let begun = Instant::now();
    let mut empty_looks = 0;
    loop {
        let Marked { keepers, others } = marked(token)?;
        let waited = begun.elapsed();
        if waited >= PATIENCE && !(keepers.is_empty() && others.is_empty()) {
            let left = keepers.iter().chain(&others);
            let pids: Vec<_> = left.map(|process| process.pid).collect();
            return Err(io::Error::other(format!(
                "processes {pids:?} cannot be ended"
            )));
        }
        // A process that only looks like a keeper does not hold up the end.
        let with_keepers = others.is_empty() || waited >= PATIENCE / 2;
        match (others.is_empty(), empty_looks) {
            (true, 0) => {
                empty_looks = 1;
                continue;
            }
            (true, _) if keepers.is_empty() => return Ok(()),
            (true | false, _) => empty_looks = 0,
        }
        for process in &others {
            kill(process, begun + PATIENCE, true)?;
        }
        for process in keepers.iter().filter(|_| with_keepers) {
            kill(process, begun + PATIENCE, false)?;
        }
    }
}

/// Kills a process, if it lives, and waits for its end.
fn kill(process: &ProcessId, deadline: Instant, with_group: bool) -> io::Result<()> {
    let Some(held) = Pidfd::open(process)? else {
        return Ok(());
    };
    if with_group {
        end_group(process);
    }
    held.signal(rustix::process::Signal::KILL)?;
    held.wait(deadline.saturating_duration_since(Instant::now()))?;
    Ok(())
}

/// Kills the group that the process leads, if any: its members may have dropped the token.
fn end_group(process: &ProcessId) {
    let pid = Pid::from_raw(process.pid.cast_signed());
    if pid.as_raw() > 1 && getpgid(Some(pid)) == Ok(pid) {
        // The group may end in this moment.
        let _gone = killpg(pid, Signal::SIGKILL);
    }
}

/// The living processes of a run.
struct Marked {
    /// Its keepers: one, unless a process pretends to be another.
    keepers: Vec<ProcessId>,
    /// Processes that carry the token or are below one that does.
    others: Vec<ProcessId>,
}

fn marked(token: &str) -> io::Result<Marked> {
    let own = std::process::id();
    let all = proc::all()?;
    let carries = |pid| proc::environment_text(pid, TOKEN).is_some_and(|found| found == token);
    let lives = all.iter().filter(|(_, stat)| stat.lives());
    let mut found: Vec<ProcessId> = lives
        .filter(|(pid, _)| **pid != own && carries(**pid))
        .map(|(pid, stat)| ProcessId {
            pid: *pid,
            started: stat.started,
        })
        .collect();
    let roots = found.iter().map(|process| process.pid).collect();
    // Without the roots, which are not found below each other.
    let below = proc::below(&all, roots, |pid| pid == own);
    let is_below = |process: &ProcessId| {
        let line = proc::ancestry(process.pid).unwrap_or_default();
        line.iter().skip(1).any(|above| found.contains(above))
    };
    let keepers: Vec<_> = found
        .iter()
        .filter(|process| keeper::is_keeper(process.pid) && !is_below(process))
        .cloned()
        .collect();
    found.retain(|process| !keepers.contains(process));
    found.extend(below);
    Ok(Marked {
        keepers,
        others: found,
    })
}

#[cfg(test)]
mod tests;
