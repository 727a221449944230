//! Shell commands that the supervisor itself runs: the commands and conditions of automations.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::cause::Cause;
use crate::domain::city::Rights;

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The line for the shell.
    pub line: String,
    /// Working directory.
    pub dir: PathBuf,
    /// Its complete environment.
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: Option<String>,
    /// Timeout, after which it is ended with everything that it started.
    pub limit: Duration,
    /// The file that lists the processes of the command while it runs.
    pub record: PathBuf,
    /// Set when it must not run while leftovers of an earlier command with this record cannot be ended.
    pub alone: bool,
    /// The rights of its calls to the supervisor.
    pub rights: Rights,
    /// The name of its calls in the journal.
    pub name: String,
}

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
    /// Set when it hit its timeout.
    pub timed_out: bool,
    /// Set when it was stopped.
    pub stopped: bool,
    /// The reason why it could not be run or watched.
    pub why: Option<String>,
    /// The end of its output.
    pub tail: String,
}

impl Ended {
    /// Returns true when it ran at all, however it ended.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.timed_out || self.stopped || self.signal.is_some() || self.code.is_some()
    }

    /// Returns the cause of its end for the journal.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match (self.code, self.signal) {
            _ if self.stopped => Cause::Shutdown,
            _ if self.timed_out => Cause::Timeout,
            _ if !self.has_run() => Cause::StartFailed,
            (_, Some(_)) => Cause::Signal,
            (Some(0), None) if self.why.is_none() => Cause::Completed,
            // A process that it started cannot be ended.
            (Some(0), None) => Cause::Internal,
            (_, None) => Cause::ExitCode,
        }
    }
}

/// Ends a command; may be called more than once, and after its end.
pub type Stop = Arc<dyn Fn() + Send + Sync>;

/// A running command.
pub struct Running {
    /// Ends it early.
    pub stop: Stop,
    /// Completes when it has ended with everything that it started.
    pub end: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

/// Runs commands.
pub trait Runner: Send + Sync {
    /// Starts a command. Leftovers of an earlier command with the same record are ended first, if possible.
    fn start(&self, command: Command) -> Running;

    /// Ends the leftovers of a command whose supervisor was killed. Blocks.
    ///
    /// # Errors
    /// The processes that could not be ended.
    fn end_leftovers(&self, record: &Path) -> Result<(), String>;

    /// Returns the rights of a process that belongs to an errand of the supervisor: a command, a gate, a set-up, a git
    /// hook. None for all other processes. A process that cannot be judged gets read-only rights.
    fn errand_of(&self, pid: u32) -> Option<Rights>;

    /// Returns the name of the command that a process belongs to; none for all other processes.
    fn errand_name(&self, pid: u32) -> Option<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, signal, timed out, stopped, reason given; then has it run, and its cause.
    #[test]
    fn command_that_did_not_run_has_no_exit() {
        for (code, signal, timed_out, stopped, why, ran, cause) in [
            (Some(0), None, false, false, false, true, Cause::Completed),
            (Some(0), None, false, false, true, true, Cause::Internal),
            (Some(3), None, false, false, true, true, Cause::ExitCode),
            (None, Some(9), false, false, false, true, Cause::Signal),
            (None, None, true, false, false, true, Cause::Timeout),
            (None, Some(15), false, true, false, true, Cause::Shutdown),
            (None, None, false, false, true, false, Cause::StartFailed),
        ] {
            let ended = Ended {
                code,
                signal,
                timed_out,
                stopped,
                why: why.then(|| "no room".to_owned()),
                tail: String::new(),
            };
            assert_eq!((ended.has_run(), ended.cause()), (ran, cause), "{ended:?}");
        }
    }
}
