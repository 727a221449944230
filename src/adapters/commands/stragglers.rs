//! Ending everything that a command started, also what left its process group, also after the
//! daemon that started it was killed.
//!
//! Every process of a command inherits a variable with a token that no other run has. The token is
//! recorded before the command starts. A process is never ended for its number alone.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::process;

/// The variable that marks a command's processes.
pub const TOKEN: &str = "HD_RUN_TOKEN";

/// How long the ends of killed processes are awaited.
const PATIENCE: Duration = Duration::from_secs(10);

/// The leader of a command's session: number and start time, which name a process for good.
type Leader = (u32, u64);

/// The file that says which command runs: `token` or `token pid start-time`.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
}

impl Record {
    /// The record kept in that file.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Makes a new token and records it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&self) -> std::io::Result<String> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let token = format!(
            "{}-{}-{}",
            std::process::id(),
            jiff::Timestamp::now().as_nanosecond(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        self.write(&token)?;
        Ok(token)
    }

    /// Records the leader of the command's session.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn started(&self, pid: u32) -> std::io::Result<()> {
        let Some((token, _)) = self.read()? else {
            return Ok(());
        };
        // A leader that has ended already has no start time and needs none.
        match start_time(pid) {
            Some(start) => self.write(&format!("{token} {pid} {start}")),
            None => Ok(()),
        }
    }

    /// Ends whatever is left of the recorded run and forgets it.
    ///
    /// # Errors
    /// Something of it cannot be ended; the next command would not be alone.
    pub fn end_leftovers(&self) -> std::io::Result<()> {
        let Some((token, leader)) = self.read()? else {
            return Ok(());
        };
        if let Some((pid, start)) = leader
            && start_time(pid) == Some(start)
            && let Ok(pid) = i32::try_from(pid)
        {
            // The group of a living leader is that command's; it may end in this moment.
            let _gone = killpg(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
        }
        end_marked(&token)?;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let new = self.path.with_extension("run.new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path))
    }

    fn read(&self) -> std::io::Result<Option<(String, Option<Leader>)>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut words = text.split_whitespace();
        let Some(token) = words.next() else {
            return Ok(None);
        };
        let pid = words.next().and_then(|word| word.parse().ok());
        let start = words.next().and_then(|word| word.parse().ok());
        Ok(Some((token.to_owned(), pid.zip(start))))
    }
}

/// Kills everything that carries the token until a look finds nothing more: a process may fork
/// between being seen and being ended.
fn end_marked(token: &str) -> std::io::Result<()> {
    let mark = format!("{TOKEN}={token}").into_bytes();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let marked = find(&mark)?;
        if marked.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(std::io::Error::other(format!(
                "processes {marked:?} of a command cannot be ended"
            )));
        }
        for pid in marked {
            kill(pid, &mark, deadline)?;
        }
    }
}

/// Kills one marked process and waits for its end.
fn kill(pid: i32, mark: &[u8], deadline: Instant) -> std::io::Result<()> {
    let Some(target) = Pid::from_raw(pid) else {
        return Ok(());
    };
    let pidfd = match pidfd_open(target, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    // Seen again through a number that cannot change hands any more.
    if !is_marked(pid, mark) {
        return Ok(());
    }
    match pidfd_send_signal(&pidfd, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(errno) => return Err(errno.into()),
    }
    process::poll_until(&mut [PollFd::new(&pidfd, PollFlags::IN)], deadline)
}

fn find(mark: &[u8]) -> std::io::Result<Vec<i32>> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && pid != own
            && is_marked(pid, mark)
        {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Whether the process was started with the mark. One that has ended, or is not ours, has none.
fn is_marked(pid: i32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark))
}

/// Field 22 of `/proc/<pid>/stat`.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command's name and may hold anything, parentheses too.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}
