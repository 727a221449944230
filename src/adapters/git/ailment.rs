//! Whether a sandbox's administrative files are whole, without asking git.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::admin::{self, Note, failed};
use super::rig::GitRepo;
use crate::domain::ailment::Ailment;
use crate::ports::repo::RepoError;

/// How every index begins, and what it has at least: that, a version, a count and a checksum.
const INDEX: (&[u8], u64) = (b"DIRC", 32);

/// What git would stumble over.
pub(super) fn ailment(repo: &GitRepo, sandbox: &Path) -> Result<Option<Ailment>, RepoError> {
    let admin = match admin::locate(repo, sandbox) {
        Ok(place) => place.admin,
        Err(RepoError::NotFound(_)) => return Ok(Some(Ailment::Gone)),
        Err(RepoError::Broken { why, .. }) => return Ok(Some(Ailment::Broken(why))),
        Err(error) => return Err(error),
    };
    let files: [(&str, fn(&[u8], u64) -> bool); 3] = [
        ("HEAD", |start, _| is_head(start)),
        ("commondir", |_, len| len > 0),
        ("index", |start, len| start == INDEX.0 && len >= INDEX.1),
    ];
    for (file, is_whole) in files {
        let why = match start(&admin.join(file))? {
            None => format!("its {file} is missing"),
            Some((start, len)) if !is_whole(&start, len) => format!("its {file} is damaged"),
            Some(_) => continue,
        };
        return Ok(Some(Ailment::Broken(why)));
    }
    let half = Note::read(&admin).is_some_and(|note| note.unfilled || !note.complete);
    Ok(half.then(|| Ailment::Broken("its files are not all there yet".to_owned())))
}

/// A branch's name or a commit's.
fn is_head(start: &[u8]) -> bool {
    start == b"ref:" || (start.len() == 4 && start.iter().all(u8::is_ascii_hexdigit))
}

/// The first four bytes of a file, and its length, if it is there.
fn start(path: &Path) -> Result<Option<(Vec<u8>, u64)>, RepoError> {
    let fail = |error| failed("cannot read", path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let len = file.metadata().map_err(fail)?.len();
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start).map_err(fail)?;
    Ok(Some((start, len)))
}
