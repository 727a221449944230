//! A small disk of its own, for a test in namespaces of its own ([`super::namespace`]).

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

const BYTES: usize = 24 * 1024 * 1024;
const FILES: usize = 4096;

/// The disk, unmounted when dropped.
pub struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    /// Makes an empty disk.
    pub fn new() -> Self {
        let dir = horde_supervisor::testing::scratch();
        let size = format!("size={BYTES},nr_inodes={FILES}");
        let (kind, flags) = (Some("tmpfs"), MsFlags::empty());
        mount(kind, dir.path(), kind, flags, Some(&*size)).unwrap();
        Self { dir }
    }

    /// Returns the path of the disk.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let mut file = File::options();
        let file = file.create(true).append(true).open(self.ballast());
        let mut file = file.unwrap();
        let refused = loop {
            match file.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
    }

    /// Uses up the room for file names: no file can be made, but existing ones can grow.
    pub fn take_names(&self) {
        fs::create_dir(self.ballast()).unwrap();
        let refused =
            (0..=FILES).find_map(|n| File::create(self.ballast().join(n.to_string())).err());
        assert_eq!(refused.unwrap().kind(), ErrorKind::StorageFull);
    }

    /// Frees the filled room.
    pub fn free(&self) {
        let ballast = self.ballast();
        match ballast.is_dir() {
            true => fs::remove_dir_all(ballast).unwrap(),
            false => fs::remove_file(ballast).unwrap(),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Its directory cannot be removed while the disk is mounted.
        umount2(self.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

/// Makes this path read-only, or writable again. Files that are open for writing stay writable: the kernel refuses to
/// remount a disk under them.
pub fn read_only(path: &Path, yes: bool) {
    let none = None::<&str>;
    let ours = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = path.to_str().unwrap();
    if !ours.lines().any(|line| line.split(' ').nth(4) == Some(at)) {
        mount(Some(path), path, none, MsFlags::MS_BIND, none).unwrap();
    }
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
    flags.set(MsFlags::MS_RDONLY, yes);
    mount(none, path, none, flags, none).unwrap();
}
