//! The conversation between the daemon and a new holder: one JSON object to the holder, one line back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::files::{self, SessionRecord};
use crate::adapters::proc;
use crate::domain::ids::{Generation, Incarnation, SessionId};
use crate::domain::terminal_log;

/// Rows of a session's terminal until it is resized.
pub const ROWS: u16 = terminal_log::SIZE.0;
/// Columns of a session's terminal until it is resized.
pub const COLS: u16 = terminal_log::SIZE.1;
/// The timeout for a new holder's reply.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The instructions for a new holder.
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
    /// Most bytes of log on disk.
    pub output_limit: u64,
    /// Facts kept with the session.
    pub meta: BTreeMap<String, String>,
    /// Soft limit of open files for the agent: the daemon's own at its start.
    pub open_files: Option<u64>,
}

/// The reply of a holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The agent runs.
    Ready(Box<SessionRecord>),
    /// Processes of an earlier session hold the alive-lock.
    Locked,
    /// The working directory does not exist.
    NoCwd,
    /// The program cannot be run.
    NoProgram(String),
    /// A file of the session cannot be written: the disk is full or read-only.
    Unwritable(String),
    /// Another failure.
    Failed(String),
}

impl Reply {
    /// Makes the reply for an I/O error.
    pub fn of(what: &str, error: &io::Error) -> Self {
        let said = format!("{what}: {error}");
        match files::is_unwritable(error) {
            true => Self::Unwritable(said),
            false => Self::Failed(said),
        }
    }

    /// The reply as one line.
    #[must_use]
    pub fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data always serialises");
        format!("{json}\n")
    }
}

/// Returns the possible paths of a session's program: the program as given if it has a slash, else one in each
/// directory of the session's own `PATH`.
#[must_use]
pub fn candidates(program: &str, path: Option<&str>) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![program.into()];
    }
    let dirs = path.unwrap_or("/usr/bin:/bin").split(':');
    let dirs = dirs.map(|dir| if dir.is_empty() { "." } else { dir });
    dirs.map(|dir| Path::new(dir).join(program)).collect()
}

/// The subcommands that make the program a holder: with a terminal of its own, or in a pane of tmux.
pub const HOLD: [&str; 2] = ["hold", "hold-pane"];

/// Returns true if a process was started as a session's holder.
#[must_use]
pub fn is_holder(pid: u32) -> bool {
    held_by(pid).is_some()
}

/// Returns the directory from the command line of a session's holder; none if the process is no holder.
#[must_use]
pub fn held_by(pid: u32) -> Option<PathBuf> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let word = words.next()?;
    let dir = words.next()?;
    let holds = HOLD.iter().any(|hold| hold.as_bytes() == word);
    holds.then(|| PathBuf::from(OsStr::from_bytes(dir)))
}

/// Returns true if a process was started as the holder of the session in this directory. The directory is recognised
/// by its path at the start, or as the holder's working directory, because it may have been moved. A holder of
/// another city does not count even if its path is this one: its city was moved away, and a copy took its place.
#[must_use]
pub fn is_holder_of(pid: u32, dir: &Path) -> bool {
    let Some(held) = held_by(pid) else {
        return false;
    };
    let works_in = || id(Path::new(&format!("/proc/{pid}/cwd")));
    let is_here = || works_in().is_some_and(|there| Some(there) == id(dir));
    is_here() || held == dir && !is_of_another_city(pid, dir)
}

/// Returns true if a process is the holder of a session of another city: its working directory is
/// `CITY/.horde/sessions/ID` there, and it holds the lock in that directory.
#[must_use]
pub fn is_of_another_city(pid: u32, dir: &Path) -> bool {
    let cwd = PathBuf::from(format!("/proc/{pid}/cwd"));
    let Ok(place) = std::fs::read_link(&cwd) else {
        return false;
    };
    let mut above = place.ancestors().skip(1).map(Path::file_name);
    let rooms = [files::SESSIONS, files::CITY_STATE].map(|name| Some(OsStr::new(name)));
    if held_by(pid).is_none() || rooms.iter().any(|room| above.next().flatten() != *room) {
        return false;
    }
    let theirs = id(&cwd.join("../../.."));
    let ours = dir.ancestors().nth(3).and_then(id);
    // Either city may have been removed.
    let elsewhere = theirs.is_some() && ours.is_some() && theirs != ours;
    let lock = || std::fs::symlink_metadata(cwd.join(files::LOCK));
    elsewhere && lock().is_ok_and(|lock| proc::holds_lock(pid, &lock))
}

/// Returns the identity of a directory independent of its path.
fn id(dir: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(dir).ok().map(|it| (it.dev(), it.ino()))
}

/// Sends the instructions to a new holder, signals their end with `done`, and waits for the reply.
///
/// # Errors
/// When the holder does not read, or its reply is missing or invalid.
pub fn converse<W: Write, R: Read + AsFd>(
    mut to: W,
    done: impl FnOnce(W),
    from: R,
    launch: &Launch,
) -> io::Result<Reply> {
    to.write_all(&serde_json::to_vec(launch)?)?;
    done(to);
    let line = first_line(from)?;
    serde_json::from_str(&line).map_err(|error| {
        io::Error::other(format!(
            "the holder's reply {line:?} cannot be parsed: {error}"
        ))
    })
}

fn first_line(from: impl Read + AsFd) -> io::Result<String> {
    let timeout = rustix::time::Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    loop {
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::other("the holder does not reply")),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The reply is one short write, so the line is complete once its first byte has arrived.
    let mut line = String::new();
    BufReader::with_capacity(4096, from).read_line(&mut line)?;
    Ok(line)
}
