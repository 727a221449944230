//! tmux, which a machine may be without. `.ci/run` installs it and says so.

use std::process::Command;

/// Whether tmux is there. Tests of it end at once where it is not; where `HORDE_TESTS_NEED_TMUX` is
/// set, its absence is a failure.
pub fn is_there() -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    let needed = std::env::var_os("HORDE_TESTS_NEED_TMUX").is_some();
    assert!(there || !needed, "tmux is not installed");
    if !there {
        eprintln!("not tested: tmux is not installed");
    }
    there
}
