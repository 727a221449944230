//! The limit of a test: one that hangs is named, with the processes that it waits for, instead of a run without end.

use std::fs;
use std::io::{Write, stderr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::unistd::gettid;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::poll::pass;
use super::tier::by_tier;

/// The seconds that a test may take: more than all tests of a program took together on a slow machine.
const LIMIT: u32 = 10 * 60;
const LONG_LIMIT: u32 = 3 * 60 * 60;
/// The seconds that a test has after its processes were killed: it fails by itself, and says more.
const REST: u32 = 90;

/// A test at work.
#[derive(Clone)]
struct Watched {
    test: String,
    /// Its thread, which ends with it: a directory may be left by a test that failed, or be moved.
    thread: i32,
    dirs: Vec<PathBuf>,
    /// The looks at it, one each second that this process runs.
    looks: u32,
}

impl Watched {
    fn runs(&self) -> bool {
        Path::new(&format!("/proc/self/task/{}", self.thread)).exists()
    }

    /// Returns its processes.
    fn processes(&self) -> Vec<u32> {
        let all = self.dirs.iter().flat_map(|dir| processes_of(dir));
        all.collect()
    }
}

static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

fn watched() -> MutexGuard<'static, Vec<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the calling test, which has this directory, until its thread ends. After 10 minutes (3 hours in the long tier) the processes
/// whose environment or command line names a directory of it are killed; if the test does not end then, the whole run does. Benches,
/// whose thread has no name of its own, are not watched.
///
/// # Panics
/// No thread can be started.
pub fn watch(dir: &Path) {
    static STARTED: LazyLock<()> = LazyLock::new(|| {
        let watchdog = thread::Builder::new().name("watchdog".to_owned());
        watchdog.spawn(look_each_second).expect("a thread");
    });
    let thread = thread::current();
    let Some(test) = thread.name().filter(|name| *name != "main") else {
        return;
    };
    LazyLock::force(&STARTED);
    let id = gettid().as_raw();
    // Processes are told the path without links.
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mut watched = watched();
    watched.retain(Watched::runs);
    match watched
        .iter_mut()
        .find(|it| it.thread == id && it.test == test)
    {
        Some(known) => {
            known.dirs.retain(|dir| dir.exists());
            known.dirs.push(dir);
        }
        None => watched.push(Watched {
            test: test.to_owned(),
            thread: id,
            dirs: vec![dir],
            looks: 0,
        }),
    }
}

fn look_each_second() {
    let limit = by_tier(LIMIT, LONG_LIMIT);
    loop {
        pass(Duration::from_secs(1));
        let found = look(&mut watched(), limit);
        let out = &mut stderr();
        match found {
            Found::Nothing => {}
            Found::Hanging(test) => end(&test, out),
            Found::Undying(test) => {
                say(
                    out,
                    &format!("the test {} still hangs: the run is ended", test.test),
                );
                let all = watched().clone();
                all.iter().for_each(kill);
                std::process::exit(101);
            }
        }
    }
}

/// The result of a look at the tests.
enum Found {
    Nothing,
    /// A test that has reached the limit.
    Hanging(Watched),
    /// A test that has not ended long after that.
    Undying(Watched),
}

fn look(watched: &mut Vec<Watched>, limit: u32) -> Found {
    watched.retain(Watched::runs);
    watched.iter_mut().for_each(|it| it.looks += 1);
    let found = |looks: u32| watched.iter().find(|it| it.looks == looks).cloned();
    match (found(limit), found(limit + REST)) {
        (_, Some(test)) => Found::Undying(test),
        (Some(test), None) => Found::Hanging(test),
        (None, None) => Found::Nothing,
    }
}

/// Says what a hanging test waits for, and kills its processes.
fn end(hanging: &Watched, out: &mut dyn Write) {
    let (test, seconds) = (&hanging.test, hanging.looks);
    say(
        out,
        &format!(
            "the test {test} hangs: it has run for {seconds} s. Its processes, which are killed now:"
        ),
    );
    for pid in hanging.processes() {
        say(out, &state(&format!("/proc/{pid}")));
    }
    say(out, "the threads of this process:");
    for task in fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        say(out, &state(&task.path().display().to_string()));
    }
    kill(hanging);
}

/// Kills the processes of a test.
fn kill(test: &Watched) {
    for pid in test.processes() {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // One that has ended meanwhile needs no signal.
        let _ended = pid.map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// Describes a process or thread by its directory in `/proc`: what it is, and where in the kernel it waits.
fn state(proc: &str) -> String {
    let read = |file: &str| {
        let bytes = fs::read(format!("{proc}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace(['\0', '\n'], " ")
    };
    format!(
        "  {proc} [{}] {}",
        read("wchan"),
        match proc.contains("task") {
            true => read("comm"),
            false => read("cmdline"),
        }
    )
}

/// Writes a line. That on standard error is past the capture of the test harness, which shows no output of a test that does not end.
fn say(out: &mut dyn Write, line: &str) {
    let _no_reader = writeln!(out, "watchdog: {line}");
}

/// Returns the live processes whose environment or command line names this directory; not this one.
#[must_use]
pub fn processes_of(dir: &Path) -> Vec<u32> {
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != own && names(*pid, dir.as_os_str().as_bytes()))
        .collect()
}

fn names(pid: u32, path: &[u8]) -> bool {
    // A process that has ended, or belongs to another user, is not one of ours.
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let holds = |bytes: &[u8]| bytes.windows(path.len()).any(|window| window == path);
    holds(&read("environ")) || holds(&read("cmdline"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn test_that_hangs_loses_its_processes_and_then_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut sleeps = Command::new("sleep")
            .arg("1000")
            .env("HORDE_TEST_DIR", dir.path())
            .spawn()
            .unwrap();
        let is_found = || (processes_of(dir.path()) == [sleeps.id()]).then_some(());
        crate::testing::eventually("its process is found", is_found);
        let (end_it, ends) = mpsc::channel::<()>();
        let (id, its) = mpsc::channel();
        let hangs = thread::spawn(move || {
            id.send(gettid().as_raw()).unwrap();
            ends.recv().unwrap_err();
        });
        let mut watched = vec![Watched {
            test: "it::hangs".to_owned(),
            thread: its.recv().unwrap(),
            dirs: vec![dir.path().to_owned()],
            looks: 0,
        }];
        let (mut told, mut killed_at) = (Vec::new(), None);
        for second in 1.. {
            match look(&mut watched, 10) {
                Found::Nothing => {}
                Found::Hanging(test) => {
                    end(&test, &mut told);
                    killed_at = Some(second);
                }
                Found::Undying(test) => {
                    assert_eq!((test.test.as_str(), second), ("it::hangs", 10 + REST));
                    break;
                }
            }
        }
        assert_eq!(killed_at, Some(10));
        assert!(!sleeps.wait().unwrap().success());
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("the test it::hangs hangs"), "{told}");
        assert!(told.contains("sleep 1000"), "{told}");
        drop(end_it);
        hangs.join().unwrap();
        let is_forgotten = || {
            look(&mut watched, 10);
            watched.is_empty().then_some(())
        };
        crate::testing::eventually("its thread has ended", is_forgotten);
    }
}
