//! What the daemon tells a new holder, and what the holder says back: one JSON object on its
//! standard input, one line on its standard output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::files::State;
use crate::domain::ids::{Generation, Incarnation, SessionId};

/// A holder that says nothing for this long is not going to.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the daemon tells a new holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The session's id.
    pub id: SessionId,
    /// Its token.
    pub token: String,
    /// Its generation.
    pub generation: Generation,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// Text to type once the program runs.
    pub first_input: Option<String>,
    /// Most bytes of log on disk.
    pub output_limit: u64,
    /// Facts kept with the session.
    pub meta: BTreeMap<String, String>,
    /// Rows of the terminal.
    pub rows: u16,
    /// Columns of the terminal.
    pub cols: u16,
    /// Soft limit of open files for the agent: what the daemon was started with.
    pub open_files: Option<u64>,
}

/// What a holder says back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The agent runs.
    Ready(Box<State>),
    /// Processes of an earlier session hold the alive-lock.
    Locked,
    /// The working directory is not there.
    NoCwd,
    /// The program cannot be run.
    NoProgram(String),
    /// Something else.
    Failed(String),
}

impl Reply {
    /// The reply as one line.
    #[must_use]
    pub fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data always serialises");
        format!("{json}\n")
    }
}

/// The word that makes the program a holder.
const HOLD: &str = "hold";

/// Whether a process was started as a session's holder.
#[must_use]
pub fn is_holder(pid: u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(HOLD.as_bytes())
}

/// Starts a holder in the directory and waits for its reply.
///
/// # Errors
/// It could not be started, or said nothing that makes sense.
pub fn launch(exe: &Path, dir: &Path, launch: &Launch) -> io::Result<Reply> {
    // No `pre_exec`: this is `posix_spawn`, whatever the size of the daemon. The holder detaches
    // itself, so the child waited for here is only its short-lived first process.
    let mut child = Command::new(exe)
        .args([OsStr::new(HOLD), dir.as_os_str()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let reply = converse(&mut child, launch);
    if reply.is_err() {
        // It may be stuck before it detached; it has started nothing then.
        let _gone_already = child.kill();
    }
    child.wait()?;
    reply
}

fn converse(child: &mut Child, launch: &Launch) -> io::Result<Reply> {
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    stdin.write_all(&serde_json::to_vec(launch)?)?;
    drop(stdin);
    let line = first_line(stdout)?;
    serde_json::from_str(&line).map_err(|error| {
        io::Error::other(format!(
            "the holder's reply {line:?} makes no sense: {error}"
        ))
    })
}

fn first_line(stdout: ChildStdout) -> io::Result<String> {
    let timeout = rustix::time::Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    loop {
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::other("the holder does not reply")),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The reply is one short write, so a line is whole once its first byte is here.
    let mut line = String::new();
    BufReader::with_capacity(4096, stdout).read_line(&mut line)?;
    Ok(line)
}
