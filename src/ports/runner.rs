//! Shell commands that the supervisor itself runs: what automations do and what they check.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::cause::Cause;
use crate::domain::city::Rights;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// For the shell.
    pub line: String,
    /// Where.
    pub dir: PathBuf,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    /// What it reads from its standard input.
    pub stdin: Option<String>,
    /// Then it is ended, and everything that it started.
    pub limit: Duration,
    /// The file that says which processes belong to it while it runs.
    pub record: PathBuf,
    /// It is not run while something that an earlier one of this record left behind cannot be ended.
    pub alone: bool,
    /// What its own calls may do.
    pub rights: Rights,
    /// The name that its own calls go by in the journal.
    pub name: String,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
    /// Its time was up.
    pub timed_out: bool,
    /// It was stopped.
    pub stopped: bool,
    /// Why it could not be run or watched.
    pub why: Option<String>,
    /// The end of its output.
    pub tail: String,
}

impl Ended {
    /// Whether it ran at all, however it ended.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.timed_out || self.stopped || self.signal.is_some() || self.code.is_some()
    }

    /// How it ended, in the word of the journal.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match (self.code, self.signal) {
            _ if self.stopped => Cause::Shutdown,
            _ if self.timed_out => Cause::Timeout,
            _ if !self.has_run() => Cause::StartFailed,
            (_, Some(_)) => Cause::Signal,
            (Some(0), None) if self.why.is_none() => Cause::Completed,
            // Something that it started cannot be ended.
            (Some(0), None) => Cause::Internal,
            (_, None) => Cause::ExitCode,
        }
    }
}

/// Tells a command to end; may be called more than once, and after its end.
pub type Stop = Arc<dyn Fn() + Send + Sync>;

/// A command under way.
pub struct Running {
    /// Ends it early.
    pub stop: Stop,
    /// Its end; everything that it started has ended then.
    pub end: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

/// Runs commands.
pub trait Runner: Send + Sync {
    /// Starts one. Whatever an earlier one of the same record left behind is ended first, if it can be.
    fn start(&self, command: Command) -> Running;

    /// Ends what a command left behind whose supervisor was killed. Blocks.
    ///
    /// # Errors
    /// What could not be ended.
    fn end_leftovers(&self, record: &Path) -> Result<(), String>;

    /// What the calls of a process may do that the supervisor started for itself, whoever started it
    /// here: a command, a gate, a set-up, a git hook. None for everybody else. A process that cannot be
    /// judged only looks.
    fn errand_of(&self, pid: u32) -> Option<Rights>;

    /// The name of the command that a process belongs to; none for everything else.
    fn errand_name(&self, pid: u32) -> Option<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, signal, timed out, stopped, whether there is a reason; whether it ran, and how it ended.
    #[test]
    fn what_did_not_run_is_no_end_of_it() {
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
