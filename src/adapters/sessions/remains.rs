//! Finds and ends the processes that outlive a killed holder, before another session takes its place.
//!
//! The process tree is lost by then (orphans are children of init). Members are therefore identified by their cgroup,
//! by the token in the environment that they were started with, by the inherited alive-lock, and as children of such
//! processes. A record may be forged: it is compared with what the kernel says of each process. Processes below the
//! holder of another session, of this city or of another one (a copy of a city has the records of its original), are
//! left alone. A process cannot exempt itself: an agent could otherwise let its own processes survive.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::files::{self, RecordRead, SessionRecord, Spec, TOKEN_VARIABLE};
use super::holder::{kill_cgroup, remove_cgroup};
use super::launch::{held_by, is_holder_of, is_of_another_city};
use crate::adapters::proc::{self, Pidfd, Stat};
use crate::domain::facts::ProcessId;

/// The time after which a process that survives KILL counts as stuck in the kernel.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// The time that one pass waits for a process to end.
const PASS: Duration = Duration::from_millis(100);

/// The marks of one session's members.
#[derive(Debug)]
struct Marks<'d> {
    /// The session's directory; its name is the session's id.
    dir: &'d Path,
    tokens: Vec<String>,
    cgroups: Vec<PathBuf>,
    /// The agent's process, known from another source than a record.
    agent: Option<ProcessId>,
}

/// The outcome of ending them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The number of killed processes.
    pub killed: usize,
    /// Set when some processes could not be killed.
    pub some_live: bool,
}

/// Ends every process that is left of the sessions that this directory records, and of the `known` one. Call this
/// only while no holder of these sessions lives and no start is in progress.
///
/// # Errors
/// When files or `/proc` cannot be read: then nothing is known.
pub fn end(dir: &Path, known: Option<&SessionRecord>) -> io::Result<Ending> {
    let marks = marks(dir, known)?;
    let mut killed = 0;
    let mut empty_passes = 0;
    let deadline = Instant::now() + UNKILLABLE;
    // A second empty pass is needed, because a fork may have escaped the first.
    while empty_passes < 2 {
        let found = members(dir, &marks)?;
        if found.is_empty() {
            empty_passes += 1;
            continue;
        }
        empty_passes = 0;
        let all = proc::all()?;
        for (cgroup, inside) in marks.contained(&all) {
            // Kills the whole cgroup at once: a fork could escape single kills.
            if !inside.iter().any(|pid| marks.is_anothers(*pid, &all)) {
                kill_cgroup(cgroup);
            }
        }
        for process in found {
            if let Some(pidfd) = Pidfd::open(&process)? {
                pidfd.signal(Signal::KILL)?;
                pidfd.wait(PASS)?;
            }
            killed += usize::from(!proc::lives(&process)?);
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    marks.cgroups.iter().for_each(|path| remove_cgroup(path));
    let some_live = empty_passes < 2 || files::is_locked(dir)?;
    Ok(Ending { killed, some_live })
}

/// Returns true if a process of these sessions lives.
///
/// # Errors
/// When files or `/proc` cannot be read: then nothing is known.
pub fn some_live(dir: &Path, known: Option<&SessionRecord>) -> io::Result<bool> {
    Ok(!members(dir, &marks(dir, known)?)?.is_empty())
}

/// Collects the marks of the sessions that may have left processes: the recorded one, one whose start was
/// interrupted, and the one that this supervisor has started or adopted. A record may be forged, therefore the
/// agent's process is only taken from `known`.
fn marks<'d>(dir: &'d Path, known: Option<&SessionRecord>) -> io::Result<Marks<'d>> {
    let mut marks = Marks {
        dir,
        tokens: Vec::new(),
        cgroups: Vec::new(),
        agent: None,
    };
    if let RecordRead::Record(state) = files::read::<SessionRecord>(dir, files::STATE)? {
        marks.add(state.token, state.cgroup);
    }
    if let RecordRead::Record(spec) = files::read::<Spec>(dir, files::SPEC)? {
        marks.add(spec.token, spec.cgroup);
    }
    if let Some(state) = known {
        marks.add(state.token.clone(), state.cgroup.clone());
        marks.agent = (state.boot == proc::boot_id()).then(|| state.agent.clone());
    }
    Ok(marks)
}

impl Marks<'_> {
    /// Adds a session. Only a cgroup with the name of that session's counts.
    fn add(&mut self, token: String, cgroup: Option<PathBuf>) {
        let name = format!("horde-{token}");
        let own = cgroup.filter(|path| path.file_name() == Some(name.as_ref()));
        self.cgroups.extend(own);
        self.tokens.push(token);
    }

    /// Returns true if a process has the token of one of these sessions in its environment.
    fn is_marked(&self, pid: u32) -> bool {
        let token = proc::environment_text(pid, TOKEN_VARIABLE);
        token.is_some_and(|token| self.tokens.contains(&token))
    }

    /// Returns the processes of each cgroup by the kernel's word: a file may be forged.
    fn contained(&self, all: &HashMap<u32, Stat>) -> HashMap<&Path, Vec<u32>> {
        let with_processes = self.cgroups.iter().map(|path| {
            let is_in = |pid: &u32| is_in(*pid, path);
            (path.as_path(), all.keys().copied().filter(is_in).collect())
        });
        with_processes.collect()
    }

    /// Returns true if a process is below the living holder of another session, and therefore belongs to that
    /// session.
    fn is_anothers(&self, pid: u32, all: &HashMap<u32, Stat>) -> bool {
        let above = |pid: &u32| all.get(pid).map(|stat| stat.parent);
        let mut line = std::iter::successors(Some(pid), above).take(all.len());
        line.any(|pid| self.is_other_holder(pid))
    }

    /// A holder's command line can be imitated. Another holder therefore also holds the lock of its session, and has
    /// no mark of our sessions.
    fn is_other_holder(&self, pid: u32) -> bool {
        let other = self.holds_beside(pid) || is_of_another_city(pid, self.dir);
        other && !self.is_marked(pid) && !self.cgroups.iter().any(|path| is_in(pid, path))
    }

    /// Returns true if a process is the holder of another session of this city.
    fn holds_beside(&self, pid: u32) -> bool {
        let held = held_by(pid);
        let Some(name) = held.as_deref().and_then(Path::file_name) else {
            return false;
        };
        let other = self.dir.with_file_name(name);
        let lock = std::fs::symlink_metadata(other.join(files::LOCK));
        other != self.dir && lock.is_ok_and(|lock| proc::holds_lock(pid, &lock))
    }
}

/// Returns true if a process is in a cgroup of this name.
fn is_in(pid: u32, cgroup: &Path) -> bool {
    let found = proc::cgroup(pid);
    found.is_some_and(|found| Path::new(&found).file_name() == cgroup.file_name())
}

fn members(dir: &Path, marks: &Marks<'_>) -> io::Result<Vec<ProcessId>> {
    let lock = match files::open_lock(dir) {
        // The whole directory is gone, and the lock with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        lock => Some(lock?.metadata()?),
    };
    let all = proc::all()?;
    let mut contained: Vec<_> = marks.contained(&all).into_values().flatten().collect();
    contained.retain(|pid| !marks.is_anothers(*pid, &all));
    let mut found = HashMap::new();
    for (&pid, stat) in &all {
        let started = stat.started;
        let is_agent = marks.agent.as_ref() == Some(&ProcessId { pid, started });
        let holds_lock = || {
            lock.as_ref()
                .is_some_and(|lock| proc::holds_lock(pid, lock))
        };
        // Leaves out this daemon, which may itself have been started inside the session.
        let other = pid != std::process::id() && stat.lives();
        let known = is_agent || contained.contains(&pid);
        let has = || marks.is_marked(pid) && !marks.is_anothers(pid, &all);
        if other && (known || has() || is_holder_of(pid, dir) || holds_lock()) {
            found.insert(pid, started);
        }
    }
    let below = proc::below(&all, found.keys().copied().collect(), |_| false);
    found.extend(below.iter().map(|below| (below.pid, below.started)));
    found.remove(&std::process::id());
    let processes = found.into_iter();
    Ok(processes
        .map(|(pid, started)| ProcessId { pid, started })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command, Stdio};

    use jiff::Timestamp;

    use super::*;
    use crate::domain::ids::{Generation, Incarnation, SessionId};
    use crate::testing::eventually;

    /// A city with the session `s`, whose holder runs this program.
    struct City {
        temp: tempfile::TempDir,
        holder: Child,
    }

    impl City {
        fn new() -> Self {
            let temp = crate::testing::scratch();
            let dir = temp.path().join("city/.horde/sessions/s");
            fs::create_dir_all(&dir).unwrap();
            // The holder and its marked agent hold the lock. The token is unique per test: any process with it is
            // killed.
            let token = temp
                .path()
                .file_name()
                .unwrap()
                .to_string_lossy()
                .into_owned();
            let text = format!("exec 9>>alive.lock; flock 9; {TOKEN_VARIABLE}={token} cat; :\n");
            fs::write(dir.join("hold"), text).unwrap();
            let mut sh = Command::new("env");
            let words = ["sh", "hold"].map(std::ffi::OsStr::new);
            let sh = sh.args(words).arg(&dir).current_dir(&dir);
            let holder = sh.stdin(Stdio::piped()).spawn().unwrap();
            let agent = eventually("its agent runs", || {
                held_by(holder.id())?;
                let below = proc::descendants(holder.id()).unwrap();
                let lock = fs::metadata(dir.join(files::LOCK)).ok()?;
                let holds = |it: &ProcessId| proc::holds_lock(it.pid, &lock) && is_cat(it.pid);
                below.into_iter().find(holds)
            });
            let state = SessionRecord {
                id: SessionId::new("s").unwrap(),
                token,
                generation: Generation(1),
                incarnation: Incarnation(1),
                boot: proc::boot_id().to_owned(),
                agent,
                holder: proc::identify(holder.id()).unwrap(),
                cgroup: None,
                pane: None,
                started_at: Timestamp::now(),
            };
            files::write(&dir, files::STATE, &state).unwrap();
            Self { temp, holder }
        }

        fn sessions(&self, city: &str) -> PathBuf {
            self.temp.path().join(city).join(".horde/sessions/s")
        }

        fn lives(&mut self) -> bool {
            self.holder.try_wait().unwrap().is_none()
        }
    }

    fn is_cat(pid: u32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "cat\n")
    }

    impl Drop for City {
        fn drop(&mut self) {
            drop(self.holder.stdin.take());
            self.holder.wait().unwrap();
        }
    }

    /// Copies a session as `cp -a` does: another lock, the same records.
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for name in [files::LOCK, files::STATE] {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }

    #[test]
    fn session_of_the_city_that_a_copy_was_made_of_is_left_alone() {
        let mut city = City::new();
        let copy_of = city.sessions("copy");
        copy(&city.sessions("city"), &copy_of);
        assert_eq!(end(&copy_of, None).unwrap().killed, 0);
        assert!(city.lives());
        // Moved away, and the copy has its place: the path is what the holder was started with.
        let root = city.temp.path().to_owned();
        fs::rename(root.join("city"), root.join("away")).unwrap();
        fs::rename(root.join("copy"), root.join("city")).unwrap();
        assert_eq!(end(&city.sessions("city"), None).unwrap().killed, 0);
        assert!(city.lives());
    }

    #[test]
    fn session_of_a_city_that_was_moved_is_still_its_own() {
        let mut city = City::new();
        let root = city.temp.path().to_owned();
        fs::rename(root.join("city"), root.join("away")).unwrap();
        assert!(end(&city.sessions("away"), None).unwrap().killed > 0);
        assert!(!city.lives());
    }
}
