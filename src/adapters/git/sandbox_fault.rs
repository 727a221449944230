//! Checks a sandbox's administrative files without git.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::admin::{At, Note, failed};
use super::entry_links;
use super::rig::GitRepo;
use crate::domain::sandbox_fault::SandboxFault;
use crate::ports::repo::RepoError;

/// The first bytes of every index, and its smallest size: these, a version, a count and a checksum.
const INDEX: (&[u8], u64) = (b"DIRC", 32);

/// Returns the fault that would stop git.
pub(super) fn find(repo: &GitRepo, sandbox: &Path) -> Result<Option<SandboxFault>, RepoError> {
    let admin = match entry_links::locate(repo, sandbox) {
        Ok(place) => place.admin,
        Err(RepoError::NotFound(_)) => return Ok(Some(SandboxFault::Gone)),
        Err(RepoError::Broken { why, .. }) => {
            // Without a free descriptor nothing can be read; that is an error, and not a fault of the sandbox.
            // The agent may have put a pipe or a link there: nothing is opened but the name.
            let flags = nix::libc::O_PATH | nix::libc::O_NOFOLLOW;
            let named = File::options().read(true).custom_flags(flags).open(sandbox);
            named.at("cannot read", sandbox)?;
            return Ok(Some(SandboxFault::Broken(why)));
        }
        Err(error) => return Err(error),
    };
    for file in ["HEAD", "commondir", "index"] {
        let is_whole = |start: &[u8], len| match file {
            "HEAD" => is_head(start),
            "index" => start == INDEX.0 && len >= INDEX.1,
            _ => len > 0,
        };
        let path = admin.join(file);
        let why = match start(&path) {
            Ok((start, len)) if is_whole(&start, len) => continue,
            Ok(_) => format!("its {file} is damaged"),
            Err(error) if error.kind() == ErrorKind::NotFound => format!("its {file} is missing"),
            Err(error) if is_passing(&error) => return Err(failed("cannot read", &path, &error)),
            Err(error) => format!("its {file} cannot be read: {error}"),
        };
        return Ok(Some(SandboxFault::Broken(why)));
    }
    let half = Note::read(repo, sandbox).is_some_and(|note| note.unfilled || !note.complete);
    Ok(half.then(|| SandboxFault::Broken("some of its files do not exist yet".to_owned())))
}

/// Returns true for the start of a branch's name or of a commit's.
fn is_head(start: &[u8]) -> bool {
    start == b"ref:" || (start.len() == 4 && start.iter().all(u8::is_ascii_hexdigit))
}

/// Returns true if the error is transient, and not a fault of the file.
fn is_passing(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let passing = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EAGAIN];
    let code = error.raw_os_error().map(Errno::from_raw);
    code.is_some_and(|code| passing.contains(&code))
}

/// Returns the first four bytes of a file, and its length.
fn start(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    // Without `O_NONBLOCK`, a pipe would block.
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let len = file.metadata()?.len();
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start)?;
    Ok((start, len))
}
