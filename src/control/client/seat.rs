//! The seat of a city: an abstract socket that its supervisor listens at for as long as it lives. It belongs to the path
//! of the city, or to its id, and not to a file: no removal and no replacement of directories undoes it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::owner;
use crate::domain::shown;

/// The name of a supervisor's program.
const SUPERVISOR: &str = "horde-supervisor";
/// The length to which the kernel cuts the name of a process.
const NAME_MAX: usize = 15;
/// The flag of a socket that listens, in `/proc/net/unix`.
const LISTENS: u32 = 0x1_0000;

/// The occupant of a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupant {
    /// No process listens.
    Free,
    /// A process of this user.
    Ours(Holder),
    /// A process that answers nothing, and that was not found: so many have asked that no further question fits into its
    /// queue.
    Silent,
    /// A process of this user in another container, or that cannot be seen from here.
    Elsewhere,
    /// Another process, in words: it may be of any user, and is no supervisor of this city.
    Other(String),
}

/// A process of this user that holds a seat. Any of its processes can, without being a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its pid.
    pub pid: u32,
    /// The name of its program; none for a supervisor's.
    pub stranger: Option<String>,
}

impl Holder {
    fn of(pid: u32) -> Self {
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let program = program.as_deref().and_then(Path::file_name);
        let program = program.map(|name| name.to_string_lossy().into_owned());
        let process = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let process = process.trim_end();
        // A program that was upgraded has no file any more.
        let is_program = program
            .as_deref()
            .is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == SUPERVISOR);
        let stranger = match is_program || process == &SUPERVISOR[..NAME_MAX] {
            true => None,
            false if process.is_empty() => Some("its name is unknown".to_owned()),
            false => Some(shown::line(process).into_owned()),
        };
        Self { pid, stranger }
    }
}

/// Returns the process that listens at the seat of this name ([`crate::domain::city::seat`]).
#[must_use]
pub fn occupant(name: &str) -> Occupant {
    ask(name)
        .unwrap_or_else(|error| Occupant::Other(format!("a process that is unknown ({error})")))
}

fn ask(name: &str) -> io::Result<Occupant> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    match rustix::net::connect(&socket, &address) {
        Err(Errno::CONNREFUSED) => return Ok(Occupant::Free),
        Err(Errno::AGAIN) => {
            // In doubt it is held.
            let found = listener(name).ok().flatten();
            return Ok(found.map_or(Occupant::Silent, |(pid, uid)| judge(pid, uid)));
        }
        connected => connected?,
    }
    let peer = owner::peer(&socket)?;
    Ok(judge(
        u32::try_from(peer.pid()).unwrap_or_default(),
        peer.uid(),
    ))
}

/// Judges a process that listens. The kernel reports pid 0 for one that cannot be seen from here.
fn judge(pid: u32, uid: u32) -> Occupant {
    if uid != rustix::process::geteuid().as_raw() {
        return Occupant::Other(format!("a process of uid {uid}"));
    }
    match pid == 0 || is_elsewhere(pid) {
        true => Occupant::Elsewhere,
        false => Occupant::Ours(Holder::of(pid)),
    }
}

/// Returns the pid and the uid of the process that has the listening socket of this name open, if it can be found.
fn listener(name: &str) -> io::Result<Option<(u32, u32)>> {
    let sockets = fs::read_to_string("/proc/net/unix")?;
    let Some(inode) = sockets.lines().find_map(|line| inode_of(line, name)) else {
        return Ok(None);
    };
    let target = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let Some(pid) = process.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        // One that has ended, or that may not be read, is passed over.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let is_it = |link: &Path| link.as_os_str() == OsStr::new(&target);
        let mut links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        if links.any(|link| is_it(&link)) {
            return Ok(Some((pid, process.metadata()?.uid())));
        }
    }
    Ok(None)
}

/// Returns the inode in a line of `/proc/net/unix`, if it is about the listening socket of this abstract name.
fn inode_of<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, flags, _, _, inode, path] = fields[..] else {
        return None;
    };
    let listens = u32::from_str_radix(flags, 16).ok()? & LISTENS != 0;
    (listens && path.strip_prefix('@') == Some(name)).then_some(inode)
}

/// Returns true if a process is known to have another root directory. In doubt it has ours.
fn is_elsewhere(pid: u32) -> bool {
    let id = |path: &str| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let (theirs, ours) = (id(&format!("/proc/{pid}/root/")), id("/"));
    theirs.is_some() && ours.is_some() && theirs != ours
}
