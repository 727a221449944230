//! Programs that tests write and run.
//!
//! Another process puts them in place: a child process that any thread of the tests starts while the file is open for
//! writing here would inherit that, and the file could not be executed ("text file busy").

use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes a shell script with this text (without its first line).
///
/// # Panics
/// The file cannot be written.
pub fn script(path: &Path, text: &str) {
    let draft = tempfile::NamedTempFile::new().expect("a file");
    fs::write(draft.path(), format!("#!/bin/sh\n{text}\n")).expect("its text");
    copy(draft.path(), path);
}

/// Copies a program.
///
/// # Panics
/// The file cannot be read or written.
pub fn copy(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([from, to]).status();
    assert!(status.expect("install").success());
}
