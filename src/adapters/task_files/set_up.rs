//! Runs one set-up command in a fresh sandbox, with a timeout. Processes that the command leaves behind are ended with
//! it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::adapters::commands::process::{self, End, Script};
use crate::adapters::commands::tail::Tail;
use crate::adapters::runs::Run;
use crate::adapters::standstill;
use crate::domain::city::Rights;

/// The timeout. Installing dependencies takes a while; a command that waits for input would never end.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The number of bytes at the end of a failed command's output that are shown.
const TAIL: usize = 2_000;

/// Runs the command to its end, recorded in the directory `runs`.
///
/// # Errors
/// The status of a failed command, with the end of its output.
pub(super) fn run(
    dir: &Path,
    command: &str,
    env: &BTreeMap<String, String>,
    runs: &Path,
) -> Result<(), String> {
    run_within(dir, command, env, runs, LIMIT)
}

fn run_within(
    dir: &Path,
    command: &str,
    env: &BTreeMap<String, String>,
    runs: &Path,
    limit: Duration,
) -> Result<(), String> {
    let wrong = |error: io::Error| error.to_string();
    let mut tail = Tail::new(TAIL);
    standstill::pass();
    let run = Run::begin(runs, Rights::Read).map_err(wrong)?;
    let script = Script {
        line: command,
        dir,
        env,
        stdin: Stdio::null(),
        limit,
        stop: None,
    };
    let end = process::run(script, &run, &mut |bytes| tail.add(bytes));
    run.end().map_err(wrong)?;
    let how = match end.map_err(wrong)? {
        End::NotStarted(why) => return Err(why),
        End::Ended { cut: Some(_), .. } => format!("it took longer than {limit:?}"),
        End::Ended { code: Some(0), .. } => return Ok(()),
        End::Ended {
            code: Some(code), ..
        } => format!("exit status: {code}"),
        End::Ended { signal, .. } => format!("signal: {}", signal.unwrap_or_default()),
    };
    Err(format!("{how}\n{}", tail.text()))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::adapters::proc;

    fn path() -> BTreeMap<String, String> {
        BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())])
    }

    #[test]
    fn a_command_that_leaves_something_running_does_not_hold_up_the_charge() {
        let dir = crate::testing::scratch();
        let started = Instant::now();
        let command = "setsid sleep 300 & echo $! >pid; sleep 300 & echo $! >>pid";
        let runs = dir.path().join("runs");
        run(dir.path(), command, &path(), &runs).unwrap();
        assert!(started.elapsed() < Duration::from_secs(60));
        let pids = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let pids: Vec<u32> = pids.lines().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        for pid in pids {
            assert!(!proc::stat(pid).unwrap().is_some_and(|stat| stat.lives()));
        }
        assert_eq!(std::fs::read_dir(runs).unwrap().count(), 0);
    }

    #[test]
    fn a_command_that_never_ends_is_ended_at_the_limit() {
        let dir = crate::testing::scratch();
        let limit = Duration::from_millis(200);
        let (command, runs) = ("echo waiting; sleep 300", dir.path().join("runs"));
        let why = run_within(dir.path(), command, &path(), &runs, limit).unwrap_err();
        assert!(
            why.contains("longer than") && why.contains("waiting"),
            "{why}"
        );
    }
}
