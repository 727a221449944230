//! Finds the file of a harness's program, and its version.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Timeout for a program to print its version: some load a whole runtime for that.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Interval between two checks for its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longer output is no version.
const TOLD_MAX: u64 = 4096;

/// Finds the file of a program on a `PATH`; a path is taken as it is.
#[must_use]
pub fn find(program: &str, path: &str) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        let meta = fs::metadata(file);
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    let mut files = std::env::split_paths(path).map(|dir| dir.join(program));
    files.find(runs)
}

/// Returns the version in a program's answer to `--version`.
///
/// # Errors
/// When it cannot be run, fails, or does not end in time.
pub fn version(file: &Path, env: &BTreeMap<String, String>) -> Result<String, String> {
    version_within(file, env, VERSION_LIMIT)
}

fn version_within(
    file: &Path,
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("{} cannot be run: {error}", file.display());
    // A file, not a pipe: a process that the program leaves in the background may keep it open.
    let mut told = tempfile::tempfile().map_err(cannot)?;
    let output = || told.try_clone().map(Stdio::from).map_err(cannot);
    let mut child = Command::new(file)
        .arg("--version")
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(output()?)
        .stderr(output()?)
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    let ended = wait(&child, limit);
    end(&mut child);
    let said = read(&mut told).map_err(cannot)?;
    if !ended {
        return Err(format!(
            "no answer to --version within {} s",
            limit.as_secs()
        ));
    }
    number(&said).ok_or_else(|| "its answer to --version has no version in it".to_owned())
}

/// Waits for the end of the program without reaping it, so that the number of its process group stays reserved.
fn wait(child: &Child, limit: Duration) -> bool {
    let Some(pid) = pid_of(child) else {
        return false;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let deadline = Instant::now() + limit;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            Ok(None) | Err(_) => return false,
            Ok(Some(_)) => return true,
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Ends the program and its process group.
fn end(child: &mut Child) {
    // As a rule, there is nothing left to end.
    let _gone = pid_of(child).map(|group| kill_process_group(group, Signal::KILL));
    let _reaped = child.wait();
}

fn read(told: &mut File) -> std::io::Result<String> {
    told.rewind()?;
    let mut bytes = Vec::new();
    told.take(TOLD_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the first word that has digits on both sides of a dot, without a leading `v`.
fn number(said: &str) -> Option<String> {
    let dotted = |word: &&str| {
        let parts: Vec<_> = word.split('.').collect();
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        parts.len() > 1 && digit(parts[0].chars().next()) && digit(parts[1].chars().next())
    };
    let words = said.split(|c: char| c.is_whitespace() || "(),/".contains(c));
    let mut words = words.map(|word| word.trim_start_matches('v').trim_end_matches('.'));
    words.find(dotted).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_in_the_output_of_programs() {
        for (said, version) in [
            ("2.1.197 (Claude Code)\n", Some("2.1.197")),
            ("codex-cli 0.169.0\n", Some("0.169.0")),
            ("v1.18.33", Some("1.18.33")),
            ("GitHub Copilot CLI 1.0.102.\nCommit: abc", Some("1.0.102")),
            ("aider 0.86.2", Some("0.86.2")),
            ("sh: 0: Illegal option --", None),
            ("", None),
        ] {
            assert_eq!(number(said).as_deref(), version, "{said}");
        }
    }

    fn program(dir: &Path, lines: &str) -> PathBuf {
        let file = dir.join("program");
        crate::testing::program::script(&file, lines);
        file
    }

    fn env() -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap();
        BTreeMap::from([("PATH".to_owned(), path)])
    }

    #[test]
    fn program_that_leaves_something_running_is_not_waited_for() {
        let temp = crate::testing::scratch();
        let file = program(temp.path(), "sleep 600 &\necho tool 1.2.3");
        assert_eq!(version(&file, &env()), Ok("1.2.3".to_owned()));
    }

    #[test]
    fn program_that_does_not_end_is_ended() {
        let temp = crate::testing::scratch();
        let file = program(temp.path(), "exec sleep 600");
        let said = version_within(&file, &env(), Duration::from_millis(100));
        assert_eq!(said, Err("no answer to --version within 0 s".to_owned()));
    }

    #[test]
    fn program_is_found_on_the_path_and_only_when_it_can_be_run() {
        let temp = crate::testing::scratch();
        let file = program(temp.path(), "echo 1.0");
        fs::write(temp.path().join("text"), "words").unwrap();
        let path = format!("/nowhere:{}", temp.path().display());
        assert_eq!(find("program", &path), Some(file.clone()));
        assert_eq!(find("text", &path), None);
        assert_eq!(find("program", "/nowhere"), None);
        assert_eq!(find(&file.to_string_lossy(), ""), Some(file));
    }
}
