//! The file of an export: a line for each item of the supervisor's answer, whole or not there at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::cli::error::{CliError, Doing};
use crate::control::client::{Client, Flow};
use crate::control::protocol::Op;

/// The fate of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is replaced.
    Replaced,
    /// It stays, and the export is refused.
    Kept,
}

/// Writes the answer to a file. Returns the number of its lines.
///
/// # Errors
/// When the file is there and is kept, the supervisor's answer breaks off, or the file cannot be written: then there
/// is no new file.
pub(super) fn write(
    client: Client,
    op: &Op,
    file: &Path,
    existing: Existing,
) -> Result<u64, CliError> {
    let shown = file.display().to_string();
    let is_there =
        || CliError::usage(format!("{shown} exists already")).hint("--force replaces it");
    // Asked again when the file is put there.
    if existing == Existing::Kept && file.symlink_metadata().is_ok() {
        return Err(is_there());
    }
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let new = tempfile::Builder::new()
        .prefix(".hd-")
        .tempfile_in(dir.unwrap_or(Path::new(".")))
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
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(is_there()),
        Err(error) => Err(error.error).doing(&shown),
    }
}
