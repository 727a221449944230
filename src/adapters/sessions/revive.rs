//! Rebuilds missing or garbled records of running holders: the sessions are found by their processes, and the record
//! is written again. A new start in their place would make a second copy.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rustix::process::Signal;

use super::files::{self, PaneId, RecordRead, SessionRecord, Spec, TOKEN_VARIABLE};
use super::launch::{held_by, is_of_another_city};
use super::{observe, sessions_dir};
use crate::adapters::proc::{self, Pidfd};
use crate::domain::facts::{ProcessId, RunState};
use crate::domain::ids::{Generation, Incarnation, SessionId};

/// Checks every holder of a session in this directory. A session with a valid record is left alone.
///
/// # Errors
/// When `/proc` cannot be read: then nothing is known.
pub fn all(sessions: &Path) -> io::Result<()> {
    let all = proc::all()?;
    for (&pid, stat) in &all {
        let own = held_by(pid).filter(|dir| dir.parent() == Some(sessions));
        let own = own.filter(|dir| stat.lives() && !is_of_another_city(pid, dir));
        let Some(dir) = own else {
            continue;
        };
        let name = dir.file_name().and_then(|name| name.to_str());
        let Some(id) = name.and_then(|name| SessionId::new(name).ok()) else {
            continue;
        };
        if holds_lock(pid)
            && let Err(error) = sessions_dir::put_back(&dir, pid)
        {
            tracing::warn!(session = %id, pid, %error, "the directory of a running session is not in its place, and cannot be moved there");
        }
        let sight = observe::session(&id, &dir);
        let runs = sight.is_some_and(|sight| sight.facts.state == RunState::Running);
        if runs || !files::is_private_dir(&dir) {
            continue;
        }
        let holder = ProcessId {
            pid,
            started: stat.started,
        };
        match rebuild(&id, &dir, holder.clone()) {
            Ok(state) => {
                tracing::warn!(session = %id, pid, "the record of a running session was lost; it is written again from its holder");
                files::write(&dir, files::STATE, &state)?;
            }
            Err(why) => {
                tracing::error!(session = %id, pid, why, "the record of a running session was lost and could not be rebuilt; the session is ended");
                if let Some(holder) = Pidfd::open(&holder)? {
                    holder.signal(Signal::TERM)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns true if a process holds the lock of a session in its working directory: its arguments alone prove nothing.
fn holds_lock(pid: u32) -> bool {
    let lock = fs::symlink_metadata(format!("/proc/{pid}/cwd/{}", files::LOCK));
    lock.is_ok_and(|lock| proc::holds_lock(pid, &lock))
}

/// Rebuilds the record of a session from its processes. Facts that only the record had are as in a first session.
fn rebuild(id: &SessionId, dir: &Path, holder: ProcessId) -> Result<SessionRecord, String> {
    files::make_dir(dir).map_err(|error| error.to_string())?;
    let below = proc::descendants(holder.pid).map_err(|error| error.to_string())?;
    let token_of = |process: &ProcessId| proc::environment_text(process.pid, TOKEN_VARIABLE);
    let mut marked = below
        .into_iter()
        .filter_map(|process| Some((token_of(&process)?, process)));
    let (token, agent) = marked.next().ok_or("none of its processes has a token")?;
    let spec: Result<RecordRead<Spec>, _> = files::read(dir, files::SPEC);
    let spec = spec.ok().and_then(RecordRead::record);
    let spec = spec.filter(|spec| spec.token == token);
    let value = |name| proc::environment_text(agent.pid, name);
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let incarnation = || Incarnation(number(value("HD_INCARNATION")).unwrap_or_default());
    Ok(SessionRecord {
        id: id.clone(),
        generation: spec.as_ref().map_or(Generation(0), |spec| spec.generation),
        incarnation: spec
            .as_ref()
            .map_or_else(incarnation, |spec| spec.incarnation),
        boot: proc::boot_id().to_owned(),
        cgroup: spec.as_ref().and_then(|spec| spec.cgroup.clone()),
        pane: pane_of(holder.pid),
        started_at: spec.map_or_else(Timestamp::now, |spec| spec.started_at),
        token,
        agent,
        holder,
    })
}

/// Returns the pane that a holder runs in, from tmux's variables in its environment.
fn pane_of(holder: u32) -> Option<PaneId> {
    let server = proc::environment_text(holder, "TMUX")?;
    let socket = server.split(',').next()?.into();
    let id = proc::environment_text(holder, "TMUX_PANE")?;
    Some(PaneId { socket, id })
}
