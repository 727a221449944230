//! Finds the files through which processes may still write: working directories, open directories (which give access
//! to the files below), files open for writing, and writable mappings. They are named by device and inode, because
//! paths read differently in the mount namespace of a container.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc::{self, c_long};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat, openat2, statx,
};

use super::PROC;

/// A file by device and inode.
pub type FileId = (u64, u64);

/// The files that other processes may write to, or below.
#[derive(Debug, Default)]
pub struct UsedFiles {
    /// All of them.
    pub all: HashSet<FileId>,
    /// The mapped files: a write to a mapping may change no time.
    pub mapped: HashSet<FileId>,
}

/// Returns the files that other processes work in, have open or have mapped, if they may write through them.
/// Processes of another user may be invisible.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn used_files() -> io::Result<UsedFiles> {
    let mut used = UsedFiles::default();
    // The kernel reads the numbers of threads in the pid namespace of this process, which another `/proc` may not show.
    let own = fs::read_link(Path::new(PROC).join("self")).ok();
    let is_own = own.is_some_and(|own| own.as_os_str() == std::process::id().to_string().as_str());
    let is_shared = if is_own {
        is_shared
    } else {
        |_: &Path, _: &Path| false
    };
    for process in processes(Path::new(PROC))? {
        look_at(&process, &mut used, is_shared);
    }
    Ok(used)
}

/// Returns the files that other processes have mapped and may write to.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn mapped_files() -> io::Result<HashSet<FileId>> {
    let processes = processes(Path::new(PROC))?.into_iter();
    Ok(processes
        .flat_map(|process| mapped(&process, &tasks(&process)))
        .collect())
}

fn look_at(process: &Path, used: &mut UsedFiles, is_shared: fn(&Path, &Path) -> bool) {
    let tasks = tasks(process);
    // Each thread may have a working directory and descriptors of its own, and outlive the first thread.
    let mut listed: Option<&Path> = None;
    for task in &tasks {
        if listed.is_some_and(|listed| is_shared(listed, task)) {
            continue;
        }
        let held = ["cwd", "root"].map(|held| identify(&task.join(held)));
        used.all
            .extend(held.into_iter().flatten().map(|(id, _)| id));
        let open = fs::read_dir(task.join("fd"));
        if open.is_ok() {
            listed.get_or_insert(task);
        }
        let open = open.into_iter().flatten();
        for descriptor in open.flatten().map(|open| open.path()) {
            if let Some((id, kind)) = identify(&descriptor)
                && match kind {
                    FileType::Directory => true,
                    FileType::RegularFile => is_writable(&descriptor),
                    _ => false,
                }
            {
                used.all.insert(id);
            }
        }
    }
    let mapped = mapped(process, &tasks);
    used.all.extend(&mapped);
    used.mapped.extend(mapped);
}

/// Returns the directories of other processes.
fn processes(proc: &Path) -> io::Result<Vec<PathBuf>> {
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid != own) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns the directories of a process's threads; none if it has ended.
fn tasks(process: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(process.join("task")).into_iter().flatten();
    listed.flatten().map(|task| task.path()).collect()
}

/// Returns true if two threads have the same table of descriptors and the same working directory and root, as nearly all
/// threads of a process do. If the kernel does not tell, they count as different.
fn is_shared(one: &Path, other: &Path) -> bool {
    // Numbers of the kernel's `enum kcmp_type`.
    const FILES: c_long = 2;
    const DIRECTORIES: c_long = 3;
    let id = |task: &Path| task.file_name()?.to_str()?.parse::<c_long>().ok();
    let (Some(one), Some(other)) = (id(one), id(other)) else {
        return false;
    };
    let is_same = |kind: c_long| {
        let unused: c_long = 0;
        // SAFETY: the call takes five numbers, and reads and writes no memory of ours.
        0 == unsafe { libc::syscall(libc::SYS_kcmp, one, other, kind, unused, unused) }
    };
    is_same(FILES) && is_same(DIRECTORIES)
}

/// Returns the file that a link of the kernel leads to. Asks no server of a network file system.
fn identify(link: &Path) -> Option<(FileId, FileType)> {
    identity(CWD, link, AtFlags::STATX_DONT_SYNC)
}

/// Returns the file at a path below a process's root, if the kernel knows it already: a walk could wait for a file system
/// that never answers. A mapped file is known.
fn identify_cached(root: &Path, path: &Path) -> Option<FileId> {
    let how = OFlags::PATH | OFlags::CLOEXEC;
    let root = openat(CWD, root, how | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let path = path.strip_prefix("/").ok()?;
    let file = openat2(&root, path, how, Mode::empty(), ResolveFlags::CACHED).ok()?;
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::EMPTY_PATH;
    identity(&file, Path::new(""), flags).map(|(id, _)| id)
}

fn identity(dir: impl AsFd, path: &Path, flags: AtFlags) -> Option<(FileId, FileType)> {
    let asked = StatxFlags::TYPE | StatxFlags::INO;
    let found = statx(dir, path, flags, asked).ok()?;
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    Some(((device, found.stx_ino), kind))
}

/// Returns true if a descriptor may be written to, which the mode of its link tells, or if that is unknown.
fn is_writable(descriptor: &Path) -> bool {
    let found = fs::symlink_metadata(descriptor);
    found.map_or(true, |found| found.permissions().mode() & 0o200 != 0)
}

/// Returns the files that a process writes by writing to its memory.
fn mapped(process: &Path, tasks: &[PathBuf]) -> HashSet<FileId> {
    // Threads share their memory; one that has ended has none.
    let maps = tasks.iter().map(|task| fs::read(task.join("maps")));
    let maps = maps.flatten().find(|maps| !maps.is_empty());
    let maps = maps.unwrap_or_default();
    let lines = maps.split(|byte| *byte == b'\n');
    lines
        .filter_map(Mapping::parse)
        .map(|mapping| mapping.identify(process))
        .collect()
}

/// A mapping that is shared and writable.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    range: &'a str,
    /// The device of the file system, and the inode. Some file systems (btrfs) show files under other devices.
    id: FileId,
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// Parses `<range> <mode> <offset> <device> <inode>   <path>`.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let at = line.iter().position(|byte| *byte == b'/')?;
        let (head, path) = line.split_at(at);
        let mut fields = std::str::from_utf8(head).ok()?.split_ascii_whitespace();
        let (range, mode) = (fields.next()?, fields.next()?.as_bytes());
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let id = (
            makedev(number(major)?, number(minor)?),
            fields.next()?.parse().ok()?,
        );
        let is_shared = mode.get(1) == Some(&b'w') && mode.get(3) == Some(&b's');
        is_shared.then_some(Self { range, id, path })
    }

    /// Returns the device and inode that a look at the file shows.
    fn identify(&self, process: &Path) -> FileId {
        let ends = self.range.split('-').map(|end| end.trim_start_matches('0'));
        let range = ends.collect::<Vec<_>>().join("-");
        // The kernel follows this link for privileged processes only. The path may lead to another file.
        let by_range = identify(&process.join("map_files").join(range)).map(|(id, _)| id);
        let path = Path::new(OsStr::from_bytes(self.path));
        let by_path = || identify_cached(&process.join("root"), path);
        let is_it = |id: &FileId| id.1 == self.id.1;
        let found = by_range.filter(is_it).or_else(|| by_path().filter(is_it));
        found.unwrap_or(self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn mapping_that_is_shared_and_written_names_its_file() {
        let maps = b"7f0-7f1 rw-s 00000000 00:1f 42      /a/with space\n\
                     7f0-7f1 rw-p 00000000 00:1f 43      /private\n\
                     7f0-7f1 r--s 00000000 00:1f 44      /read\n\
                     7f0-7f1 rw-s 00000000 00:01 45      [anon]\n";
        let lines = maps.split(|byte| *byte == b'\n');
        let found: Vec<_> = lines.filter_map(Mapping::parse).collect();
        let mapping = Mapping {
            range: "7f0-7f1",
            id: (makedev(0, 0x1f), 42),
            path: b"/a/with space",
        };
        assert_eq!(found, [mapping]);
    }

    /// Its first thread has ended, and the paths are those of a mount namespace of its own.
    #[test]
    fn a_thread_is_found_by_the_files_that_it_uses_and_not_by_their_paths() {
        let dir = crate::testing::scratch();
        let at = |name: &str| dir.path().join(name);
        for made in [
            "place/sub",
            "place/open",
            "proc/7/task/7",
            "proc/7/task/8/fd",
            "proc/7/task/9/fd",
        ] {
            fs::create_dir_all(at(made)).unwrap();
        }
        symlink(at("place"), at("bound")).unwrap();
        for (file, text) in [("mapped", ""), ("edited", "")] {
            fs::write(at("place").join(file), text).unwrap();
        }
        symlink(dir.path(), at("proc/7/root")).unwrap();
        let task = at("proc/7/task/8");
        symlink(at("bound/sub"), task.join("cwd")).unwrap();
        symlink(at("bound/open"), task.join("fd/3")).unwrap();
        symlink(at("bound/edited"), task.join("fd/4")).unwrap();
        symlink("socket:[1]", task.join("fd/5")).unwrap();
        let id = |name: &str| {
            let found = fs::metadata(at("place").join(name)).unwrap();
            (found.dev(), found.ino())
        };
        let inode = id("mapped").1;
        let maps = format!("7f0-7f1 rw-s 00000000 00:00 {inode}      /place/mapped\n");
        fs::write(at("proc/7/task/7/maps"), "").unwrap();
        fs::write(task.join("maps"), maps).unwrap();
        let mut used = UsedFiles::default();
        for process in processes(&at("proc")).unwrap() {
            look_at(&process, &mut used, |listed, other| {
                // The first thread has ended: its descriptors cannot be listed, and stand for no other's.
                assert!(listed != other && !listed.ends_with("7"));
                listed.ends_with("8")
            });
        }
        let all = ["sub", "open", "edited", "mapped"].map(id);
        assert_eq!(used.all, all.into());
        assert_eq!(used.mapped, [id("mapped")].into());
    }

    #[test]
    fn thread_with_a_directory_or_descriptors_of_its_own_is_told_from_one_that_shares_them() {
        let here = nix::unistd::gettid().to_string();
        let apart = |flags: CloneFlags| {
            let first = PathBuf::from(&here);
            let thread = move || {
                unshare(flags).unwrap();
                let own = nix::unistd::gettid().to_string();
                is_shared(&first, Path::new(&own))
            };
            std::thread::spawn(thread).join().unwrap()
        };
        // Where the kernel does not tell, none is said to share anything.
        let is_told = is_shared(Path::new(&here), Path::new(&here));
        assert_eq!(apart(CloneFlags::empty()), is_told);
        assert!(!apart(CloneFlags::CLONE_FILES));
        assert!(!apart(CloneFlags::CLONE_FS));
        assert!(!is_shared(Path::new(&here), Path::new("none")));
    }
}
