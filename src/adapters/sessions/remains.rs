//! What outlives a holder that was killed: found and ended before anything takes its place.
//!
//! The process tree is gone by then (orphans hang off init), so members are known by their cgroup,
//! by the token in the environment they were started with, by the alive-lock they inherited, and
//! by being a child of such a one. A record may be forged: what it says is compared with what the kernel says of
//! each process, and what is below the holder of another session, of this city or of another one (a copy of a
//! city has the records of its original), is left alone. What a process says of itself does not count: an agent could
//! have its own survive with that.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::files::{self, Found, Spec, State, TOKEN_VARIABLE};
use super::holder::{kill_cgroup, remove_cgroup};
use super::launch::{held_by, is_holder_of, is_of_another_city};
use crate::adapters::proc::{self, Pidfd, Stat};
use crate::domain::facts::ProcessId;

/// Processes that do not die of KILL within this are in the kernel's hands.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// One pass waits this long for a process to be gone.
const PASS: Duration = Duration::from_millis(100);

/// What marks the members of one session.
#[derive(Debug)]
struct Marks<'d> {
    /// The session's directory, which is named as it is.
    dir: &'d Path,
    tokens: Vec<String>,
    cgroups: Vec<PathBuf>,
    /// Known from elsewhere than a record.
    agent: Option<ProcessId>,
}

/// What ending them came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// How many were killed.
    pub killed: usize,
    /// Whether some could not be.
    pub some_live: bool,
}

/// Ends everything that is left of the sessions this directory knows of, and of the one that is known to be
/// of it. To be called only while no holder of theirs lives and no start is under way.
///
/// # Errors
/// Files or `/proc` cannot be read: then nothing is known.
pub fn end(dir: &Path, known: Option<&State>) -> io::Result<Ending> {
    let marks = marks(dir, known)?;
    let mut killed = 0;
    let mut empty_passes = 0;
    let deadline = Instant::now() + UNKILLABLE;
    // One empty pass may have been outrun by a fork.
    while empty_passes < 2 {
        let found = members(dir, &marks)?;
        if found.is_empty() {
            empty_passes += 1;
            continue;
        }
        empty_passes = 0;
        let all = proc::all()?;
        for (cgroup, inside) in marks.contained(&all) {
            // All of it at once: otherwise a fork may outrun this.
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

/// Whether something is left of them.
///
/// # Errors
/// Files or `/proc` cannot be read: then nothing is known.
pub fn some_live(dir: &Path, known: Option<&State>) -> io::Result<bool> {
    Ok(!members(dir, &marks(dir, known)?)?.is_empty())
}

/// The sessions that may have left something: the recorded one, one whose start broke off, and the one that
/// this supervisor has started or adopted. A record may have been changed by others since: the agent's process
/// counts only where it is known from elsewhere.
fn marks<'d>(dir: &'d Path, known: Option<&State>) -> io::Result<Marks<'d>> {
    let mut marks = Marks {
        dir,
        tokens: Vec::new(),
        cgroups: Vec::new(),
        agent: None,
    };
    if let Found::Record(state) = files::read::<State>(dir, files::STATE)? {
        marks.add(state.token, state.cgroup);
    }
    if let Found::Record(spec) = files::read::<Spec>(dir, files::SPEC)? {
        marks.add(spec.token, spec.cgroup);
    }
    if let Some(state) = known {
        marks.add(state.token.clone(), state.cgroup.clone());
        marks.agent = (state.boot == proc::boot_id()).then(|| state.agent.clone());
    }
    Ok(marks)
}

impl Marks<'_> {
    /// Adds a session. A cgroup is one of ours only by its name.
    fn add(&mut self, token: String, cgroup: Option<PathBuf>) {
        let name = format!("horde-{token}");
        let own = cgroup.filter(|path| path.file_name() == Some(name.as_ref()));
        self.cgroups.extend(own);
        self.tokens.push(token);
    }

    /// Whether a process was started by one of these sessions, as it says.
    fn is_marked(&self, pid: u32) -> bool {
        let token = proc::environment_value(pid, TOKEN_VARIABLE);
        token.is_some_and(|token| self.tokens.contains(&token))
    }

    /// The processes of the cgroups, as the kernel tells them: a file may say anything.
    fn contained(&self, all: &HashMap<u32, Stat>) -> HashMap<&Path, Vec<u32>> {
        let with_processes = self.cgroups.iter().map(|path| {
            let is_in = |pid: &u32| is_in(*pid, path);
            (path.as_path(), all.keys().copied().filter(is_in).collect())
        });
        with_processes.collect()
    }

    /// Whether a process is below the holder of another session, which lives then: all that is of it is.
    fn is_anothers(&self, pid: u32, all: &HashMap<u32, Stat>) -> bool {
        let above = |pid: &u32| all.get(pid).map(|stat| stat.parent);
        let mut line = std::iter::successors(Some(pid), above).take(all.len());
        line.any(|pid| self.is_other_holder(pid))
    }

    /// Anything can be started with the words of a holder: this one holds the lock of a session besides, and is none of
    /// the processes that a session of ours may have left.
    fn is_other_holder(&self, pid: u32) -> bool {
        let other = self.holds_beside(pid) || is_of_another_city(pid, self.dir);
        other && !self.is_marked(pid) && !self.cgroups.iter().any(|path| is_in(pid, path))
    }

    /// Whether a process is the holder of another session of this city.
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

/// Whether a process is in a cgroup of this name.
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
        // Ourselves: a daemon that was itself started inside the session.
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

    /// A city with the session `s`, whose holder has this for a program.
    struct City {
        temp: tempfile::TempDir,
        holder: Child,
    }

    impl City {
        fn new() -> Self {
            let temp = crate::testing::scratch();
            let dir = temp.path().join("city/.horde/sessions/s");
            fs::create_dir_all(&dir).unwrap();
            // It holds the lock, and so does its agent, which is marked.
            // No other session has it: what carries it is ended wherever it is.
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
            let state = State {
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

    /// As `cp -a` does it: another lock, the same records.
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
