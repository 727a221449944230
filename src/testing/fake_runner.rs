//! A runner of commands that only take time, on the runtime's clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::domain::city::Rights;
use crate::ports::runner::{Command, Ended, Runner, Running};

/// The course of a command: its duration, then its exit code.
type Course = (Duration, i32);

/// A runner without processes.
#[derive(Default)]
pub struct FakeRunner(Mutex<RunnerState>);

#[derive(Default)]
struct RunnerState {
    courses: BTreeMap<String, Course>,
    prints: BTreeMap<String, String>,
    hangs: BTreeMap<String, watch::Receiver<()>>,
    refuses: Option<String>,
    started: Vec<Command>,
    leftovers: Vec<PathBuf>,
    errands: BTreeMap<u32, Rights>,
    names: BTreeMap<u32, String>,
}

impl FakeRunner {
    fn state(&self) -> std::sync::MutexGuard<'_, RunnerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the course of this line; any other succeeds at once.
    pub fn let_go(&self, line: &str, takes: Duration, code: i32) {
        self.state().courses.insert(line.to_owned(), (takes, code));
    }

    /// Sets the output of this line; any other prints a default.
    pub fn set_output(&self, line: &str, text: &str) {
        self.state().prints.insert(line.to_owned(), text.to_owned());
    }

    /// Makes commands with this line unendable, by their timeout as by a stop, until the returned handle is dropped.
    pub fn hang(&self, line: &str) -> watch::Sender<()> {
        let (ends, hangs) = watch::channel(());
        self.state().hangs.insert(line.to_owned(), hangs);
        ends
    }

    /// Makes every start fail with this reason, or work again.
    pub fn refuse(&self, why: Option<&str>) {
        self.state().refuses = why.map(str::to_owned);
    }

    /// Returns the commands that were started with this line, in order.
    #[must_use]
    pub fn started(&self, line: &str) -> Vec<Command> {
        let state = self.state();
        let started = state.started.iter().filter(|command| command.line == line);
        started.cloned().collect()
    }

    /// Makes this process one of the supervisor's own, with these rights.
    pub fn place(&self, pid: u32, rights: Rights) {
        self.state().errands.insert(pid, rights);
    }

    /// Makes this process belong to a command of that name.
    pub fn name(&self, pid: u32, name: &str) {
        self.state().names.insert(pid, name.to_owned());
    }

    /// Returns the records whose leftover processes were ended.
    #[must_use]
    pub fn leftovers(&self) -> Vec<PathBuf> {
        self.state().leftovers.clone()
    }
}

impl Runner for FakeRunner {
    fn start(&self, command: Command) -> Running {
        let mut state = self.state();
        if let Some(why) = state.refuses.clone() {
            let never = Ended {
                why: Some(why),
                ..Ended::default()
            };
            return Running {
                stop: Arc::new(|| {}),
                end: Box::pin(std::future::ready(never)),
            };
        }
        let course = state.courses.get(&command.line).copied();
        let (takes, code) = course.unwrap_or_default();
        let limit = command.limit;
        let tail = state.prints.get(&command.line).cloned();
        let tail = tail.unwrap_or_else(|| "said\n".to_owned());
        let hangs = state.hangs.get(&command.line).cloned();
        state.started.push(command);
        let stopped = Arc::new(Notify::new());
        let told = Arc::clone(&stopped);
        Running {
            stop: Arc::new(move || told.notify_one()),
            end: Box::pin(async move {
                if let Some(mut hangs) = hangs {
                    while hangs.changed().await.is_ok() {}
                }
                let over = tokio::time::timeout(takes.min(limit), stopped.notified()).await;
                if over.is_ok() {
                    return Ended {
                        stopped: true,
                        signal: Some(15),
                        tail,
                        ..Ended::default()
                    };
                }
                Ended {
                    code: (takes <= limit).then_some(code),
                    timed_out: takes > limit,
                    tail,
                    ..Ended::default()
                }
            }),
        }
    }

    fn end_leftovers(&self, record: &Path) -> Result<(), String> {
        self.state().leftovers.push(record.to_owned());
        Ok(())
    }

    fn errand_of(&self, pid: u32) -> Option<Rights> {
        self.state().errands.get(&pid).copied()
    }

    fn errand_name(&self, pid: u32) -> Option<String> {
        self.state().names.get(&pid).cloned()
    }
}
