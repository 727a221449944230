//! Finds the working directory of a process, and checks whether it is inside a given directory.
//!
//! Both are read from the kernel. Directories are compared by identity and not by path, so that neither a link nor a
//! mount namespace of the process (a container that has the directory elsewhere) matters.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fstat, open, openat};

/// The largest depth that is followed.
const DEEPEST: usize = 512;

/// The position of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessDir {
    /// Its working directory.
    pub dir: PathBuf,
    /// Set when that is the directory in question, or below it.
    pub inside: bool,
}

/// Finds the position of a process in relation to a directory.
///
/// # Errors
/// When the process is gone or belongs to another user, or the directory does not exist.
pub fn place(pid: u32, of: &Path) -> io::Result<ProcessDir> {
    let wanted = fstat(open(of, directory(), Mode::empty())?)?;
    let mut here = open(format!("/proc/{pid}/cwd"), directory(), Mode::empty())?;
    // Read from the opened directory: the process may change its own meanwhile.
    let dir = fs::read_link(format!("/proc/self/fd/{}", here.as_raw_fd()))?;
    let mut now = fstat(&here)?;
    for _ in 0..DEEPEST {
        if is_same(&now, &wanted) {
            return Ok(ProcessDir { dir, inside: true });
        }
        let (up, above) = parent(&here)?;
        if is_same(&now, &above) {
            return Ok(ProcessDir { dir, inside: false });
        }
        (here, now) = (up, above);
    }
    Err(io::Error::other(format!("{} is too deep", dir.display())))
}

fn parent(dir: impl AsFd) -> io::Result<(OwnedFd, Stat)> {
    let up = openat(dir, "..", directory(), Mode::empty())?;
    let stat = fstat(&up)?;
    Ok((up, stat))
}

/// The flags to open a directory without read permission.
fn directory() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a process that works in the directory until its input is closed.
    fn stands_in(dir: &Path) -> Child {
        let mut cat = Command::new("cat");
        let child = cat.current_dir(dir).stdin(Stdio::piped()).spawn();
        child.unwrap()
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_inside_a_directory_when_it_stands_in_it_or_below() {
        let temp = crate::testing::scratch();
        let root = fs::canonicalize(temp.path()).unwrap();
        for dir in ["one/deep/deeper", "one-more"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        symlink(root.join("one"), root.join("link")).unwrap();
        let one = root.join("one");
        for (stands, of, dir, inside) in [
            ("one", "one", "one", true),
            ("one/deep/deeper", "one", "one/deep/deeper", true),
            ("link/deep", "one", "one/deep", true),
            ("one/deep", "link", "one/deep", true),
            ("", "one", "", false),
            ("one-more", "one", "one-more", false),
            ("one", "one/deep", "one", false),
        ] {
            let process = stands_in(&root.join(stands));
            let found = place(process.id(), &root.join(of)).unwrap();
            end(process);
            assert_eq!(found.inside, inside, "{stands} of {of}");
            assert_eq!(found.dir, root.join(dir).components().collect::<PathBuf>());
        }
        let process = stands_in(&one);
        assert!(place(process.id(), &root.join("missing")).is_err());
        fs::rename(&one, root.join("away")).unwrap();
        fs::create_dir(&one).unwrap();
        let found = place(process.id(), &one).unwrap();
        end(process);
        assert!(!found.inside, "another directory has the name by now");
    }

    #[test]
    fn the_place_of_a_process_that_is_gone_is_unknown() {
        let temp = crate::testing::scratch();
        let mut child = stands_in(temp.path());
        drop(child.stdin.take());
        let pid = child.id();
        child.wait().unwrap();
        assert!(place(pid, temp.path()).is_err());
    }
}
