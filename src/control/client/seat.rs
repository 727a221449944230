//! The seat of a city: an abstract socket that its supervisor listens at for as long as it lives. It belongs to the path
//! of the city, or to its id, and not to a file: no removal and no replacement of directories undoes it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::owner;

/// The occupant of a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupant {
    /// No process listens.
    Free,
    /// A process of this user, by its pid.
    Ours(u32),
    /// A process that answers nothing: so many have asked that no further question fits into its queue.
    Silent,
    /// Another process, in words: it may be of any user, and is no supervisor of this city.
    Other(String),
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
        Err(Errno::AGAIN) => return Ok(Occupant::Silent),
        connected => connected?,
    }
    let peer = owner::peer(&socket)?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Ok(Occupant::Other(format!("a process of uid {}", peer.uid())));
    }
    Ok(match u32::try_from(peer.pid()) {
        Ok(pid) if pid != 0 && !is_elsewhere(pid) => Occupant::Ours(pid),
        // Containers may share the network, and have a city each at the same path.
        _ => Occupant::Other("a process in another container".to_owned()),
    })
}

/// Returns true if a process is known to have another root directory. In doubt it has ours.
fn is_elsewhere(pid: u32) -> bool {
    let id = |path: &str| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let (theirs, ours) = (id(&format!("/proc/{pid}/root/")), id("/"));
    theirs.is_some() && ours.is_some() && theirs != ours
}
