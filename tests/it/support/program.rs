//! Programs that tests write and have run.
//!
//! Another process puts them into place: one that is started by any thread of the tests while a file is
//! still open for writing here inherits that, and the file could not be executed ("text file busy").

use std::fs;
use std::path::Path;
use std::process::Command;

/// A shell script of this text (without its first line).
pub fn script(path: &Path, text: &str) {
    let draft = tempfile::NamedTempFile::new().expect("a file");
    fs::write(draft.path(), format!("#!/bin/sh\n{text}\n")).expect("its text");
    copy(draft.path(), path);
}

/// A copy of a program.
pub fn copy(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([from, to]).status();
    assert!(status.expect("install").success());
}
