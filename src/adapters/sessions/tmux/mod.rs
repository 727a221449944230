//! Sessions in tmux: the city's own server, one tmux session with one pane each. A holder runs inside the pane
//! ([`Pane`] is its view of it) and keeps records, lock and log exactly as a detached one does; only the terminal
//! differs. The daemon asks tmux only to start a pane, to remove one, and once per look at sessions that run in one.

mod command;
mod meeting;
mod pane;
mod paste_mode;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

pub use self::meeting::meet;
pub use self::pane::Pane;

use self::meeting::Meeting;
use super::files::PaneId;
use super::launch::{COLS, HOLD, Launch, ROWS, Reply};
use crate::adapters::{beneath, proc};
use crate::domain::facts::ProcessId;
use crate::domain::ids::SessionId;

/// The descriptors of the server that are kept for clients of the supervisor and of people.
const SPARE: u64 = 10;
/// The oldest supported version.
const LEAST_VERSION: (u32, u32) = (3, 3);
/// The time within which a server ends after its last session.
const SERVER_END: Duration = Duration::from_secs(5);
/// The pause between two tries meanwhile.
const PAUSE: Duration = Duration::from_millis(5);
/// Settings of the city's server. `window-size` must not be among them: a global "manual" crashes tmux at the next
/// session.
const SETTINGS: &str = "\
# Written by horde-supervisor for its own tmux server; changes are lost.
set -g remain-on-exit on
set -g default-size 200x50
set -g history-limit 2000
set -g status off
set -g allow-rename off
set -g automatic-rename off
set -g destroy-unattached off
set -g update-environment ''
set -s exit-empty on
set -s escape-time 0
bind -n 'C-\\' detach-client
";

/// The state of a pane by tmux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// Set when a person is attached.
    pub attached: bool,
    /// Its last activity, in whole seconds.
    pub activity: Timestamp,
}

/// Makes sure that tmux is installed and new enough.
///
/// # Errors
/// When it is not.
pub fn check() -> io::Result<()> {
    let needed = "session provider \"tmux\" needs tmux 3.3 or newer";
    let said = command::run(Path::new("tmux"), &[], &["-V".into()], &[]);
    let said = said.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!("{needed}; there is none in PATH")),
        _ => error,
    })?;
    if version(&said).is_some_and(|version| version < LEAST_VERSION) {
        return Err(io::Error::other(format!("{needed}, not {}", said.trim())));
    }
    Ok(())
}

/// The city's tmux server, running or not.
pub struct Tmux {
    name: String,
    settings: PathBuf,
    /// The server's process at the last start, if there was one.
    server: Mutex<Option<ProcessId>>,
}

impl Tmux {
    /// Makes the server of this name; its settings are kept in this file.
    pub fn new(name: String, settings: PathBuf) -> Self {
        Self {
            name,
            settings,
            server: Mutex::default(),
        }
    }

    /// Makes sure that tmux is installed and new enough, and writes the server's settings.
    ///
    /// # Errors
    /// When it is not, or the settings cannot be written.
    pub fn prepare(&self) -> io::Result<()> {
        check()?;
        let (dir, name) = (self.settings.parent(), self.settings.file_name());
        let (Some(dir), Some(name)) = (dir, name) else {
            return Err(io::Error::other(
                "the directory of the tmux settings is missing",
            ));
        };
        beneath::replace(dir, Path::new(name), SETTINGS.as_bytes()).map(drop)
    }

    /// Starts a holder in a new pane and waits for its reply. Removes the remains of an earlier session first, but
    /// not another program's session of this name.
    ///
    /// # Errors
    /// When tmux refuses, or the holder's reply is missing or invalid.
    pub fn start(&self, exe: &Path, dir: &Path, launch: &Launch) -> io::Result<Reply> {
        let meeting = Meeting::arrange(dir)?;
        let pane = self.open_pane(exe, dir, launch);
        let reply = pane.and_then(|holder| meeting.hold(&holder, launch));
        if matches!(reply, Ok(Reply::Ready(_))) {
            return reply;
        }
        // tmux may have made the pane even if it said nothing, or failed afterwards.
        let killed = kill(
            |words| self.ask(words),
            &launch.id,
            |pid| is_holder(pid, dir),
        );
        let reply = reply?;
        killed.map(|()| reply)
    }

    /// Checks that the server has descriptors for another pane. A server without any waits for its clients, which wait
    /// for it: neither a stop nor a person reaches its panes. A pane takes two, and a client of its holder three; all
    /// holders may need one at the same time.
    ///
    /// # Errors
    /// When there are too few, or tmux does not answer.
    pub fn check_descriptors(&self) -> io::Result<()> {
        let Some(server) = self.server()? else {
            return Ok(());
        };
        let found = match proc::descriptors(&server) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the descriptors of the tmux server cannot be read; it may run out of them");
                return Ok(());
            }
        };
        if found.limit.saturating_sub(found.open) >= SPARE + found.open / 2 * 3 {
            return Ok(());
        }
        let message = format!(
            "few file descriptors are left in the tmux server (pid {}); raise `ulimit -n`",
            server.pid
        );
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
    }

    /// Returns the process of the server; none if none runs.
    fn server(&self) -> io::Result<Option<ProcessId>> {
        let known = self.known_server().clone();
        if let Some(server) = &known
            && proc::lives(server)?
        {
            return Ok(known);
        }
        // Asked without the lock: a server that hangs must not make each start wait for the one before.
        let said = match self.ask(&["display-message", "-p", "#{pid}"].map(Into::into)) {
            Err(error) if !is_missing(&error) => return Err(error),
            said => said.unwrap_or_default(),
        };
        // One that cannot be identified is not checked.
        let pid = said.trim().parse().ok();
        let found = pid.and_then(|pid| proc::identify(pid).ok());
        self.known_server().clone_from(&found);
        Ok(found)
    }

    fn known_server(&self) -> MutexGuard<'_, Option<ProcessId>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_pane(&self, exe: &Path, dir: &Path, launch: &Launch) -> io::Result<ProcessId> {
        let program = program()?;
        let size = [COLS.to_string(), ROWS.to_string()];
        // tmux expands formats in the directory, but in none of the other arguments.
        let cwd = launch.cwd.to_string_lossy().replace('#', "##");
        let mut words: Vec<OsString> = ["new-session", "-d", "-P", "-F", "#{pane_pid}"]
            .map(Into::into)
            .into();
        words.extend(["-s", launch.id.as_str()].map(Into::into));
        words.extend(["-x", &size[0], "-y", &size[1], "-c", &cwd, "--"].map(Into::into));
        words.extend([exe.into(), HOLD[1].into(), dir.into(), program.into()]);
        let said = self.new_session(&launch.id, dir, &words)?;
        // A client of another size makes the new window its own size.
        let target = format!("={}:", launch.id);
        let resize = [
            "resize-window",
            "-t",
            &target,
            "-x",
            &size[0],
            "-y",
            &size[1],
        ];
        let follow = [";", "set-option", "-w", "-u", "-t", &target, "window-size"];
        let words: Vec<OsString> = resize.into_iter().chain(follow).map(Into::into).collect();
        self.ask(&words)?;
        let strange = || io::Error::other(format!("tmux reports no process of the pane: {said:?}"));
        proc::identify(said.trim().parse().map_err(|_| strange())?)
    }

    fn new_session(&self, id: &SessionId, dir: &Path, words: &[OsString]) -> io::Result<String> {
        loop {
            let said = self.ask(words);
            let is_taken = |error: &io::Error| error.to_string().contains("duplicate session");
            if !said.as_ref().is_err_and(is_taken) {
                return said;
            }
            kill(|words| self.ask(words), id, |pid| is_holder(pid, dir))?;
        }
    }

    /// Runs a command of the server, which is started if needed.
    fn ask(&self, words: &[OsString]) -> io::Result<String> {
        let server = ["-L", &self.name, "-f"].map(OsStr::new);
        let server = [server[0], server[1], server[2], self.settings.as_os_str()];
        unless_it_ends(|| command::run(Path::new("tmux"), &server, words, &[]))
    }
}

/// Repeats a command while its server ends with its last session: such a server answers no client.
fn unless_it_ends(run: impl Fn() -> io::Result<String>) -> io::Result<String> {
    let deadline = Instant::now() + SERVER_END;
    loop {
        let said = run();
        let is_ending = |error: &io::Error| {
            let said = error.to_string();
            said.contains("server exited") || said.contains("lost server")
        };
        if !said.as_ref().is_err_and(is_ending) || Instant::now() >= deadline {
            return said;
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// Removes the pane of a holder that ended without cleaning up, even if a person moved the pane or renamed its
/// session.
///
/// # Errors
/// When tmux does not answer.
pub fn remove(pane: &PaneId, holder: u32, id: &SessionId) -> io::Result<()> {
    if !pane.socket.exists() {
        return Ok(());
    }
    // A later server reuses the ids, and a record may name any pane: the pane must have been started to hold this
    // session.
    let held = format!("#{{m:*{}*/{id}*,#{{pane_start_command}}}}", HOLD[1]);
    let ours = format!("#{{&&:#{{==:#{{pane_pid}},{holder}}},{held}}}");
    let kill = format!("kill-pane -t {}", pane.id);
    let words = ["if-shell", "-F", "-t", &pane.id, &ours, &kill];
    ignore_missing_target(on(&pane.socket, &words.map(Into::into)))
}

/// Returns true if a process is the server of this name, as [`Tmux`] starts it. The server keeps the arguments of the
/// client that it was forked from.
#[must_use]
pub fn is_server(pid: u32, name: &str) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words.split(|byte| *byte == 0).collect();
    let named = words
        .windows(2)
        .any(|pair| pair == [b"-L", name.as_bytes()]);
    let program = words
        .first()
        .and_then(|word| word.rsplit(|byte| *byte == b'/').next());
    named && program == Some(b"tmux")
}

/// Returns true if a process is, or was, the holder of the session in this directory.
fn is_holder(pid: u32, dir: &Path) -> bool {
    // A process that has ended has no arguments any more.
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut each = words.split(|byte| *byte == 0);
    words.is_empty() || each.any(|word| word == dir.as_os_str().as_bytes())
}

/// Removes the session of this name if it is dead or contains a pane of ours.
fn kill(
    ask: impl Fn(&[OsString]) -> io::Result<String>,
    id: &SessionId,
    is_ours: impl Fn(u32) -> bool,
) -> io::Result<()> {
    let target = format!("={id}");
    let format = "#{pane_dead} #{pane_pid}";
    let panes = match ask(&["list-panes", "-s", "-t", &target, "-F", format].map(Into::into)) {
        Err(error) if !is_missing(&error) => return Err(error),
        other => other.unwrap_or_default(),
    };
    let alive = panes.lines().filter_map(|line| line.strip_prefix("0 "));
    let mut alive = alive.filter_map(|pid| pid.parse().ok()).peekable();
    if let Some(&stranger) = alive.peek()
        && !alive.any(is_ours)
    {
        let why = format!(
            "the tmux session {id} does not belong to the supervisor: process {stranger} runs in it"
        );
        return Err(io::Error::other(why));
    }
    ignore_missing_target(ask(&["kill-session", "-t", &target].map(Into::into)))
}

fn ignore_missing_target(said: io::Result<String>) -> io::Result<()> {
    match said {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Returns true if tmux refused a command because there is no such pane, no such session, or no server: nothing is
/// left of it. A server that could not be reached, or lost the client, may still have it.
fn is_missing(error: &io::Error) -> bool {
    let said = error.to_string();
    let absent = [
        "can't find ",
        "no server running",
        "no current target",
        "no sessions",
    ];
    // Behind no socket, and behind one that refuses, there is no server.
    let no_server = ["(No such file or directory)", "(Connection refused)"];
    let is_unreached = said.contains("error connecting to ");
    absent.iter().any(|text| said.contains(text))
        || is_unreached && no_server.iter().any(|text| said.contains(text))
}

/// Runs a command of the server behind this socket.
fn on(socket: &Path, words: &[OsString]) -> io::Result<String> {
    let server = [OsStr::new("-S"), socket.as_os_str()];
    unless_it_ends(|| command::run(Path::new("tmux"), &server, words, &[]))
}

/// Returns the state of all panes of the server, by the pids of their holders.
///
/// # Errors
/// When the server does not answer.
pub fn sweep(socket: &Path) -> io::Result<HashMap<u32, Glance>> {
    let format = "#{pane_pid} #{session_attached} #{window_activity}";
    let words = ["list-panes", "-a", "-F", format].map(Into::into);
    let said = on(socket, &words)?;
    let glance = |line: &str| {
        let mut words = line.split(' ').map(str::parse::<i64>);
        let (pid, attached) = (words.next()?.ok()?, words.next()?.ok()?);
        let activity = Timestamp::from_second(words.next()?.ok()?).ok()?;
        let attached = attached > 0;
        Some((u32::try_from(pid).ok()?, Glance { attached, activity }))
    };
    Ok(said.lines().filter_map(glance).collect())
}

/// Returns the path of `tmux`. The server has another PATH than the daemon.
fn program() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("tmux"));
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| io::Error::other("there is no tmux in PATH"))
}

/// Parses `tmux 3.3a` or `tmux next-3.6`; none for a build from an unnamed source.
fn version(said: &str) -> Option<(u32, u32)> {
    let number = said
        .trim()
        .trim_start_matches(|c: char| !c.is_ascii_digit());
    let (major, minor) = number.split_once('.')?;
    let end = minor.find(|c: char| !c.is_ascii_digit());
    let minor = &minor[..end.unwrap_or(minor.len())];
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("tmux 3.3a\n"), Some((3, 3)));
        assert_eq!(version("tmux next-3.10"), Some((3, 10)));
        assert_eq!(version("tmux master"), None);
        assert!(version("tmux 2.9a").unwrap() < LEAST_VERSION);
        assert!(version("tmux 3.10").unwrap() > LEAST_VERSION);
    }

    #[test]
    fn only_the_absence_of_a_pane_or_server_means_that_nothing_is_left() {
        let is = |said: &str| is_missing(&io::Error::other(said.to_owned()));
        assert!(is("tmux kill-pane: can't find pane: %7 (exit status: 1)"));
        assert!(is("tmux kill-session: no server running on /tmp/tmux-0/x"));
        let no_socket = "error connecting to /tmp/tmux-0/x (No such file or directory)";
        assert!(is(no_socket));
        assert!(!is(
            "error connecting to /tmp/x (Resource temporarily unavailable)"
        ));
        assert!(!is("tmux kill-pane: lost server (exit status: 1)"));
        assert!(!is("tmux kill-pane: no answer within 5s"));
        let no_program = io::Error::from(io::ErrorKind::NotFound);
        assert!(!is_missing(&no_program), "tmux itself is missing");
    }
}
