//! Verifies the owner of a socket. Another user may have made a socket at this user's path; it would receive this
//! user's requests, and its answers would be believed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{UnixCredentials, getsockopt};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, statat};

/// A socket, or the directory that it is in, that another user could have made.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Foreign {
    message: String,
    /// Advice on what to do about it.
    pub hint: String,
}

impl From<Foreign> for io::Error {
    fn from(foreign: Foreign) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, foreign)
    }
}

/// Opens the directory of a socket and verifies that both are this user's, and that no other user can change
/// them.
///
/// # Errors
/// [`Foreign`] if another user owns or could change either; or the directory is missing or cannot be read.
pub(super) fn dir_of(socket: &Path) -> io::Result<File> {
    let none = || io::Error::from(io::ErrorKind::InvalidFilename);
    let (parent, name) = (socket.parent(), socket.file_name());
    let (parent, name) = (parent.ok_or_else(none)?, name.ok_or_else(none)?);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = File::from(rustix::fs::open(parent, flags, Mode::empty())?);
    let found = dir.metadata()?;
    verify(parent, found.uid())?;
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o777;
        return Err(Foreign {
            message: format!(
                "other users may write to {} (mode {mode:o})",
                parent.display()
            ),
            hint: format!("run: chmod 700 {}", parent.display()),
        }
        .into());
    }
    let found: Stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    verify(socket, found.st_uid)?;
    Ok(dir)
}

/// Verifies that the process at the other end is this user's.
///
/// # Errors
/// [`Foreign`] if it is not; or the kernel does not tell.
pub(super) fn verify_peer(stream: impl AsFd, socket: &Path) -> io::Result<()> {
    verify(socket, peer(&stream)?.uid())
}

/// Returns the process at the other end. Its pid is 0 if it is in a pid namespace that this process cannot see: either
/// is in a container.
///
/// # Errors
/// The kernel does not tell.
pub(super) fn peer(stream: &impl AsFd) -> io::Result<UnixCredentials> {
    Ok(getsockopt(stream, PeerCredentials)?)
}

fn verify(path: &Path, owner: u32) -> io::Result<()> {
    match owner == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(foreign(path, owner).into()),
    }
}

fn foreign(path: &Path, owner: u32) -> Foreign {
    let user = nix::unistd::User::from_uid(owner.into());
    let name = match user {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => format!("uid {owner}"),
    };
    Foreign {
        message: format!("{} belongs to another user, {name}", path.display()),
        hint: format!("if the city is theirs, become that user: `sudo -u {name} hd ...`"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

    use super::*;

    #[test]
    fn socket_that_another_user_could_have_made_is_not_spoken_to() {
        let temp = crate::testing::scratch();
        let (dir, path) = (temp.path().join("dir"), temp.path().join("dir/sock"));
        fs::create_dir(&dir).unwrap();
        let mode = |mode| fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert_eq!(dir_of(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(dir_of(&path).is_ok());
        for open in [0o775, 0o757, 0o777] {
            mode(open);
            let error = dir_of(&path).unwrap_err();
            assert!(error.to_string().contains("may write"), "{error}");
        }
        mode(0o700);
        // Only root can give a file away.
        if chown(&path, Some(4242), None).is_err() {
            eprintln!("not root: what belongs to others could not be tried");
            return;
        }
        let error = dir_of(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("uid 4242"), "{error}");
        chown(&path, Some(0), None).unwrap();
        chown(&dir, Some(4242), None).unwrap();
        assert!(dir_of(&path).is_err());
    }

    /// The socket is ours, but a process of another user, which inherited it, listens.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process")]
    fn process_of_another_user_at_the_other_end_is_not_spoken_to() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("sock");
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let listens = |uid: u32| {
            let socket = socket.try_clone().unwrap();
            let mut process = Command::new("true");
            process.uid(uid);
            // SAFETY: to listen is one system call.
            unsafe { process.pre_exec(move || Ok(rustix::net::listen(&socket, 8)?)) };
            process.status()
        };
        listens(rustix::process::geteuid().as_raw()).unwrap();
        super::super::open(&path).unwrap();
        if listens(4242).is_err() {
            eprintln!("not root: a process of another user could not be tried");
            return;
        }
        let error = super::super::open(&path).unwrap_err();
        assert!(error.get_ref().is_some_and(|inner| inner.is::<Foreign>()));
        assert!(error.to_string().contains("uid 4242"), "{error}");
    }
}
