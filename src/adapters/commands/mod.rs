//! Shell commands that end by themselves or are ended as a whole: gates, and the commands of automations.
//!
//! ```text
//! end the remains of an earlier run ─▶ record ─▶ run (process) ─▶ end all its processes
//! ```

pub mod process;
pub mod tail;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use super::runs::{self, Run};
use super::standstill;
use crate::domain::city::Rights;
use crate::ports::runner::{Command, Ended, Runner, Running};
use process::{Cut, End, Script};
use tail::Tail;

/// The number of bytes at the end of an output that are kept.
const TAIL_MAX: usize = 4 * 1024;

/// A runner of commands on this machine.
#[derive(Debug, Default)]
pub struct Commands;

impl Runner for Commands {
    fn start(&self, command: Command) -> Running {
        // Without a free descriptor the command cannot be stopped early; its timeout still holds.
        let signal = eventfd(0, EventfdFlags::CLOEXEC).ok().map(Arc::new);
        let watched = signal.clone();
        let work = tokio::task::spawn_blocking(move || {
            run(&command, watched.as_deref()).unwrap_or_else(|error| Ended {
                why: Some(error.to_string()),
                ..Ended::default()
            })
        });
        Running {
            stop: Arc::new(move || {
                if let Some(signal) = &signal {
                    // If the counter is full, the signal was sent already.
                    let _told = rustix::io::write(signal, &1_u64.to_ne_bytes());
                }
            }),
            end: Box::pin(async move {
                work.await.unwrap_or_else(|panic| Ended {
                    why: Some(panic.to_string()),
                    ..Ended::default()
                })
            }),
        }
    }

    fn end_leftovers(&self, record: &Path) -> Result<(), String> {
        let ended = runs::end_leftovers(record);
        ended.map_err(|error| error.to_string())
    }

    fn errand_of(&self, pid: u32) -> Option<Rights> {
        runs::rights_of(pid)
    }

    fn errand_name(&self, pid: u32) -> Option<String> {
        runs::name_of(pid)
    }
}

fn run(command: &Command, stop: Option<&OwnedFd>) -> std::io::Result<Ended> {
    // Before its record is written.
    standstill::pass();
    match runs::end_leftovers(&command.record) {
        Err(error) if command.alone => return Err(error),
        Err(error) => {
            let (command, line) = (&command.name, &command.line);
            tracing::error!(
                command,
                line,
                %error,
                "processes of an earlier run of this command could not be ended; the command runs nevertheless"
            );
        }
        Ok(()) => {}
    }
    let own = Run::begin(&command.record, command.rights)?.named(&command.name);
    let mut tail = Tail::new(TAIL_MAX);
    let script = Script {
        line: &command.line,
        dir: &command.dir,
        env: &command.env,
        stdin: stdin(command.stdin.as_deref())?,
        limit: command.limit,
        stop,
    };
    let end = process::run(script, &own, &mut |bytes| tail.add(bytes));
    let left = own.end();
    let mut ended = Ended {
        // The result stands even if a process of the command is left.
        why: left.err().map(|error| error.to_string()),
        tail: tail.text(),
        ..Ended::default()
    };
    match end? {
        End::NotStarted(why) => ended.why = Some(why),
        End::Ended { code, signal, cut } => {
            (ended.code, ended.signal) = (code, signal);
            ended.timed_out = cut == Some(Cut::TimedOut);
            ended.stopped = cut == Some(Cut::Stopped);
        }
    }
    Ok(ended)
}

/// Makes the standard input as a file, not a pipe: no writer is needed while the command may not read.
fn stdin(text: Option<&str>) -> std::io::Result<Stdio> {
    let Some(text) = text else {
        return Ok(Stdio::null());
    };
    let mut file: File = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn run(dir: &Path, line: &str, limit: Duration, stop: bool) -> Ended {
        let running = Commands.start(Command {
            line: line.to_owned(),
            dir: dir.to_owned(),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            stdin: Some("said\n".to_owned()),
            limit,
            record: dir.join("x.run"),
            alone: true,
            rights: Rights::All,
            name: "test".into(),
        });
        if stop {
            (running.stop)();
        }
        running.end.await
    }

    const LONG: Duration = Duration::from_secs(300);

    #[tokio::test]
    async fn a_command_reads_its_input_and_the_end_of_its_output_is_kept() {
        let dir = crate::testing::scratch();
        let ended = run(
            dir.path(),
            "cat; seq 1 5000; echo end >&2; exit 3",
            LONG,
            false,
        )
        .await;
        assert_eq!(
            (ended.code, ended.timed_out, ended.stopped),
            (Some(3), false, false)
        );
        assert!(ended.tail.ends_with("5000\nend\n"));
        assert_eq!(ended.tail.len(), TAIL_MAX);
        assert_eq!(run(dir.path(), "cat", LONG, false).await.tail, "said\n");
        let left = std::fs::read_dir(dir.path().join("x.run")).unwrap().count();
        assert_eq!(left, 0);
    }

    #[tokio::test]
    async fn time_limit_and_stop_end_every_process_of_a_run() {
        let dir = crate::testing::scratch();
        let line = "setsid sleep 300 & echo $! > pid; wait";
        for (limit, stop) in [(Duration::from_millis(300), false), (LONG, true)] {
            let ended = run(dir.path(), line, limit, stop).await;
            assert_eq!((ended.timed_out, ended.stopped), (!stop, stop));
            if !stop {
                let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
                let pid: u32 = pid.trim().parse().unwrap();
                let stat = crate::adapters::proc::stat(pid).unwrap();
                assert!(stat.is_none_or(|stat| !stat.lives()));
            }
        }
    }

    #[tokio::test]
    async fn failed_start_gives_its_reason() {
        let dir = crate::testing::scratch();
        let running = Commands.start(Command {
            line: "true".into(),
            dir: dir.path().join("none"),
            env: Default::default(),
            stdin: None,
            limit: LONG,
            record: dir.path().join("x.run"),
            alone: true,
            rights: Rights::All,
            name: "test".into(),
        });
        assert!(running.end.await.why.is_some());
    }

    /// A record that cannot be removed stands for processes that cannot be ended.
    #[tokio::test]
    async fn run_that_cannot_be_ended_blocks_exclusive_commands_only() {
        let dir = crate::testing::scratch();
        std::fs::create_dir_all(dir.path().join("x.run/stuck")).unwrap();
        for (alone, runs) in [(true, false), (false, true)] {
            let running = Commands.start(Command {
                line: "true".into(),
                dir: dir.path().to_owned(),
                env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
                stdin: None,
                limit: LONG,
                record: dir.path().join("x.run"),
                alone,
                rights: Rights::All,
                name: "test".into(),
            });
            let ended = running.end.await;
            assert_eq!(ended.has_run(), runs, "{ended:?}");
            assert_eq!(ended.why.is_some(), !runs);
        }
    }
}
