//! The control socket's file: in a private directory, and private itself before anything can connect.
//!
//! ```text
//!  bind ─► Bound: the file is there, and nothing can connect ─ listen ─► listener, SocketFile
//!                                                                          │ patrol: look
//!                                        bind again ◄── gone, or a leftover┘
//! ```

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

use crate::regular;

/// The limit of connections that wait to be accepted.
const BACKLOG: i32 = 256;
/// The time that a killed process's socket may stay open: until a child that it was starting calls `exec`.
const MOMENT: Duration = Duration::from_millis(500);

/// A socket that has a file, and does not listen yet.
pub struct Bound {
    socket: OwnedFd,
    file: SocketFile,
}

/// The file of our socket. Dropping this value removes the file, if it still is ours.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
    /// Keeps the inode's number from being reused.
    _pin: OwnedFd,
}

/// The finding at the socket's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtSocket {
    /// Our socket.
    Ours,
    /// Nothing, or a stale socket.
    Free,
    /// An object that must not be removed, in words.
    Taken(String),
    /// The path cannot be read.
    Unseen(String),
}

/// Creates the socket with mode 0600, and its directory with mode 0700 if it is missing. Replaces a stale socket that
/// no process listens at.
///
/// # Errors
/// The directory is not private and ours, something else is in the way, another process listens there
/// ([`io::ErrorKind::AddrInUse`]), or the system refuses.
pub fn bind(path: &Path) -> io::Result<Bound> {
    let dir = path
        .parent()
        .ok_or_else(|| io::Error::other("the socket's path has no directory"))?;
    private_dir(dir)?;
    match at(path, None) {
        AtSocket::Free | AtSocket::Ours => {}
        AtSocket::Taken(what) => {
            let kind = match what == LISTENED {
                true => io::ErrorKind::AddrInUse,
                false => io::ErrorKind::AlreadyExists,
            };
            let message = format!("{} is in the way: {what}", path.display());
            return Err(io::Error::new(kind, message));
        }
        AtSocket::Unseen(why) => return Err(io::Error::other(why)),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile {
        path: path.to_owned(),
        id: id(&fs::symlink_metadata(path)?),
        _pin: rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?,
    };
    // Nothing can connect before `listen`.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(Bound { socket, file })
}

impl Bound {
    /// Starts to accept connections.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen(self) -> io::Result<(UnixListener, SocketFile)> {
        rustix::net::listen(&self.socket, BACKLOG)?;
        let listener = UnixListener::from_std(StdListener::from(self.socket))?;
        Ok((listener, self.file))
    }
}

impl SocketFile {
    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the present finding at the path.
    #[must_use]
    pub fn check(&self) -> AtSocket {
        at(&self.path, Some(self.id))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| id(&found) == self.id)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "could not remove the control socket's file; the next start replaces it");
        }
    }
}

/// The description of a socket that another process listens at.
const LISTENED: &str = "another process listens at it";

fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn at(path: &Path, ours: Option<(u64, u64)>) -> AtSocket {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return AtSocket::Free,
        Err(error) => return AtSocket::Unseen(format!("{}: {error}", path.display())),
    };
    if Some(id(&found)) == ours {
        return AtSocket::Ours;
    }
    if !found.file_type().is_socket() {
        return AtSocket::Taken(format!("{}, not a socket", regular::kind(&found)));
    }
    match is_listened_at(path) {
        Ok(false) => AtSocket::Free,
        Ok(true) => AtSocket::Taken(LISTENED.to_owned()),
        Err(error) => AtSocket::Unseen(format!("{}: {error}", path.display())),
    }
}

/// Returns whether a process listens at the socket. Tries for a moment: a process that was just killed may still seem
/// to listen.
#[expect(
    clippy::disallowed_methods,
    reason = "a process outside is asked, in real time"
)]
fn is_listened_at(path: &Path) -> io::Result<bool> {
    let deadline = Instant::now() + MOMENT;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(false),
            // A full queue means that a process listens.
            Ok(()) | Err(Errno::AGAIN) if Instant::now() >= deadline => return Ok(true),
            Ok(()) | Err(Errno::AGAIN) => thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Creates the directory, or verifies that the existing one is ours and closed to other users: in `/tmp` another user
/// may have made it first.
fn private_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    let denied = |why: String| {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} {why}", dir.display()),
        ))
    };
    if !found.is_dir() {
        return denied("is not a directory".into());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return denied("belongs to another user".into());
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return denied(format!(
            "has mode {mode:o}; it must be 700, for the control socket"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn socket_and_directory_are_private_and_a_leftover_is_replaced() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("state/control.sock");
        let (listener, file) = bind(&path).unwrap().listen().unwrap();
        std::mem::forget(file);
        drop(listener);
        assert!(path.exists(), "it was killed");
        let bound = bind(&path).unwrap();
        assert!(
            tokio::net::UnixStream::connect(&path).await.is_err(),
            "it does not listen yet"
        );
        let (listener, file) = bound.listen().unwrap();
        assert_eq!(file.check(), AtSocket::Ours);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let (connected, accepted) =
            tokio::join!(tokio::net::UnixStream::connect(&path), listener.accept());
        connected.unwrap();
        accepted.unwrap();
        let taken = bind(&path).err().unwrap();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "a process listens");
        drop((listener, file));
        assert!(!path.exists(), "its file goes with it");
    }

    #[tokio::test]
    async fn a_socket_that_is_removed_or_replaced_is_told_from_ours() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("state/control.sock");
        let (_listener, file) = bind(&path).unwrap().listen().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(file.check(), AtSocket::Free);
        fs::write(&path, "precious").unwrap();
        assert!(matches!(file.check(), AtSocket::Taken(_)));
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    /// A link, a link to nothing and a pipe, at runtime and at the start.
    #[tokio::test]
    async fn link_or_pipe_in_the_place_of_the_socket_is_reported_and_left_alone() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("state/control.sock");
        let (_listener, file) = bind(&path).unwrap().listen().unwrap();
        let moved = path.with_file_name("moved.sock");
        fs::rename(&path, &moved).unwrap();
        let link = |to: &Path| std::os::unix::fs::symlink(to, &path).unwrap();
        for what in ["a link", "a link to nothing", "a FIFO"] {
            match what {
                "a link" => link(&moved),
                "a FIFO" => rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RWXU).unwrap(),
                _ => link(Path::new("nowhere")),
            }
            let kind = what.strip_suffix(" to nothing").unwrap_or(what);
            let taken = AtSocket::Taken(format!("{kind}, not a socket"));
            assert_eq!(file.check(), taken, "{what}");
            let error = bind(&path).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{what}");
            fs::remove_file(&path).unwrap();
        }
    }

    #[tokio::test]
    async fn a_directory_open_to_others_is_refused() {
        let temp = crate::testing::scratch();
        let dir = temp.path().join("state");
        fs::create_dir(&dir).unwrap();
        for open in [0o755, 0o770, 0o701] {
            fs::set_permissions(&dir, Permissions::from_mode(open)).unwrap();
            let error = bind(&dir.join("control.sock")).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{open:o}");
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_a_link_or_a_file_in_the_way_is_refused() {
        let temp = crate::testing::scratch();
        let real = temp.path().join("real");
        DirBuilder::new().mode(0o700).create(&real).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(bind(&link.join("control.sock")).is_err());
        let file = real.join("control.sock");
        fs::write(&file, "precious").unwrap();
        let error = bind(&file).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
}
