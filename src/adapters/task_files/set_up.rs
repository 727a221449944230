//! One set-up command in a fresh sandbox: own process group, a limit, its output in a file that is
//! read from the end. Whatever it leaves running in its group is ended with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::adapters::proc::{self, Pidfd};

/// Installing dependencies takes a while; a command that waits for somebody takes for ever.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// How much of a failed command's output is shown.
const TAIL: u64 = 2_000;

/// Runs the command to its end.
///
/// # Errors
/// How it ended, with the end of its output.
pub(super) fn run(dir: &Path, command: &str, env: &BTreeMap<String, String>) -> Result<(), String> {
    run_within(dir, command, env, LIMIT)
}

fn run_within(
    dir: &Path,
    command: &str,
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> Result<(), String> {
    let wrong = |error: io::Error| error.to_string();
    // A file, not a pipe: a process left in the background cannot hold up the end.
    let mut output = tempfile::tempfile().map_err(wrong)?;
    let copy = || output.try_clone().map_err(wrong);
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(dir)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(copy()?)
        .stderr(copy()?)
        .process_group(0)
        .spawn()
        .map_err(wrong)?;
    let in_time = wait(&child, limit).map_err(wrong);
    // Also after a good end: what it left in the background is not the sandbox's to keep.
    let group = Pid::from_raw(child.id().cast_signed());
    let _none_left = killpg(group, Signal::SIGKILL);
    let status = child.wait().map_err(wrong)?;
    if in_time? && status.success() {
        return Ok(());
    }
    let how = if status.code().is_some() {
        status.to_string()
    } else {
        format!("it took longer than {limit:?}")
    };
    Err(format!("{how}\n{}", tail(&mut output).map_err(wrong)?))
}

/// Whether it ended within the limit.
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
        let dir = tempfile::tempdir().unwrap();
        let started = Instant::now();
        run(dir.path(), "sleep 300 & echo done", &path()).unwrap();
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_command_that_never_ends_is_ended_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let limit = Duration::from_millis(200);
        let why = run_within(dir.path(), "echo waiting; sleep 300", &path(), limit).unwrap_err();
        assert!(
            why.contains("longer than") && why.contains("waiting"),
            "{why}"
        );
    }
}
