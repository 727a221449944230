//! Runs one set-up command in a fresh sandbox: own process group, a timeout, its output in a file that is read from
//! the end. Processes that the command leaves behind are ended with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::adapters::proc::{self, Pidfd};
use crate::adapters::runs::{self, Run};
use crate::domain::city::Rights;

/// The timeout. Installing dependencies takes a while; a command that waits for input would never end.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The number of bytes at the end of a failed command's output that are shown.
const TAIL: u64 = 2_000;

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
    // A file, not a pipe: a process left in the background cannot hold up the end.
    let mut output = tempfile::tempfile().map_err(wrong)?;
    let run = Run::begin(runs, Rights::Read).map_err(wrong)?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(dir);
    shell.env_clear().envs(env).env(runs::TOKEN, run.token());
    let ended = attend(shell, &output, &run, limit);
    // Also after a success: processes left in the background do not stay in the sandbox.
    run.end().map_err(wrong)?;
    let how = match ended.map_err(wrong)? {
        Some(status) if status.success() => return Ok(()),
        Some(status) => status.to_string(),
        None => format!("it took longer than {limit:?}"),
    };
    Err(format!("{how}\n{}", tail(&mut output).map_err(wrong)?))
}

/// Waits for the end and returns the status; none when the timeout was reached.
fn attend(
    mut shell: Command,
    output: &File,
    run: &Run,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let mut child = shell
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    let in_time = run.started(child.id()).and_then(|()| wait(&child, limit));
    // The child is not reaped yet, so its number cannot be reused.
    let group = Pid::from_raw(child.id().cast_signed());
    let _none_left = killpg(group, Signal::SIGKILL);
    let status = child.wait()?;
    Ok(in_time?.then_some(status))
}

/// Returns true if the child ended within the limit.
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    match Pidfd::open(&proc::identify(child.id())?)? {
        Some(process) => process.wait(limit),
        None => Ok(true),
    }
}

fn tail(output: &mut File) -> io::Result<String> {
    let length = output.metadata()?.len();
    output.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    output.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

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
