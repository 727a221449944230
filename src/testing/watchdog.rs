//! The limit of a test: one that hangs is named, with the processes that it waits for, instead of a run without end.

use std::fs;
use std::io::{Write as _, stderr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

use super::poll::pass;
use super::tier::by_tier;

/// The longest test takes a fifth of it.
const LIMIT: Duration = Duration::from_secs(10 * 60);
const LONG_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
/// The time that a test has after its processes were killed: it fails by itself, and says more.
const REST: Duration = Duration::from_secs(90);

/// A directory of a test, which exists as long as the test runs.
struct Watched {
    test: String,
    dir: PathBuf,
    since: Instant,
    is_told: bool,
}

static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

/// Watches the calling test for as long as its directory exists. After 10 minutes (3 hours in the long tier) the processes whose
/// environment or command line names the directory are killed; if the test does not end then, the whole run does.
///
/// # Panics
/// No thread can be started.
pub fn watch(dir: &Path) {
    static STARTED: LazyLock<()> = LazyLock::new(|| {
        let watchdog = thread::Builder::new().name("watchdog".to_owned());
        watchdog.spawn(look_each_second).expect("a thread");
    });
    LazyLock::force(&STARTED);
    let test = thread::current().name().unwrap_or("unknown").to_owned();
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.retain(|it| it.dir.exists());
    watched.push(Watched {
        test,
        dir: dir.to_owned(),
        since: Instant::now(),
        is_told: false,
    });
}

fn look_each_second() {
    let limit = by_tier(LIMIT, LONG_LIMIT);
    loop {
        pass(Duration::from_secs(1));
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(test) = look(&mut watched, Instant::now(), limit) {
            say(&format!("the test {test} still hangs: the run is ended"));
            std::process::exit(101);
        }
    }
}

/// Ends the processes of tests that have reached the limit. Returns a test that has not ended long after that.
fn look(watched: &mut Vec<Watched>, now: Instant, limit: Duration) -> Option<String> {
    watched.retain(|it| it.dir.exists());
    for it in watched {
        let age = now.saturating_duration_since(it.since);
        if age > limit + REST {
            return Some(it.test.clone());
        }
        if age > limit && !it.is_told {
            it.is_told = true;
            end(it);
        }
    }
    None
}

/// Kills what a hanging test waits for, and says what that was.
fn end(hanging: &Watched) {
    let (test, dir) = (&hanging.test, hanging.dir.display());
    let seconds = hanging.since.elapsed().as_secs();
    say(&format!(
        "the test {test} hangs: it has run for {seconds} s in {dir}. Its processes, which are killed now:"
    ));
    let processes = processes_of(&hanging.dir);
    for pid in &processes {
        say(&state(&format!("/proc/{pid}")));
    }
    say("the threads of this process:");
    for task in fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        say(&state(&task.path().display().to_string()));
    }
    for pid in processes {
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

/// Writes a line past the capture of the test harness, which shows no output of a test that does not end.
fn say(line: &str) {
    let _no_reader = writeln!(stderr(), "watchdog: {line}");
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

    use super::*;

    #[test]
    fn test_that_hangs_loses_its_processes_and_then_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut sleeps = Command::new("sleep")
            .arg("1000")
            .env("HORDE_TEST_DIR", dir.path())
            .spawn()
            .unwrap();
        let since = Instant::now();
        let mut watched = vec![Watched {
            test: "it::hangs".to_owned(),
            dir: dir.path().to_owned(),
            since,
            is_told: false,
        }];
        let second = Duration::from_secs(1);
        let mut look = |age: Duration| look(&mut watched, since + age, LIMIT);
        assert_eq!(look(LIMIT - second), None);
        assert!(sleeps.try_wait().unwrap().is_none());
        assert_eq!(look(LIMIT + second), None);
        assert!(!sleeps.wait().unwrap().success());
        assert_eq!(look(LIMIT + REST + second).as_deref(), Some("it::hangs"));
        drop(dir);
        assert_eq!(look(LIMIT + REST + second), None);
    }
}
