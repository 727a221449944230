//! Commands that the daemon runs for itself (gates, set-up): ended with everything that they
//! started, also what left their process group, also after the daemon was killed.
//!
//! Every process of a run inherits a variable with a token that no other run has. The token is
//! recorded before the run starts. A process is never ended for its number alone.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::proc::{self, Pidfd};
use crate::domain::facts::ProcessId;

/// The variable that marks a run's processes.
pub const TOKEN: &str = "HD_RUN_TOKEN";

/// How long the ends of killed processes are awaited.
const PATIENCE: Duration = Duration::from_secs(10);

/// One run. Its record, a file named as its token, holds the leader of its process group.
#[derive(Debug)]
pub struct Run {
    record: PathBuf,
    token: String,
}

impl Run {
    /// Records a new run in this directory; its processes are to be started with the token.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn begin(dir: &Path) -> io::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let token = format!(
            "{}-{}-{}",
            std::process::id(),
            jiff::Timestamp::now().as_nanosecond(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        fs::create_dir_all(dir)?;
        let record = dir.join(&token);
        fs::write(&record, "")?;
        Ok(Self { record, token })
    }

    /// The token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Records the leader of its process group: a child that nobody has waited for yet.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn started(&self, leader: u32) -> io::Result<()> {
        let leader = proc::identify(leader)?;
        fs::write(&self.record, format!("{} {}", leader.pid, leader.started))
    }

    /// Ends whatever is left of it and forgets it.
    ///
    /// # Errors
    /// Something of it cannot be ended.
    pub fn end(&self) -> io::Result<()> {
        let leader = fs::read_to_string(&self.record)
            .ok()
            .and_then(|text| parse(&text));
        if let Some(leader) = leader
            && proc::lives(&leader)?
        {
            // The group of a living leader is that run's; it may end in this moment.
            let _gone = killpg(Pid::from_raw(leader.pid.cast_signed()), Signal::SIGKILL);
        }
        end_marked(&self.token)?;
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// `pid start-time`; a torn record names nobody.
fn parse(text: &str) -> Option<ProcessId> {
    let (pid, started) = text.split_once(' ')?;
    Some(ProcessId {
        pid: pid.parse().ok()?,
        started: started.parse().ok()?,
    })
}

/// Ends what is left of every run recorded in this directory. Only while none is under way.
///
/// # Errors
/// The records cannot be read, or something cannot be ended.
pub fn end_leftovers(dir: &Path) -> io::Result<()> {
    let records = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        records => records?,
    };
    for entry in records {
        let entry = entry?;
        let token = entry.file_name().to_string_lossy().into_owned();
        let record = entry.path();
        Run { record, token }.end()?;
    }
    Ok(())
}

/// Kills everything that carries the token until two looks in a row find nothing: a process may fork
/// between being seen and being ended, and shows no environment while it executes a program.
fn end_marked(token: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut empty_looks = 0;
    while empty_looks < 2 {
        let marked = marked(token)?;
        if marked.is_empty() {
            empty_looks += 1;
            continue;
        }
        empty_looks = 0;
        if Instant::now() >= deadline {
            let pids: Vec<_> = marked.iter().map(|process| process.pid).collect();
            return Err(io::Error::other(format!(
                "processes {pids:?} cannot be ended"
            )));
        }
        for process in marked {
            if let Some(process) = Pidfd::open(&process)? {
                process.signal(rustix::process::Signal::KILL)?;
                process.wait(deadline.saturating_duration_since(Instant::now()))?;
            }
        }
    }
    Ok(())
}

fn marked(token: &str) -> io::Result<Vec<ProcessId>> {
    let own = std::process::id();
    let carries = |pid| proc::environment_value(pid, TOKEN).is_some_and(|found| found == token);
    let mut found = Vec::new();
    for (pid, stat) in proc::all()? {
        if pid != own && stat.lives() && carries(pid) {
            let started = stat.started;
            found.push(ProcessId { pid, started });
        }
    }
    Ok(found)
}
