//! What was thrown away goes, whatever its agent did to it.

use std::os::fd::OwnedFd;

use horde_supervisor::adapters::task_files::DiskTaskFiles;
use horde_supervisor::ports::tasks::TaskFiles;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fchmod, mkdirat};

use crate::support::namespace::unprivileged;

/// Its deepest directory is closed, and has a path that no program takes at once.
#[test]
fn closed_tree_deeper_than_a_path_may_be_is_removed() {
    if !unprivileged(closed_tree_deeper_than_a_path_may_be_is_removed) {
        return;
    }
    let city = tempfile::tempdir().unwrap();
    let at = |name: &str| city.path().join(name);
    let files = DiskTaskFiles::new(at("outbox"), at("trash"), at("set-up")).unwrap();
    let below = |dir: &OwnedFd, name: &str| {
        mkdirat(dir, name, Mode::S_IRWXU).unwrap();
        openat(dir, name, OFlag::O_DIRECTORY, Mode::empty()).unwrap()
    };
    let mut dirs = vec![open(&at("trash"), OFlag::O_DIRECTORY, Mode::empty()).unwrap()];
    for _ in 0..25 {
        let deeper = below(&dirs[dirs.len() - 1], &"x".repeat(200));
        dirs.push(deeper);
    }
    below(&dirs[25], "file");
    for closed in &dirs[24..] {
        fchmod(closed, Mode::empty()).unwrap();
    }
    files.empty_trash().unwrap();
    assert_eq!(at("trash").read_dir().unwrap().count(), 0);
}
