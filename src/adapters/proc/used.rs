//! What processes may still write below a directory: it is the working directory of one, or a file in it is open for
//! writing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the working directories and the files open for writing of all other processes, as far as they lie in this
/// directory or below. A process that belongs to another user may not be seen.
///
/// # Errors
/// `/proc` cannot be listed.
pub fn used_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = fs::canonicalize(dir)?;
    let mut used = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if pid.is_none_or(|pid| pid == std::process::id()) {
            continue;
        }
        let process = Path::new("/proc").join(&name);
        let is_below = |path: &PathBuf| path.starts_with(&dir);
        used.extend(fs::read_link(process.join("cwd")).ok().filter(is_below));
        let open = fs::read_dir(process.join("fd")).into_iter().flatten();
        for descriptor in open.flatten() {
            let path = fs::read_link(descriptor.path()).ok().filter(is_below);
            if let Some(path) = path
                && is_writable(&process, &descriptor.file_name())
            {
                used.push(path);
            }
        }
    }
    Ok(used)
}

/// Whether a descriptor of a process may be written to. One that cannot be asked may be.
fn is_writable(process: &Path, descriptor: &OsStr) -> bool {
    let info = fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 0o3 != 0)
}
