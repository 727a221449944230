//! Changes between a look at a sandbox and its removal. A program with a mapped file changes the file's times with its
//! first write only, and in memory (tmpfs) with none after it has read the page: fingerprints miss its later writes.

use std::fs::{self, File};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use horde_supervisor::adapters::task_files::DiskTaskFiles;
use horde_supervisor::domain::facts::GitFacts;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::{Repo, RepoError};
use horde_supervisor::ports::tasks::TaskFiles;
use nix::fcntl::OFlag;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::unistd::{ForkResult, Pid, pipe2};
use rustix::fs::inotify;

use crate::support::city::{City, permit, snapshot, toast};
use crate::support::git::{git, write};
use crate::support::live::until;
use crate::support::namespace::apart;

/// The first page of a file, mapped to be written.
struct Mapped(*mut libc::c_void);

const PAGE: usize = 4096;

impl Mapped {
    fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let how = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which touches no memory of this program.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                how,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at)
    }

    fn read(&self) -> u8 {
        // SAFETY: the page is mapped for as long as this is.
        unsafe { self.0.cast::<u8>().read_volatile() }
    }

    fn write(&self, byte: u8) {
        // SAFETY: as in `read`; no reference to it is held.
        unsafe { self.0.cast::<u8>().write_volatile(byte) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and is used no more.
        unsafe { libc::munmap(self.0, PAGE) };
    }
}

/// Waits until a file is too old for its fingerprint to be doubted.
fn aged(path: &Path) {
    until("the file is a second old", || {
        let meta = fs::metadata(path).unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(meta.ctime() as u64 + 2);
        SystemTime::now() > changed
    });
}

/// A removal that was judged before the write is refused; the next judgement sees the write, and it is saved.
fn is_found(city: &City, sandbox: &Path, judged: &GitFacts) {
    let spec = city.spec(1);
    let gone = city
        .repo
        .discard_sandbox(&permit(&spec, judged), &city.trash(), &|| Ok(()));
    assert!(matches!(gone, Err(RepoError::PermitStale(_))), "{gone:?}");
    let files = snapshot(sandbox);
    let facts = city.facts(sandbox);
    assert_eq!(facts.dirty, ["README"]);
    let record = city.repo.salvage(sandbox, &toast(), Incarnation(1));
    city.repo
        .discard_sandbox(&permit(&spec, &facts), &city.trash(), &|| Ok(()))
        .unwrap();
    let to = city.root().join("restored");
    city.repo.restore(&record.unwrap(), &to).unwrap();
    assert_eq!(snapshot(&to), files);
}

#[test]
fn write_through_a_mapping_after_a_file_was_hashed_is_seen_before_it_goes() {
    let city = City::on_disk();
    let sandbox = city.sandbox();
    let file = sandbox.join("README");
    let mapped = Mapped::open(&file);
    let first = mapped.read();
    mapped.write(b'?');
    mapped.write(first);
    // Some file systems record the time later.
    drop(fs::read(&file).unwrap());
    aged(&file);
    let judged = city.facts(&sandbox);
    assert!(judged.is_clean(), "{judged:?}");
    mapped.write(b'J');
    is_found(&city, &sandbox, &judged);
}

/// The hash in the salvage was taken before the write.
#[test]
fn salvage_reads_writes_of_a_mapping_after_the_hash() {
    let city = City::on_disk();
    let sandbox = city.sandbox();
    write(&sandbox, "new", "untracked\n");
    let file = sandbox.join("new");
    let mapped = Mapped::open(&file);
    mapped.write(b'U');
    aged(&file);
    assert_eq!(city.facts(&sandbox).untracked, ["new"]);
    mapped.write(b'J');
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let to = city.root().join("restored");
    city.repo.restore(&record.unwrap(), &to).unwrap();
    assert_eq!(fs::read_to_string(to.join("new")).unwrap(), "Jntracked\n");
}

/// The sandbox is kept, and an operator is called.
#[test]
fn file_that_changes_while_it_is_saved_is_not_called_saved() {
    let city = City::on_disk();
    let sandbox = city.sandbox();
    let file = sandbox.join("new");
    fs::write(&file, "0").unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                n += 1;
                // The file is never empty.
                File::options()
                    .write(true)
                    .open(&file)
                    .unwrap()
                    .write_all(format!("{n:020}").as_bytes())
                    .unwrap();
            }
        });
        let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        ended.store(true, Ordering::Relaxed);
        let why = saved.unwrap_err().to_string();
        assert!(why.contains("keeps changing while it is saved"), "{why}");
    });
    assert_eq!(city.facts(&sandbox).untracked, ["new"]);
    let refs = ["for-each-ref", "refs/horde/salvage"];
    assert_eq!(git(city.repo.repo_dir(), &refs), "");
    let text = fs::read_to_string(&file).unwrap();
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let to = city.root().join("restored");
    city.repo.restore(&record.unwrap(), &to).unwrap();
    assert_eq!(fs::read_to_string(to.join("new")).unwrap(), text);
}

/// Writes once when the file is first read. Returns whether the salvage has what was written.
fn saves_what_is_written_after_the_first_look() -> bool {
    let city = City::new();
    let sandbox = city.sandbox();
    let file = sandbox.join("new");
    fs::write(&file, "before").unwrap();
    // Reading it takes longer than the other thread needs.
    fs::write(sandbox.join("zz"), vec![b'z'; 16 << 20]).unwrap();
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&events, &file, inotify::WatchFlags::CLOSE_NOWRITE).unwrap();
    let record = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut room = [MaybeUninit::uninit(); 512];
            inotify::Reader::new(&events, &mut room).next().unwrap();
            fs::write(&file, "after").unwrap();
        });
        let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        saved.expect("a change is followed by another round")
    });
    let to = city.root().join("restored");
    city.repo.restore(&record, &to).unwrap();
    let saved = fs::read_to_string(to.join("new")).unwrap();
    assert!(["before", "after"].contains(&&*saved), "{saved:?}");
    saved == "after"
}

#[test]
fn file_that_changes_once_while_it_is_saved_is_saved_as_it_is_then() {
    until("a change between two looks", || {
        saves_what_is_written_after_the_first_look()
    });
}

/// The times of such a file never change: the checkout's files are remembered by their bytes.
#[test]
fn write_through_a_mapping_of_a_file_in_memory_is_seen_before_it_goes() {
    if !apart(write_through_a_mapping_of_a_file_in_memory_is_seen_before_it_goes) {
        return;
    }
    let kind = Some("tmpfs");
    let flags = MsFlags::empty();
    mount(kind, &std::env::temp_dir(), kind, flags, None::<&str>).unwrap();
    let city = City::with(|checkout| {
        write(checkout, ".gitattributes", "*.crlf text eol=crlf\n");
        write(checkout, "a.crlf", "one\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let file = sandbox.join("README");
    let mapped = Mapped::open(&file);
    mapped.read();
    let before = fs::metadata(&file).unwrap();
    let judged = city.facts(&sandbox);
    assert!(judged.is_clean(), "{judged:?}");
    mapped.write(b'J');
    let after = fs::metadata(&file).unwrap();
    assert_eq!(
        (before.ctime(), before.ctime_nsec()),
        (after.ctime(), after.ctime_nsec())
    );
    is_found(&city, &sandbox, &judged);
}

/// A process other than the supervisor, which has inherited the mappings of the test.
struct Child {
    pid: Pid,
    ends: Option<OwnedFd>,
}

impl Child {
    fn fork() -> Self {
        // No program that another test starts may inherit its end.
        let (waits, ends) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let only = u32::try_from(waits.as_raw_fd()).unwrap();
        // SAFETY: the child only calls what a signal handler may call.
        match unsafe { nix::unistd::fork() }.unwrap() {
            ForkResult::Parent { child } => Self {
                pid: child,
                ends: Some(ends),
            },
            ForkResult::Child => {
                let mut byte = 0_u8;
                // SAFETY: as above; the descriptors are the child's own copies. It must not hold the pipes of other tests, whose
                // programs wait for their ends.
                unsafe {
                    libc::close_range(3, only - 1, 0);
                    libc::close_range(only + 1, u32::MAX, 0);
                    libc::read(waits.as_raw_fd(), (&raw mut byte).cast(), 1);
                    libc::_exit(0)
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.ends.take());
        nix::sys::wait::waitpid(self.pid, None).unwrap();
    }
}

/// The whole run of the tests waited for ever: a program of another test waited for the end of its input, which this process held, and
/// itself held the end that this process waited for.
#[test]
fn forked_process_holds_no_pipe_of_another_test() {
    let mut cat = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let child = Child::fork();
    drop(cat.stdin.take());
    let ended = || cat.try_wait().unwrap().is_some();
    until("its input is at an end", ended);
    drop(child);
}

/// In memory, no time changes: it is known that the file was mapped.
#[test]
fn write_of_another_process_through_a_mapping_is_seen_during_and_after_the_removal() {
    let city = City::new();
    let sandbox = city.sandbox();
    let mapped = Mapped::open(&sandbox.join("README"));
    let first = mapped.read();
    let child = Child::fork();
    let judged = city.facts(&sandbox);
    assert!(judged.is_clean(), "{judged:?}");
    let discard = |still: &dyn Fn() -> Result<(), RepoError>| {
        let permit = permit(&city.spec(1), &judged);
        city.repo.discard_sandbox(&permit, &city.trash(), still)
    };
    let stale = discard(&|| {
        mapped.write(b'J');
        Ok(())
    });
    assert!(matches!(stale, Err(RepoError::PermitStale(_))), "{stale:?}");
    mapped.write(first);
    discard(&|| Ok(())).unwrap();
    let at = |name: &str| city.root().join("city/.horde").join(name);
    let files = DiskTaskFiles::new(at("outbox"), at("trash"), at("set-up")).unwrap();
    files.empty_trash().unwrap();
    let thrown = city.trash().join("horde-Toast-1");
    let left = files.leftovers().unwrap().trash;
    assert_eq!(left, std::slice::from_ref(&thrown));
    mapped.write(b'J');
    drop(child);
    files.empty_trash().unwrap();
    let written = files.written_in_trash();
    assert_eq!(written, [(thrown.clone(), thrown.join("README"))].into());
}
