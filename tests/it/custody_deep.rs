//! Trees that are deeper than a path may be are saved, restored and removed.

use std::os::fd::OwnedFd;

use horde_supervisor::adapters::task_files::DiskTaskFiles;
use horde_supervisor::ports::tasks::TaskFiles;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fchmod, mkdirat};

use crate::support::city::City;
use crate::support::deep;
use crate::support::namespace::unprivileged;

/// The deepest directory is closed, and has a path that no program accepts at once.
#[test]
fn closed_tree_deeper_than_a_path_may_be_is_removed() {
    if !unprivileged(closed_tree_deeper_than_a_path_may_be_is_removed) {
        return;
    }
    let city = horde_supervisor::testing::scratch();
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

/// A path that no program accepts at once.
/// Case A10 of an adversary: a path longer than the kernel takes.
#[test]
fn tree_deeper_than_a_path_may_be_comes_back() {
    let city = City::new();
    let sandbox = city.sandbox();
    deep::write(&sandbox, b"deep\n");
    let facts = city.facts(&sandbox);
    assert_eq!(facts.untracked.len(), 1);
    let record = city.salvage(&sandbox);
    let to = city.restored(&record);
    assert_eq!(deep::read(&to).as_deref(), Some(&b"deep\n"[..]));
}
