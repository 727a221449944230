//! `hd harness`, and its conformance kit with an agent made for it.

mod agent;
mod conformance;
mod replayed;
mod setup;
mod survey;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

/// Returns a command for `hd` in this directory, with this `PATH` and no other variable.
fn hd(dir: &Path, path: impl AsRef<OsStr>) -> Command {
    let mut hd = Command::new(cargo_bin("hd"));
    hd.current_dir(dir).env_clear().env("PATH", path);
    hd.stdin(Stdio::null());
    hd
}
