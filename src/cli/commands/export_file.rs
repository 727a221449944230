//! The file of an export: a line for each item of the supervisor's answer, whole or not there at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::cli::error::{CliError, Doing};
use crate::control::client::{Client, Flow};
use crate::control::protocol::Op;
use crate::regular;

/// The fate of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is replaced.
    Replaced,
    /// It stays, and the export is refused.
    Kept,
}

impl Existing {
    /// Returns the fate that `--force` decides.
    pub(super) fn of(force: bool) -> Self {
        match force {
            true => Self::Replaced,
            false => Self::Kept,
        }
    }
}

/// Writes the answer to a file. Returns the number of its lines.
///
/// # Errors
/// When the file is there and is kept, or is no regular file, the supervisor's answer breaks off, or the file cannot be written: then there
/// is no new file.
pub(super) fn write(
    mut client: Client,
    op: &Op,
    file: &Path,
    existing: Existing,
) -> Result<u64, CliError> {
    let shown = file.display().to_string();
    check_place(file, existing)?;
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let new = tempfile::Builder::new()
        .prefix(".hd-")
        .tempfile_in(dir.unwrap_or(Path::new(".")))
        .map_err(regular::of_temporary)
        .doing(&shown)?;
    let mut lines = 0_u64;
    let mut writer = BufWriter::new(new);
    client.stream(op, |item| -> Result<Flow, CliError> {
        lines += 1;
        writeln!(writer, "{item}").doing(&shown)?;
        Ok(Flow::Continue)
    })?;
    // A part of an export is of no use: the file is removed when it is not kept.
    let new = writer.into_inner().map_err(|error| error.into_error());
    let new = new.doing(&shown)?;
    new.as_file().sync_all().doing(&shown)?;
    let put = match existing {
        Existing::Replaced => new.persist(file),
        Existing::Kept => new.persist_noclobber(file),
    };
    match put {
        Ok(_) => Ok(lines),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(is_there(file)),
        Err(error) => Err(error.error).doing(&shown),
    }
}

fn is_there(file: &Path) -> CliError {
    CliError::usage(format!("{} exists already", file.display())).hint("--force replaces it")
}

/// Refuses a place where no new file may be put. Asked before the answer is written, and by the rename again.
fn check_place(file: &Path, existing: Existing) -> Result<(), CliError> {
    match file.symlink_metadata() {
        // A rename over a device or a link would replace it, and write nothing where it leads.
        Ok(found) if !found.is_file() => {
            let why = format!("{} exists, and is no regular file", file.display());
            Err(CliError::usage(why).hint("write to standard output, and redirect it"))
        }
        Ok(_) if existing == Existing::Kept => Err(is_there(file)),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `hd relic export /dev/full` replaced the device by a file, and a link by a file beside its target.
    #[test]
    fn only_a_regular_file_is_replaced_and_only_with_force() {
        let dir = crate::testing::scratch();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for existing in [Existing::Kept, Existing::Replaced] {
            let special = [link.as_path(), &fifo, dir.path(), Path::new("/dev/full")];
            for place in special {
                let refused = check_place(place, existing).unwrap_err();
                assert!(refused.message.contains("no regular file"), "{refused:?}");
            }
            check_place(&dir.path().join("new"), existing).unwrap();
        }
        assert!(check_place(&file, Existing::Kept).is_err());
        check_place(&file, Existing::Replaced).unwrap();
    }
}
