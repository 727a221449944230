//! Where the socket is made: in a private directory, private itself before anybody can connect.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// Listens on the path, mode 0600, in its directory, which is made 0700 if it is not there. A
/// socket that is there is taken for a leftover: the caller holds the city's lock.
///
/// # Errors
/// The directory is not private and ours, something else is in the way, or the system refuses.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let dir = path
        .parent()
        .ok_or_else(|| io::Error::other("the socket's path has no directory"))?;
    private_dir(dir)?;
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} is in the way and is no socket", path.display()),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Nobody can connect before `listen`.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(StdListener::from(socket))
}

/// Makes the directory, or verifies the one that is there: ours, and closed to everybody else. In
/// `/tmp` somebody else may have made it first.
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
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state/control.sock");
        drop(bind(&path).unwrap());
        assert!(path.exists(), "a dropped listener leaves its file");
        let listener = bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let (connected, accepted) =
            tokio::join!(tokio::net::UnixStream::connect(&path), listener.accept());
        connected.unwrap();
        accepted.unwrap();
    }

    #[tokio::test]
    async fn a_directory_open_to_others_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("state");
        fs::create_dir(&dir).unwrap();
        for open in [0o755, 0o770, 0o701] {
            fs::set_permissions(&dir, Permissions::from_mode(open)).unwrap();
            let error = bind(&dir.join("control.sock")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{open:o}");
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_a_link_or_a_file_in_the_way_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().join("real");
        DirBuilder::new().mode(0o700).create(&real).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(bind(&link.join("control.sock")).is_err());
        let file = real.join("control.sock");
        fs::write(&file, "precious").unwrap();
        let error = bind(&file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
}
