//! A tree that is deeper than a path may be: it is walked directory by directory.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};

/// The number of directories and the length of their names: the path of the file in it has more than 5,000 bytes.
const DEPTH: usize = 25;
const LENGTH: usize = 200;

fn below(at: &OwnedFd, name: &str) -> Option<OwnedFd> {
    openat(at, name, OFlag::O_DIRECTORY, Mode::empty()).ok()
}

/// Makes such a tree in the directory, with one file at its end.
pub fn write(dir: &Path, text: &[u8]) {
    let name = "x".repeat(LENGTH);
    let mut at = open(dir, OFlag::O_DIRECTORY, Mode::empty()).expect("a directory");
    for _ in 0..DEPTH {
        mkdirat(&at, name.as_str(), Mode::S_IRWXU).expect("made");
        at = below(&at, &name).expect("a directory");
    }
    let how = OFlag::O_WRONLY | OFlag::O_CREAT;
    let file = openat(&at, "file", how, Mode::S_IRUSR | Mode::S_IWUSR).expect("a file");
    File::from(file).write_all(text).expect("written");
}

/// Returns the contents of the file at the end of such a tree, if the tree is there.
pub fn read(dir: &Path) -> Option<Vec<u8>> {
    let name = "x".repeat(LENGTH);
    let mut at = open(dir, OFlag::O_DIRECTORY, Mode::empty()).ok()?;
    for _ in 0..DEPTH {
        at = below(&at, &name)?;
    }
    let file = openat(&at, "file", OFlag::O_RDONLY, Mode::empty()).ok()?;
    let mut text = Vec::new();
    File::from(file).read_to_end(&mut text).ok()?;
    Some(text)
}
