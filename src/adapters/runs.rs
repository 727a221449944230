//! Commands that the daemon runs for itself: gates, set-up, automations, checks of pools, notices, pull requests. A run
//! is ended with all processes that it started, even those that left its process group, and even after the daemon was
//! killed.
//!
//! Every process of a run inherits a variable with a token that no other run has. The token is recorded before the
//! run starts, as the name of an empty file. A record alone never ends a process: the process must carry the token,
//! or be in the process group of a leader that carries it.
//!
//! The rights of a run's processes on the daemon last as long as the run. Rights come from ancestry alone; a token in
//! the environment only takes rights away. So does the mark of an errand, for processes without a run: those that git
//! starts for us (hooks, helpers) and leaves behind, even under an earlier daemon.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};

use super::beneath;
use super::proc::{self, Pidfd};
use crate::domain::city::Rights;
use crate::domain::facts::ProcessId;

/// The variable that marks a run's processes.
pub const TOKEN: &str = "HD_RUN_TOKEN";

/// The variable that marks processes started for a city that may only read. Its value names the city.
pub const ERRAND: &str = "HD_ERRAND";

/// The city of this process.
static CITY: OnceLock<OsString> = OnceLock::new();

/// Sets the city that this process works for, by its state directory: the mark of its git processes.
pub fn work_for(state_dir: &Path) {
    // A process works for one city, so only the first call counts.
    let _first = CITY.set(state_dir.as_os_str().to_owned());
}

/// Returns the mark of an errand; none before [`work_for`].
#[must_use]
pub fn errand() -> Option<&'static OsStr> {
    CITY.get().map(OsString::as_os_str)
}

fn is_errand(process: &ProcessId) -> bool {
    errand().is_some_and(|ours| {
        let mark = proc::environment_text(process.pid, ERRAND);
        mark.is_some_and(|mark| OsStr::new(&mark) == ours)
    })
}

/// The timeout for the ends of killed processes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A run in progress.
struct UnderWay {
    record: PathBuf,
    rights: Rights,
    leader: Option<ProcessId>,
    /// The name that its processes' calls go by.
    name: Option<String>,
}

/// Returns the runs of this process, by their tokens.
fn under_way() -> MutexGuard<'static, HashMap<String, UnderWay>> {
    static RUNS: LazyLock<Mutex<HashMap<String, UnderWay>>> = LazyLock::new(Mutex::default);
    // Every change is one insert or removal, so a poisoned map is consistent.
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run. Its record is an empty file named after its token.
#[derive(Debug)]
pub struct Run {
    record: PathBuf,
    token: String,
}

impl Run {
    /// Records a new run in this directory. The caller starts its processes with the token; they have these rights on
    /// the daemon.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn begin(dir: &Path, rights: Rights) -> io::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let token = format!(
            "{}-{}-{}",
            std::process::id(),
            jiff::Timestamp::now().as_nanosecond(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        fs::create_dir_all(dir)?;
        let record = dir.join(&token);
        beneath::create(dir, Path::new(&token))?;
        let run = UnderWay {
            record: record.clone(),
            rights,
            leader: None,
            name: None,
        };
        under_way().insert(token.clone(), run);
        Ok(Self { record, token })
    }

    /// Sets the name by which the run's processes go when they ask the daemon.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        if let Some(run) = under_way().get_mut(&self.token) {
            run.name = Some(name.to_owned());
        }
        self
    }

    /// Returns the token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Sets the leader of the process group: a child that was not reaped yet.
    ///
    /// # Errors
    /// When the leader cannot be read.
    pub fn started(&self, leader: u32) -> io::Result<()> {
        let leader = proc::identify(leader)?;
        if let Some(run) = under_way().get_mut(&self.token) {
            run.leader = Some(leader);
        }
        Ok(())
    }

    /// Ends the processes that are left of the run, and forgets it.
    ///
    /// # Errors
    /// When a process cannot be ended.
    pub fn end(&self) -> io::Result<()> {
        end_marked(&self.token)?;
        under_way().remove(&self.token);
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Returns the rights of a process as part of a run, or as another process below the daemon, which may only read. A
/// process that cannot be judged may only read, too. None for every other process.
#[must_use]
pub fn rights_of(pid: u32) -> Option<Rights> {
    let Ok(mut line) = proc::ancestry(pid) else {
        return Some(Rights::Read);
    };
    let own = std::process::id();
    let below = line.iter().position(|process| process.pid == own);
    line.truncate(below.unwrap_or(line.len()));
    let marks = |process: &ProcessId| proc::environment_text(process.pid, TOKEN);
    let led = |process: &ProcessId| {
        let runs = under_way();
        let mut runs = runs.values();
        let run = runs.find(|run| run.leader.as_ref() == Some(process));
        run.map(|run| run.rights)
    };
    let of = |token: &String| under_way().get(token).map(|run| run.rights);
    if let Some(rights) = line.iter().find_map(led) {
        return Some(rights);
    }
    match (below, line.last()) {
        // The leader has just been started, and is not known yet.
        (Some(_), Some(child)) => Some(marks(child).as_ref().and_then(of).unwrap_or(Rights::Read)),
        // The daemon itself.
        (Some(_), None) => None,
        (None, _) if line.iter().any(is_errand) => Some(Rights::Read),
        // The process left its leader.
        (None, _) => {
            let marked = line.iter().filter_map(marks);
            let fewest = marked.filter_map(|token| of(&token)).min();
            fewest.filter(|rights| *rights < Rights::All)
        }
    }
}

/// Returns the name of the run that the process belongs to. Its token alone is enough: a name gives no rights.
#[must_use]
pub fn name_of(pid: u32) -> Option<String> {
    let line = proc::ancestry(pid).ok()?;
    let marks: Vec<_> = line
        .iter()
        .filter_map(|process| proc::environment_text(process.pid, TOKEN))
        .collect();
    let runs = under_way();
    let led = |process: &ProcessId| {
        let mut runs = runs.values();
        runs.find(|run| run.leader.as_ref() == Some(process))
    };
    let marked = || marks.iter().find_map(|token| runs.get(token));
    let run = line.iter().find_map(led).or_else(marked)?;
    run.name.clone()
}

/// Ends the processes that are left of every run recorded in this directory. Call this only while no run is in
/// progress.
///
/// # Errors
/// When the records cannot be read, or a process cannot be ended.
pub fn end_leftovers(dir: &Path) -> io::Result<()> {
    let records = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        records => records?,
    };
    // All are listed first: this may take so long that a caller gives it up, and a later run is not a leftover.
    for entry in records.collect::<io::Result<Vec<_>>>()? {
        let token = entry.file_name().to_string_lossy().into_owned();
        let record = entry.path();
        // A run in progress with this token has its record in another directory; a file here with its name is
        // foreign.
        let of = |run: &UnderWay| run.record == record;
        if under_way().get(&token).is_none_or(of) {
            Run { record, token }.end()?;
        } else {
            tracing::warn!(
                record = %record.display(),
                "a record names a run in progress of another directory; the record is removed and the run continues"
            );
            fs::remove_file(record)?;
        }
    }
    Ok(())
}

/// Kills every process that carries the token, and the group of each that leads one, until two looks in a row find
/// none: a process may fork between being seen and being killed, and has no readable environment while it executes a
/// program.
fn end_marked(token: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut empty_looks = 0;
    while empty_looks < 2 {
        let marked = marked(token)?;
        if marked.is_empty() {
            empty_looks += 1;
            continue;
        }
        empty_looks = 0;
        if Instant::now() >= deadline {
            let pids: Vec<_> = marked.iter().map(|process| process.pid).collect();
            return Err(io::Error::other(format!(
                "processes {pids:?} cannot be ended"
            )));
        }
        for process in marked {
            if let Some(held) = Pidfd::open(&process)? {
                end_group(&process);
                held.signal(rustix::process::Signal::KILL)?;
                held.wait(deadline.saturating_duration_since(Instant::now()))?;
            }
        }
    }
    Ok(())
}

/// Kills the group that the process leads, if any: its members may have dropped the token.
fn end_group(process: &ProcessId) {
    let pid = Pid::from_raw(process.pid.cast_signed());
    if pid.as_raw() > 1 && getpgid(Some(pid)) == Ok(pid) {
        // The group may end in this moment.
        let _gone = killpg(pid, Signal::SIGKILL);
    }
}

fn marked(token: &str) -> io::Result<Vec<ProcessId>> {
    let own = std::process::id();
    let carries = |pid| proc::environment_text(pid, TOKEN).is_some_and(|found| found == token);
    let mut found = Vec::new();
    for (pid, stat) in proc::all()? {
        if pid != own && stat.lives() && carries(pid) {
            let started = stat.started;
            found.push(ProcessId { pid, started });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    use super::*;
    use crate::adapters::commands::process::{self, Script};
    use crate::testing::eventually;

    fn read_pid(path: &Path) -> u32 {
        eventually("a pid is written", || {
            fs::read_to_string(path).ok()?.trim().parse().ok()
        })
    }

    /// Runs the line until `go` is opened, and meanwhile judges the process whose pid the line wrote.
    fn judged(line: &str, rights: Rights) -> Option<Rights> {
        let dir = crate::testing::scratch();
        let (path, go) = (dir.path().to_owned(), dir.path().join("go"));
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&go)
                .status()
                .unwrap()
                .success()
        );
        let line = format!("{line}\nread _ <go");
        let script = move || {
            let own = Run::begin(&path.join("runs"), rights).unwrap();
            let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
            let script = Script {
                line: &line,
                dir: &path,
                env: &env,
                stdin: Stdio::null(),
                limit: Duration::from_secs(300),
                stop: None,
            };
            process::run(script, &own, &mut |_| {}).unwrap();
            own.end().unwrap();
        };
        let running = std::thread::spawn(script);
        let pid = read_pid(&dir.path().join("pid"));
        let found = rights_of(pid);
        fs::write(&go, "\n").unwrap();
        running.join().unwrap();
        found
    }

    #[test]
    fn processes_of_a_run_have_its_rights_and_no_others() {
        let child = "sleep 300 & echo $! >pid";
        let bare = "env -i sh -c 'echo $$ >pid; exec sleep 300' &";
        let stray = "(setsid sh -c 'echo $$ >pid; exec sleep 300' &)";
        for line in [child, bare, stray] {
            assert_eq!(judged(line, Rights::Read), Some(Rights::Read), "{line}");
            assert_eq!(judged(line, Rights::Work), Some(Rights::Work), "{line}");
        }
        assert_eq!(judged(child, Rights::All), Some(Rights::All));
        assert_eq!(judged(stray, Rights::All), None, "a token gives nothing");
    }

    /// A hook of git may leave a process that has neither its parent nor its group.
    #[test]
    fn process_left_behind_by_git_has_read_rights() {
        use crate::adapters::git::command::Git;
        let dir = crate::testing::scratch();
        work_for(dir.path());
        let pid = dir.path().join("pid");
        let alias = format!(
            "alias.bg=!(setsid sh -c 'echo $$ >{}; exec sleep 300' >/dev/null 2>&1 &)",
            pid.display()
        );
        Git::in_dir(dir.path())
            .args(["-c", &alias, "bg"])
            .run()
            .unwrap();
        let stray = read_pid(&pid);
        let found = rights_of(stray);
        nix::sys::signal::kill(Pid::from_raw(stray.cast_signed()), Signal::SIGKILL).unwrap();
        assert_eq!(found, Some(Rights::Read));
        let mut another = std::process::Command::new("sh");
        another.args(["-c", "(setsid sh -c 'echo $$ >own; exec sleep 300' &)"]);
        another.env(ERRAND, "/another/city").current_dir(dir.path());
        another.status().unwrap();
        let other = read_pid(&dir.path().join("own"));
        let found = rights_of(other);
        nix::sys::signal::kill(Pid::from_raw(other.cast_signed()), Signal::SIGKILL).unwrap();
        assert_eq!(found, None, "an errand of another city is nothing here");
    }

    fn sleeper(token: Option<&str>) -> std::process::Child {
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("300").process_group(0);
        sleep.envs(token.map(|token| (TOKEN, token)));
        sleep.spawn().unwrap()
    }

    /// A record is a file, and agents write files: neither the pid nor the token in one is trusted.
    #[test]
    fn forged_record_ends_no_stranger_and_no_run_of_another_directory() {
        let dir = crate::testing::scratch();
        let (ours, forged) = (dir.path().join("ours"), dir.path().join("forged"));
        let run = Run::begin(&ours, Rights::Read).unwrap();
        let mut stranger = sleeper(None);
        let mut running = sleeper(Some(run.token()));
        run.started(running.id()).unwrap();
        fs::create_dir(&forged).unwrap();
        for (name, process) in [("1-2-3", &stranger), (run.token(), &running)] {
            let named = proc::identify(process.id()).unwrap();
            let record = format!("{} {}", named.pid, named.started);
            fs::write(forged.join(name), record).unwrap();
        }
        end_leftovers(&forged).unwrap();
        let ended = [&mut stranger, &mut running].map(|child| child.try_wait().unwrap());
        let left = fs::read_dir(&forged).unwrap().count();
        run.end().unwrap();
        let killed = running.wait().unwrap();
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(ended, [None, None], "stranger and run live");
        assert_eq!(left, 0, "the forged records are gone");
        assert!(
            !killed.success(),
            "the run itself is ended by its own record"
        );
    }

    /// The shell of a run carries its token; its children may not, but stay in the shell's group.
    #[test]
    fn group_of_a_leader_with_the_token_is_ended_after_the_daemon_was_killed() {
        let dir = crate::testing::scratch();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "env -i sleep 300 & echo $! >pid; wait"]);
        shell.current_dir(dir.path()).env(TOKEN, "4-5-6");
        let mut shell = shell.process_group(0).spawn().unwrap();
        let child = read_pid(&dir.path().join("pid"));
        let runs = dir.path().join("runs");
        fs::create_dir(&runs).unwrap();
        fs::write(runs.join("4-5-6"), "").unwrap();
        end_leftovers(&runs).unwrap();
        shell.wait().unwrap();
        eventually("its child has ended", || {
            let ended = !proc::stat(child).unwrap().is_some_and(|stat| stat.lives());
            ended.then_some(())
        });
    }

    #[test]
    fn other_child_processes_have_read_rights_whatever_token_they_carry() {
        let dir = crate::testing::scratch();
        let owners = Run::begin(dir.path(), Rights::All).unwrap();
        let agents = Run::begin(dir.path(), Rights::Read).unwrap();
        let mut hook = std::process::Command::new("sh")
            .args([
                "-c",
                "env HD_RUN_TOKEN=$OTHER sleep 300 & echo $! >pid; wait",
            ])
            .current_dir(dir.path())
            .env(TOKEN, agents.token())
            .env("OTHER", owners.token())
            .process_group(0)
            .spawn()
            .unwrap();
        let forger = read_pid(&dir.path().join("pid"));
        let found = (rights_of(hook.id()), rights_of(forger));
        hook.kill().unwrap();
        hook.wait().unwrap();
        for run in [&owners, &agents] {
            run.end().unwrap();
        }
        assert_eq!(found, (Some(Rights::Read), Some(Rights::Read)));
        assert_eq!(rights_of(std::process::id()), None, "we are no errand");
        let gone = Some(Rights::Read);
        assert_eq!(rights_of(hook.id()), gone, "nobody knows what it was");
    }
}
