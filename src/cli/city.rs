//! Finds the city that a command is for, and its socket (`contract.md`, 2.1).

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::config;
use crate::control::client::seat::{Holder, Occupant, occupant};
use crate::domain::city::{seat, socket_path};

use super::environment;
use super::error::{CliError, Doing};

/// A city as `hd` knows it.
#[derive(Debug, Clone)]
pub(super) struct City {
    /// Its directory.
    pub root: PathBuf,
    /// The path of its supervisor's socket.
    pub socket: PathBuf,
}

impl City {
    /// Returns the path of the log of a supervisor in the background.
    pub fn log(&self) -> PathBuf {
        self.root.join(".horde/supervisor.log")
    }

    /// Returns the number of sessions that run in this city, supervised or not: of holders, which work in the directory of
    /// their session, or whose program was started for this city. The directory may have been removed or moved.
    pub fn sessions(&self) -> usize {
        let sessions = self.root.join(".horde/sessions").canonicalize();
        let is_session = |dir: &Path| {
            let parent = sessions.as_deref().ok();
            dir.is_dir() && parent.is_some() && dir.parent() == parent
        };
        let holds = |process: &Path| {
            let program = fs::read_link(process.join("exe")).unwrap_or_default();
            let dir = fs::read_link(process.join("cwd")).unwrap_or_default();
            let program = program.file_name().unwrap_or_default().to_string_lossy();
            // The kernel appends a note to a program that was replaced by an update, and to a directory that is gone.
            program.starts_with("horde-session")
                && holds_a_session(process)
                && (is_session(&dir) || children(process).any(|child| self.is_named_by(&child)))
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter(|process| holds(&process.path())).count()
    }

    /// Returns true if a process was started with this city in its environment.
    fn is_named_by(&self, process: &Path) -> bool {
        let variables = fs::read(process.join("environ")).unwrap_or_default();
        let city = variables
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(b"HD_CITY="));
        city.is_some_and(|city| Path::new(OsStr::from_bytes(city)) == self.root)
    }

    /// Returns the process that holds the city's path, whatever directory it was started on.
    pub fn seated(&self) -> Option<Holder> {
        match self.occupant()? {
            Occupant::Ours(holder) => Some(holder),
            Occupant::Free | Occupant::Silent | Occupant::Elsewhere | Occupant::Other(_) => None,
        }
    }

    /// Returns true if no process holds the city's path.
    pub fn is_free(&self) -> bool {
        matches!(self.occupant(), Some(Occupant::Free))
    }

    fn occupant(&self) -> Option<Occupant> {
        let root = self.root.canonicalize().ok()?;
        let uid = rustix::process::geteuid().as_raw();
        Some(occupant(&seat(root.as_os_str().as_encoded_bytes(), uid)))
    }
}

/// Finds the city: the given one, else that of the session that `hd` runs in, else the nearest above the working
/// directory.
pub(super) fn find(given: Option<&Path>) -> Result<City, CliError> {
    if let Some(given) = given {
        return at(given);
    }
    if let Some(city) = of_session() {
        return Ok(city);
    }
    at(&nearest()?)
}

/// Finds the `city.toml` for verbs that need no supervisor.
pub(super) fn file(given: Option<&Path>) -> Result<PathBuf, CliError> {
    let session = || path_var("HD_CITY");
    match given.map(Path::to_owned).or_else(session) {
        Some(path) => Ok(path),
        None => nearest(),
    }
}

/// Returns the city at a path: its directory or its `city.toml`.
pub(super) fn at(path: &Path) -> Result<City, CliError> {
    let Some((root, configured)) = config::socket(path) else {
        return Err(
            CliError::usage(format!("there is no city at {}", path.display()))
                .hint("`hd init` makes one"),
        );
    };
    let runtime = path_var("XDG_RUNTIME_DIR");
    let uid = rustix::process::getuid().as_raw();
    let socket = socket_path(&root, &configured, runtime.as_deref(), uid);
    Ok(City { root, socket })
}

/// Returns true for `horde-session hold`; the program holds commands of automations and gates, too.
fn holds_a_session(process: &Path) -> bool {
    let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).nth(1) == Some(b"hold")
}

/// Returns the processes that a process has started and that live.
fn children(process: &Path) -> impl Iterator<Item = PathBuf> {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten();
    threads.flatten().flat_map(|thread| {
        let pids = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let paths = pids
            .split_whitespace()
            .map(|pid| Path::new("/proc").join(pid));
        paths.collect::<Vec<_>>()
    })
}

/// Returns the city of the session that `hd` runs in, from the variables that the supervisor has set.
fn of_session() -> Option<City> {
    Some(City {
        root: path_var("HD_CITY")?,
        socket: path_var("HD_SOCKET")?,
    })
}

fn path_var(name: &str) -> Option<PathBuf> {
    environment::value(name).map(PathBuf::from)
}

fn nearest() -> Result<PathBuf, CliError> {
    let here = env::current_dir().doing("the working directory")?;
    config::find_city(&here).ok_or_else(|| {
        CliError::usage(format!(
            "no {} in {} or above",
            config::FILE,
            here.display()
        ))
        .hint("`hd init` makes a city, `--city PATH` or HORDE_CITY names one")
    })
}
