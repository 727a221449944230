//! Finds the paths below a directory through which processes may still write: a working directory, an open directory
//! (which gives access to the files below), a file open for writing, or a writable mapping.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Returns the paths in or below this directory that other processes work in, have open or have mapped, if they may
/// write through them. Processes of another user may be invisible.
///
/// # Errors
/// When `/proc` cannot be listed.
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
        for held in ["cwd", "root"] {
            used.extend(fs::read_link(process.join(held)).ok().filter(is_below));
        }
        let open = fs::read_dir(process.join("fd")).into_iter().flatten();
        for descriptor in open.flatten() {
            let path = fs::read_link(descriptor.path()).ok().filter(is_below);
            if let Some(path) = path
                && (is_dir(&descriptor.path()) || is_writable(&process, &descriptor.file_name()))
            {
                used.push(path);
            }
        }
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        used.extend(mapped(&maps).filter(is_below));
    }
    Ok(used)
}

/// Returns true if a descriptor is a directory, independent of its open mode.
fn is_dir(descriptor: &Path) -> bool {
    fs::metadata(descriptor).is_ok_and(|found| found.is_dir())
}

/// Returns true if a descriptor of a process may be written to, or if that is unknown.
fn is_writable(process: &Path, descriptor: &OsStr) -> bool {
    let info = fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 0o3 != 0)
}

/// Returns the files that a process writes by writing to its memory.
fn mapped(maps: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = maps.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        // `<range> <mode> <offset> <device> <inode>   <path>`
        let mode = line.split(|byte| *byte == b' ').nth(1)?;
        let is_shared = mode.get(1) == Some(&b'w') && mode.get(3) == Some(&b's');
        let at = line.iter().position(|byte| *byte == b'/')?;
        is_shared.then(|| PathBuf::from(OsStr::from_bytes(&line[at..])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_that_is_shared_and_written_names_its_file() {
        let maps = b"7f0-7f1 rw-s 00000000 00:1f 42      /a/with space\n\
                     7f0-7f1 rw-p 00000000 00:1f 43      /private\n\
                     7f0-7f1 r--s 00000000 00:1f 44      /read\n\
                     7f0-7f1 rw-s 00000000 00:01 45      [anon]\n";
        let found: Vec<PathBuf> = mapped(maps).collect();
        assert_eq!(found, [PathBuf::from("/a/with space")]);
    }
}
