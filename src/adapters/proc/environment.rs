//! The environment that a process was started with.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use super::stat;

/// Reads a file of a process about its memory, which a first thread that has ended before the others has no more.
fn of_any_thread(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let own = fs::read(format!("/proc/{pid}/{name}"));
    let is_told = match &own {
        Ok(text) => !text.is_empty(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    // A kernel thread has none, either.
    let first_has_ended = || stat(pid).is_ok_and(|now| now.is_some_and(|now| now.state == b'Z'));
    if is_told || !first_has_ended() {
        return own;
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    let texts = tasks.flatten().map(|task| fs::read(task.path().join(name)));
    let of_another = texts.flatten().find(|text| !text.is_empty());
    of_another.map_or(own, Ok)
}

/// Returns the value of a variable in the environment that a process was started with.
#[must_use]
pub fn environment_value(pid: u32, name: &str) -> Option<OsString> {
    let bytes = of_any_thread(pid, "environ").ok()?;
    bytes.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value).to_owned())
    })
}

/// Returns the value of a variable as [`environment_value`] does; none if it is no UTF-8.
#[must_use]
pub fn environment_text(pid: u32, name: &str) -> Option<String> {
    environment_value(pid, name)?.into_string().ok()
}
