//! Finds the city that a command is for, and its socket (`contract.md`, 2.1).

use std::env;
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

    /// Returns the process that holds the city's path, whatever directory it was started on.
    pub fn seated(&self) -> Option<Holder> {
        let root = self.root.canonicalize().ok()?;
        let uid = rustix::process::geteuid().as_raw();
        match occupant(&seat(root.as_os_str().as_encoded_bytes(), uid)) {
            Occupant::Ours(holder) => Some(holder),
            Occupant::Free | Occupant::Silent | Occupant::Elsewhere | Occupant::Other(_) => None,
        }
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
