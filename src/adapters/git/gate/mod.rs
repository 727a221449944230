//! Runs a gate on exactly the tree that would land.
//!
//! ```text
//! lock ─▶ end the remains of an earlier run ─▶ bring the work tree to the commit's tree, verify it
//!      ─▶ record ─▶ run (process) ─▶ end all its processes ─▶ compare tracked files
//! ```
//!
//! Each rig has one work tree, which is used again and again, so that ignored build caches stay warm. Tracked files
//! are exact and untracked ones are removed before each run.

mod gate_repo;
mod log;
mod proof;
mod running;
mod worktree;

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use super::rig::GitRepo;
use crate::adapters::city_root;
use crate::adapters::commands::process::{self, Cut, End, Script};
use crate::adapters::runs::{self, Run};
use crate::adapters::standstill;
use crate::domain::city::Rights;
use crate::domain::ids::Oid;
use crate::ports::repo::{GateRun, GateSpec, RepoError};
use log::Log;
pub(super) use running::RunningGate;
use worktree::Worktree;

/// Checks `commit` out in the rig's gate worktree and runs one gate in it.
///
/// # Errors
/// [`RepoError`] when the worktree could not be brought to exactly that tree, or another gate of the rig runs.
pub(super) fn run_gate(
    repo: &GitRepo,
    commit: &Oid,
    gate: &GateSpec,
) -> Result<GateRun, RepoError> {
    let forge = repo.forge_dir();
    make_dir(forge)?;
    refuse_link(forge)?;
    make_dir(&gate.log_dir)?;
    make_dir(&own_dir(repo))?;
    let _lock = lock(&own_dir(repo).join("gate-0.lock"))?;
    end_leftovers(repo)?;
    let worktree = Worktree::new(repo, &forge.join("gate-0"));
    let proved = worktree.check_out(commit)?;

    let path = log_path(gate, commit);
    let mut log = Log::create(&path).map_err(|error| failed("the gate's log", &error))?;
    let started = Instant::now();
    standstill::pass();
    let own = Run::begin(&runs_dir(repo), Rights::Read)
        .map_err(|error| failed("the gate's record", &error))?;
    let switch = repo.state.running_gate.begin();
    let script = Script {
        line: &gate.run,
        dir: worktree.path(),
        env: &gate.env,
        stdin: Stdio::null(),
        limit: gate.timeout,
        stop: switch.fd(),
    };
    let end = process::run(script, &own, &mut |bytes| log.add(bytes));
    let took = started.elapsed();
    own.end().map_err(|error| failed("the gate", &error))?;
    let mut run = GateRun {
        code: None,
        signal: None,
        timed_out: false,
        stopped: false,
        spawn_error: None,
        took,
        tail: log.finish(),
        log: path,
        changed: Vec::new(),
        tree: Some(proved.tree.clone()),
    };
    match end.map_err(|error| failed("the gate's processes", &error))? {
        End::NotStarted(why) => run.spawn_error = Some(why),
        End::Ended { code, signal, cut } => {
            (run.code, run.signal) = (code, signal);
            run.timed_out = cut == Some(Cut::TimedOut);
            run.stopped = cut == Some(Cut::Stopped);
            run.changed = worktree.changed(&proved)?;
        }
    }
    Ok(run)
}

/// The directory of the lock, the index and the records of gates: in our repository, out of the gate's reach.
fn own_dir(repo: &GitRepo) -> PathBuf {
    repo.repo_dir().join("horde/gate")
}

fn runs_dir(repo: &GitRepo) -> PathBuf {
    own_dir(repo).join("runs")
}

/// Ends the processes left by gates of a killed daemon. Call this only while no gate of the rig runs.
///
/// # Errors
/// When a process cannot be ended: the next gate would not have the worktree for itself.
pub(super) fn end_leftovers(repo: &GitRepo) -> Result<(), RepoError> {
    runs::end_leftovers(&runs_dir(repo)).map_err(|error| failed("an earlier gate", &error))
}

/// Returns `<name>-<commit>-<milliseconds>.log`, with the name made safe for a file.
fn log_path(gate: &GateSpec, commit: &Oid) -> PathBuf {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = gate.name.chars().map(safe).take(48).collect();
    let at = jiff::Timestamp::now().as_millisecond();
    gate.log_dir
        .join(format!("{name}-{}-{at}.log", commit.short()))
}

/// The lock of a run; the kernel releases it when the daemon dies.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread is just starting has a copy of the descriptor until it
        // executes its program.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(
                %error,
                "the lock of the gate could not be released; the kernel frees it when the last process closes it"
            );
        }
    }
}

fn lock(path: &Path) -> Result<Lock, RepoError> {
    let file = File::create(path).map_err(|error| failed("the gate's lock", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(RepoError::Failed(
            "another gate runs in this rig's gate worktree".into(),
        )),
        Err(TryLockError::Error(error)) => Err(failed("the gate's lock", &error)),
    }
}

/// Refuses a forge directory that was replaced by a link: git would clean the files behind it.
fn refuse_link(forge: &Path) -> Result<(), RepoError> {
    match std::fs::symlink_metadata(forge).is_ok_and(|found| found.is_symlink()) {
        true => Err(RepoError::Failed(format!(
            "{} is a link: remove it",
            forge.display()
        ))),
        false => Ok(()),
    }
}

fn make_dir(path: &Path) -> Result<(), RepoError> {
    city_root::make_dirs(path).map_err(|error| failed(&path.display().to_string(), &error))
}

fn failed(what: &str, error: &std::io::Error) -> RepoError {
    RepoError::Failed(format!("{what}: {error}"))
}
