//! Observes sessions through their files and the process table. Asks no holder: a stuck holder delays no other
//! session, and the daemon need not be the one that started the session.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::files::{self, RecordRead, SessionRecord, Spec};
use super::{launch, remains};
use crate::adapters::proc;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::holder_wire::Ended;
use crate::domain::ids::{Generation, Incarnation, SessionId};

/// The largest `holder.err` that is read: a failing holder writes a few lines.
const COMPLAINT_MAX: u64 = 64 * 1024;

/// An observed session.
#[derive(Debug, Clone)]
pub struct ObservedSession {
    /// The facts about it.
    pub facts: SessionFacts,
    /// Its record, if it is readable.
    pub state: Option<SessionRecord>,
}

/// Observes a session; none if there is no trace of it.
#[must_use]
pub fn session(id: &SessionId, dir: &Path) -> Option<ObservedSession> {
    match files::read::<SessionRecord>(dir, files::STATE) {
        Ok(RecordRead::Nothing) => None,
        Ok(RecordRead::Record(state)) if state.id == *id => Some(judge(dir, state)),
        Ok(RecordRead::Record(state)) => {
            let why = format!("its records are those of session {}", state.id);
            Some(unreadable(id, dir, RunState::Unknown { why }))
        }
        Ok(RecordRead::Garbage(why)) if is_older_than_boot(dir) => {
            // The record was torn when the machine went down, and no process of that time lives.
            let why = format!("the machine was restarted ({why})");
            Some(unreadable(id, dir, RunState::Lost { why }))
        }
        Ok(RecordRead::Garbage(why)) => Some(unreadable(id, dir, RunState::Unknown { why })),
        Err(error) => {
            let why = format!("{}: {error}", files::STATE);
            Some(unreadable(id, dir, RunState::Unknown { why }))
        }
    }
}

/// Judges a session by its record.
#[must_use]
pub fn judge(dir: &Path, state: SessionRecord) -> ObservedSession {
    let run = run_state(dir, &state).unwrap_or_else(|error| RunState::Unknown {
        why: error.to_string(),
    });
    let running = run == RunState::Running;
    let output = last_output(dir);
    let facts = SessionFacts {
        id: state.id.clone(),
        token: state.token.clone(),
        generation: state.generation,
        incarnation: state.incarnation,
        agent: Some(state.agent.clone()),
        holder: Some(state.holder.clone()),
        started_at: state.started_at,
        // The log spans sessions: an older time belongs to an earlier session, and this one has been silent since its
        // start.
        last_activity: output.map(|at| at.max(state.started_at)),
        last_output: output,
        attached: running && dir.join(files::ATTACHED).exists(),
        guessed: false,
        state: run,
    };
    ObservedSession {
        facts,
        state: Some(state),
    }
}

fn run_state(dir: &Path, state: &SessionRecord) -> io::Result<RunState> {
    if let Some(ended) = files::read_end(dir, &state.token)? {
        return Ok(ended_as(dir, state, ended));
    }
    if state.boot != proc::boot_id() {
        let why = "the machine was restarted".to_owned();
        return Ok(RunState::Lost { why });
    }
    if holds(state, dir)? {
        return Ok(RunState::Running);
    }
    // The holder may have recorded the end and gone between the two looks.
    Ok(match files::read_end(dir, &state.token)? {
        Some(ended) => ended_as(dir, state, ended),
        None => RunState::Lost {
            why: why_lost(dir, state),
        },
    })
}

/// Returns the run state after a recorded end: processes that survived every signal may still live.
fn ended_as(dir: &Path, state: &SessionRecord, ended: Ended) -> RunState {
    let lives = ended.undead > 0
        && state.boot == proc::boot_id()
        && remains::some_live(dir, Some(state)).unwrap_or(true);
    match lives {
        false => RunState::Exited(ended.exit),
        true => RunState::Lost {
            why: format!("{} of its processes do not end", ended.undead),
        },
    }
}

/// Returns true if the holder that a record names lives, and holds the session in this directory. A record may name
/// any process: a process that is not a holder of this session does not count, nor does an agent that is not the
/// holder's child.
///
/// # Errors
/// When `/proc` cannot be read: then nothing is known.
pub fn holds(state: &SessionRecord, dir: &Path) -> io::Result<bool> {
    let held = proc::lives(&state.holder)? && launch::is_holder_of(state.holder.pid, dir);
    Ok(held && has_agent(state)?)
}

/// Returns true if the agent that a record names is the holder's child, or gone.
fn has_agent(state: &SessionRecord) -> io::Result<bool> {
    let found = proc::stat(state.agent.pid)?;
    let agent = found.filter(|now| now.lives() && now.started == state.agent.started);
    Ok(agent.is_none_or(|agent| agent.parent == state.holder.pid))
}

/// Explains why a session is lost whose holder is gone without a record.
#[must_use]
pub fn why_lost(dir: &Path, state: &SessionRecord) -> String {
    let mut why = format!(
        "its holder (pid {}) ended without a record",
        state.holder.pid
    );
    if proc::lives(&state.agent).unwrap_or(false) {
        why.push_str(&format!(", its agent (pid {}) still runs", state.agent.pid));
    }
    let complaint = files::read_text(dir, files::COMPLAINT, COMPLAINT_MAX);
    let complaint = complaint.ok().flatten().unwrap_or_default();
    if let Some(last) = complaint.lines().rfind(|line| !line.trim().is_empty()) {
        why.push_str(&format!("; its last output: {last}"));
    }
    why
}

fn last_output(dir: &Path) -> Option<Timestamp> {
    let modified = |name| fs::symlink_metadata(dir.join(name)).and_then(|found| found.modified());
    let modified = modified(files::LOG).or_else(|_| modified(files::OLDER_LOG));
    Timestamp::try_from(modified.ok()?).ok()
}

fn is_older_than_boot(dir: &Path) -> bool {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = Duration::from_secs(up.tv_sec.unsigned_abs());
    let modified = fs::symlink_metadata(dir.join(files::STATE)).and_then(|found| found.modified());
    let booted = SystemTime::now().checked_sub(up);
    matches!((modified, booted), (Ok(modified), Some(booted)) if modified < booted)
}

fn unreadable(id: &SessionId, dir: &Path, state: RunState) -> ObservedSession {
    let spec: Option<Spec> = files::read(dir, files::SPEC)
        .ok()
        .and_then(RecordRead::record);
    let spec = spec.as_ref();
    let facts = SessionFacts {
        id: id.clone(),
        token: spec.map_or_else(String::new, |spec| spec.token.clone()),
        generation: spec.map_or(Generation(0), |spec| spec.generation),
        incarnation: spec.map_or(Incarnation(0), |spec| spec.incarnation),
        state,
        agent: None,
        holder: None,
        started_at: spec.map_or(Timestamp::UNIX_EPOCH, |spec| spec.started_at),
        last_activity: None,
        last_output: None,
        attached: false,
        guessed: false,
    };
    ObservedSession { facts, state: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SessionId {
        SessionId::new("s").unwrap()
    }

    /// A process that was started as the holder of the session in this directory.
    struct Holder(std::process::Child);

    impl Holder {
        fn of(dir: &Path) -> Self {
            fs::write(dir.join("hold"), "read line\n").unwrap();
            let mut sh = std::process::Command::new("sh");
            let sh = sh.args(["hold".as_ref(), dir.as_os_str()]).current_dir(dir);
            let holder = sh.stdin(std::process::Stdio::piped()).spawn().unwrap();
            crate::testing::eventually("it executes its program", || {
                launch::is_holder_of(holder.id(), dir).then_some(())
            });
            Self(holder)
        }

        fn id(&self) -> crate::domain::facts::ProcessId {
            proc::identify(self.0.id()).unwrap()
        }
    }

    impl Drop for Holder {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    fn running(dir: &Path, holder: &Holder) -> SessionRecord {
        let gone = crate::domain::facts::ProcessId {
            started: u64::MAX,
            ..holder.id()
        };
        let state = SessionRecord {
            id: id(),
            token: "t".to_owned(),
            generation: Generation(3),
            incarnation: Incarnation(2),
            boot: proc::boot_id().to_owned(),
            agent: gone,
            holder: holder.id(),
            cgroup: None,
            pane: None,
            started_at: Timestamp::now(),
        };
        files::write(dir, files::STATE, &state).unwrap();
        state
    }

    fn seen(dir: &Path) -> RunState {
        session(&id(), dir).unwrap().facts.state
    }

    #[test]
    fn a_living_holder_runs_and_a_reused_pid_is_lost() {
        let dir = crate::testing::scratch();
        assert!(session(&id(), dir.path()).is_none());
        let holder = Holder::of(dir.path());
        let mut state = running(dir.path(), &holder);
        assert_eq!(seen(dir.path()), RunState::Running);
        state.holder.started += 1;
        state.agent = proc::identify(std::process::id()).unwrap();
        files::write(dir.path(), files::STATE, &state).unwrap();
        fs::write(dir.path().join(files::COMPLAINT), "oh no\n").unwrap();
        let RunState::Lost { why } = seen(dir.path()) else {
            panic!("not lost");
        };
        assert!(why.contains("still runs") && why.contains("oh no"), "{why}");
    }

    /// Every process with write access to the city can forge a record.
    #[test]
    fn stranger_that_a_record_names_is_no_holder() {
        let (dir, other) = (crate::testing::scratch(), crate::testing::scratch());
        let holder = Holder::of(other.path());
        let mut state = running(dir.path(), &holder);
        assert!(
            matches!(seen(dir.path()), RunState::Lost { .. }),
            "another session's"
        );
        state.holder = proc::identify(std::process::id()).unwrap();
        files::write(dir.path(), files::STATE, &state).unwrap();
        assert!(
            matches!(seen(dir.path()), RunState::Lost { .. }),
            "no holder at all"
        );
        let ending = remains::end(dir.path(), None).unwrap();
        assert_eq!(ending.killed, 0, "and nothing is done to it");
    }

    /// A recorded end does not count while a process that survived every signal lives.
    #[test]
    fn session_whose_processes_do_not_die_is_not_over() {
        let dir = crate::testing::scratch();
        let holder = Holder::of(dir.path());
        let mut state = running(dir.path(), &holder);
        // The token is unique per test, because another test kills the processes with the usual one.
        state.token = dir.path().display().to_string();
        files::write(dir.path(), files::STATE, &state).unwrap();
        drop(holder);
        let mut undead = std::process::Command::new("cat");
        let undead = undead.env(files::TOKEN_VARIABLE, &state.token);
        let mut undead = undead.stdin(std::process::Stdio::piped()).spawn().unwrap();
        crate::testing::eventually("its environment can be read", || {
            proc::environment_text(undead.id(), files::TOKEN_VARIABLE)
        });
        let ended = Ended {
            token: state.token,
            exit: crate::domain::facts::SessionExit {
                code: Some(0),
                signal: None,
                at: Timestamp::UNIX_EPOCH,
                by_person: false,
                stopped: true,
            },
            killed: true,
            stragglers: 0,
            undead: 1,
        };
        files::write_durably(dir.path(), files::EXIT, &ended).unwrap();
        let RunState::Lost { why } = seen(dir.path()) else {
            panic!("it is said to be over");
        };
        assert!(why.contains("do not end"), "{why}");
        drop(undead.stdin.take());
        undead.wait().unwrap();
        assert!(matches!(seen(dir.path()), RunState::Exited(_)));
    }

    #[test]
    fn holder_is_known_where_its_directory_was_moved() {
        let temp = crate::testing::scratch();
        let (old, new) = (temp.path().join("old"), temp.path().join("new"));
        fs::create_dir(&old).unwrap();
        let holder = Holder::of(&old);
        running(&old, &holder);
        fs::rename(&old, &new).unwrap();
        assert_eq!(seen(&new), RunState::Running);
    }

    /// After a clock was set back, new output is older than the session.
    #[test]
    fn every_output_is_another_mark_whatever_the_clock_says() {
        let dir = crate::testing::scratch();
        let holder = Holder::of(dir.path());
        let state = running(dir.path(), &holder);
        let write = |second| {
            let log = fs::File::create(dir.path().join(files::LOG)).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            log.set_modified(at).unwrap();
            session(&id(), dir.path()).unwrap().facts
        };
        fs::write(dir.path().join(files::OLDER_LOG), "").unwrap();
        let (first, second) = (write(1000), write(1001));
        assert_ne!(first.last_output, second.last_output);
        let since = first.last_activity.unwrap();
        assert!(since >= state.started_at, "another session's");
    }

    #[test]
    fn no_session_survives_a_reboot() {
        let dir = crate::testing::scratch();
        let holder = Holder::of(dir.path());
        let mut state = running(dir.path(), &holder);
        state.boot = "another".to_owned();
        files::write(dir.path(), files::STATE, &state).unwrap();
        assert!(matches!(seen(dir.path()), RunState::Lost { .. }));
    }

    #[test]
    fn garbage_is_unknown_unless_it_is_older_than_the_machine() {
        let dir = crate::testing::scratch();
        let path = dir.path().join(files::STATE);
        fs::write(&path, "{").unwrap();
        assert!(matches!(seen(dir.path()), RunState::Unknown { .. }));
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(matches!(seen(dir.path()), RunState::Lost { .. }));
        let holder = Holder::of(dir.path());
        let mut other = running(dir.path(), &holder);
        other.id = SessionId::new("other").unwrap();
        files::write(dir.path(), files::STATE, &other).unwrap();
        assert!(matches!(seen(dir.path()), RunState::Unknown { .. }));
    }
}
