//! What the daemon tells a new holder, and what the holder says back: one JSON object one way, one
//! line the other.

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

use super::files::{self, State};
use crate::adapters::proc;
use crate::domain::ids::{Generation, Incarnation, SessionId};
use crate::domain::terminal_log;

/// Size of a session's terminal until somebody changes it.
pub const ROWS: u16 = terminal_log::SIZE.0;
/// As [`ROWS`].
pub const COLS: u16 = terminal_log::SIZE.1;
/// A holder that says nothing for this long is not going to.
pub const PATIENCE: Duration = Duration::from_secs(30);

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
    /// Most bytes of log on disk.
    pub output_limit: u64,
    /// Facts kept with the session.
    pub meta: BTreeMap<String, String>,
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
    /// What it needs to write down cannot be written: the disk is full or read-only.
    Unwritable(String),
    /// Something else.
    Failed(String),
}

impl Reply {
    /// What this failure of the file system, or of something else, comes to.
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

/// Where a session's program may be: as given if it has a slash, else in each directory of the
/// session's own `PATH`.
#[must_use]
pub fn candidates(program: &str, path: Option<&str>) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![program.into()];
    }
    let dirs = path.unwrap_or("/usr/bin:/bin").split(':');
    let dirs = dirs.map(|dir| if dir.is_empty() { "." } else { dir });
    dirs.map(|dir| Path::new(dir).join(program)).collect()
}

/// The words that make the program a holder, of a terminal of its own or in a pane of tmux.
pub const HOLD: [&str; 2] = ["hold", "hold-pane"];

/// Whether a process was started as a session's holder.
#[must_use]
pub fn is_holder(pid: u32) -> bool {
    held_by(pid).is_some()
}

/// The directory that a process was told to hold, if it was started as a session's holder.
#[must_use]
pub fn held_by(pid: u32) -> Option<PathBuf> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let word = words.next()?;
    let dir = words.next()?;
    let holds = HOLD.iter().any(|hold| hold.as_bytes() == word);
    holds.then(|| PathBuf::from(OsStr::from_bytes(dir)))
}

/// Whether a process was started as the holder of the session in this directory, by its path then, or as
/// the directory that it works in, which may have been moved. A holder of another city is none, though its path then may
/// be this one: its city was moved away, and a copy of it is in its place.
#[must_use]
pub fn is_holder_of(pid: u32, dir: &Path) -> bool {
    let Some(held) = held_by(pid) else {
        return false;
    };
    let works_in = || id(Path::new(&format!("/proc/{pid}/cwd")));
    let is_here = || works_in().is_some_and(|there| Some(there) == id(dir));
    is_here() || held == dir && !is_of_another_city(pid, dir)
}

/// Whether a process is the holder of a session of another city than that of this session's directory: it works in
/// `CITY/.horde/sessions/ID` there, and holds the lock of that directory.
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
    // One of them may have been removed.
    let elsewhere = theirs.is_some() && ours.is_some() && theirs != ours;
    let lock = || std::fs::symlink_metadata(cwd.join(files::LOCK));
    elsewhere && lock().is_ok_and(|lock| proc::holds_lock(pid, &lock))
}

/// What a directory is, whatever it is called.
fn id(dir: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(dir).ok().map(|it| (it.dev(), it.ino()))
}

/// Tells a new holder what to start, says with `done` that this was all, and waits for its reply.
///
/// # Errors
/// It does not listen, or says nothing that makes sense.
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
            "the holder's reply {line:?} makes no sense: {error}"
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
    // The reply is one short write, so a line is whole once its first byte is here.
    let mut line = String::new();
    BufReader::with_capacity(4096, from).read_line(&mut line)?;
    Ok(line)
}
