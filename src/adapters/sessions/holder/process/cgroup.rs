//! A cgroup (version 2) leaf for the session, if the kernel permits: one write ends everything in it, whatever it
//! forked. Without it the session works just the same.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::adapters::proc;

/// A leaf of the cgroup tree.
pub struct Cgroup {
    path: PathBuf,
    dir: File,
}

impl Cgroup {
    /// Makes the leaf of this session below our own cgroup; none if that is not possible.
    pub fn make(token: &str) -> Option<Self> {
        let path = place(token)?;
        fs::create_dir(&path).ok()?;
        let killable = path.join("cgroup.kill").exists();
        let dir = File::open(&path).ok().filter(|_| killable);
        if dir.is_none() {
            remove(&path);
        }
        Some(Self { path, dir: dir? })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn place(token: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then_some(path)
    })?;
    let own = proc::cgroup(std::process::id())?;
    let name = format!("horde-{token}");
    Some(
        Path::new(mount)
            .join(own.trim_start_matches('/'))
            .join(name),
    )
}

/// Kills everything in a leaf. Does nothing if it does not exist.
pub fn kill(path: &Path) {
    // A path outside of cgroups is left alone. Every caller checks for survivors afterwards, so a failure is noticed.
    if !is_cgroup(path) {
        return;
    }
    if let Ok(mut file) = OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.kill"))
    {
        let _checked_by_the_caller = std::io::Write::write_all(&mut file, b"1");
    }
}

/// Returns true if the path is below a mount of cgroups (version 2).
fn is_cgroup(path: &Path) -> bool {
    /// `CGROUP2_SUPER_MAGIC`.
    const CGROUP: u64 = 0x6367_7270;
    rustix::fs::statfs(path).is_ok_and(|found| u64::try_from(found.f_type) == Ok(CGROUP))
}

/// Removes an empty leaf.
pub fn remove(path: &Path) {
    if is_cgroup(path) {
        // A leaf with processes stays; it costs nothing and names its session.
        let _not_empty = fs::remove_dir(path);
    }
}
