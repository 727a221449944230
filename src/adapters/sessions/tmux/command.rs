//! The only builder of `tmux` commands: argv only, an environment of our own, a timeout. A tmux server that hangs
//! makes every client hang with it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;

use crate::adapters::proc::{self, Pidfd};

/// The timeout of one command. Shorter than the timeout of any caller that waits for its effect.
const LIMIT: Duration = Duration::from_secs(5);

/// Runs a command of the server and returns its output.
///
/// # Errors
/// When it could not be run, failed (with its message), or reached its timeout.
pub fn run(
    program: &Path,
    server: &[&OsStr],
    words: &[OsString],
    input: &[u8],
) -> io::Result<String> {
    // Files in memory instead of pipes: they need no feeding or draining, whatever the amount.
    let mut stdin = memory(input)?;
    let (mut stdout, mut stderr) = (memory(&[])?, memory(&[])?);
    stdin.rewind()?;
    let mut command = Command::new(program);
    command.arg("-u").args(server).args(words).env_clear();
    // The server keeps its initial environment; `-L` locates its sockets by TMUX_TMPDIR.
    for name in ["PATH", "HOME", "USER", "TMUX_TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let mut child = command
        .env("LC_ALL", "C.UTF-8")
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::from(stdout.try_clone()?))
        .stderr(Stdio::from(stderr.try_clone()?))
        .spawn()?;
    let verb = words.first().map(|word| word.to_string_lossy());
    let verb = verb.unwrap_or_default();
    let Some(status) = wait(&mut child)? else {
        let why = format!("tmux {verb}: no answer within {LIMIT:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    };
    if !status.success() {
        let said = text(&mut stderr)?;
        let why = format!("tmux {verb}: {} ({status})", said.trim());
        return Err(io::Error::other(why));
    }
    text(&mut stdout)
}

fn memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("tmux", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for the child's status; none if it was killed at its timeout.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    // An unreaped child has an identity, dead or not; a dead one needs no waiting.
    let process = proc::identify(child.id())?;
    if let Some(pidfd) = Pidfd::open(&process)?
        && !pidfd.wait(LIMIT)?
    {
        child.kill()?;
        child.wait()?;
        return Ok(None);
    }
    child.wait().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fake(script: &str) -> io::Result<String> {
        let dir = crate::testing::scratch();
        let path = dir.path().join("tmux");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut result;
        loop {
            result = run(&path, &[], &["do".into()], b"given");
            // Another thread's child may have the script open for writing for a moment.
            let busy = |error: &io::Error| error.kind() == io::ErrorKind::ExecutableFileBusy;
            if !result.as_ref().is_err_and(busy) {
                return result;
            }
        }
    }

    #[test]
    fn a_command_gets_its_input_and_gives_its_output() {
        assert_eq!(fake("cat; echo \" $2\"").unwrap(), "given do\n");
        let error = fake("echo no >&2; exit 1").unwrap_err().to_string();
        assert!(
            error.contains("tmux do: no") && error.contains('1'),
            "{error}"
        );
    }

    #[test]
    fn a_command_that_hangs_is_given_up() {
        let error = fake("exec sleep 1000").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
