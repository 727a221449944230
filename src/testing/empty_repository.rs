//! Empty repositories for tests. git makes the first of each kind, and the others are copies of it: hundreds of tests
//! start with one, and a process takes longer than the copy of a few small files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The files and directories of a git directory, by their paths in it.
#[derive(Default)]
struct Content {
    dirs: Vec<PathBuf>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

static OF_A_CHECKOUT: LazyLock<Content> = LazyLock::new(|| made(&[]));
static BARE: LazyLock<Content> = LazyLock::new(|| made(&["--bare"]));

/// Makes the git directory of a new checkout, whose first branch is `main`. `config` is added to its configuration.
///
/// # Panics
/// The directory cannot be written.
pub fn of_a_checkout(git_dir: &Path, config: &str) {
    OF_A_CHECKOUT.write(git_dir, config);
}

/// Makes a bare repository, whose first branch is `main`. `config` is added to its configuration.
///
/// # Panics
/// The directory cannot be written.
pub fn bare(dir: &Path, config: &str) {
    BARE.write(dir, config);
}

/// Copies all files of a directory, over those that are there.
///
/// # Panics
/// A file cannot be read or written.
pub fn copy_files(from: &Path, to: &Path) {
    let mut content = Content::default();
    content.read(from, Path::new(""));
    content.write(to, "");
}

fn made(kind: &[&str]) -> Content {
    let dir = tempfile::tempdir().expect("a directory");
    let top = dir.path().join("new");
    let git = Command::new("git")
        .args(["init", "--quiet", "--initial-branch=main"])
        .args(kind)
        .arg(&top)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status();
    assert!(git.expect("git runs").success());
    let git_dir = if kind.is_empty() {
        top.join(".git")
    } else {
        top
    };
    let mut content = Content::default();
    content.read(&git_dir, Path::new(""));
    // Those of `hooks` are samples.
    content.files.retain(|(name, _)| !name.starts_with("hooks"));
    content
}

impl Content {
    fn read(&mut self, top: &Path, dir: &Path) {
        self.dirs.push(dir.to_owned());
        for entry in fs::read_dir(top.join(dir)).expect("a directory") {
            let entry = entry.expect("an entry");
            let name = dir.join(entry.file_name());
            if entry.file_type().expect("a type").is_dir() {
                self.read(top, &name);
            } else {
                self.files
                    .push((name, fs::read(entry.path()).expect("a file")));
            }
        }
    }

    fn write(&self, top: &Path, config: &str) {
        for dir in &self.dirs {
            fs::create_dir_all(top.join(dir)).expect("a directory");
        }
        for (name, text) in &self.files {
            let more = if name == Path::new("config") {
                config
            } else {
                ""
            };
            let text = [text, more.as_bytes()].concat();
            fs::write(top.join(name), text).expect("a file");
        }
    }
}
