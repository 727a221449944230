//! Ends sessions by the handles of their processes, when the path of their directory leads to another city.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::files::SessionRecord;
use super::members::Members;
use super::remains;
use crate::adapters::proc::{self, Pidfd};

/// The time after which holders are killed: a holder that gets a TERM gives its agent five seconds.
const LIMIT: Duration = Duration::from_secs(15);
/// The time between two looks.
const TURN: Duration = Duration::from_millis(100);

/// Ends every session that is known, and those that are just being started: no further start begins, and the end of those
/// under way is awaited. Returns the ones that could not be ended, each with the reason.
pub(super) fn end_all(members: &Members) -> Vec<String> {
    members.close();
    let deadline = Instant::now() + LIMIT;
    // By token: the directory that the holder works in, wherever it is now.
    let mut told: HashMap<String, PathBuf> = HashMap::new();
    loop {
        let late = Instant::now() >= deadline;
        // Asked first: a start that ends after this look has no session that the list below lacks.
        let is_starting = members.is_starting();
        let mut last = None;
        for state in ours(members) {
            let Ok(Some(holder)) = Pidfd::open(&state.holder) else {
                continue;
            };
            let signal = match (late, told.contains_key(&state.token)) {
                (true, _) => Some(Signal::KILL),
                (false, false) => Some(Signal::TERM),
                (false, true) => None,
            };
            told.entry(state.token.clone())
                .or_insert_with(|| place(&state));
            if let Some(signal) = signal {
                // A holder that has just ended needs no signal.
                let _gone = holder.signal(signal);
            }
            last = Some(holder);
        }
        match last {
            // A session that is up in a moment must not be missed.
            None if late || !is_starting => break,
            None => std::thread::sleep(TURN),
            Some(holder) => {
                let _ended = holder.wait(TURN);
                if late {
                    break;
                }
            }
        }
    }
    let in_time = Instant::now() < deadline;
    let left = ours(members).into_iter().filter_map(|state| {
        let dir = told.remove(&state.token);
        if in_time && dir.is_some() {
            // Its holder has ended all of its processes.
            return None;
        }
        let dir = dir.unwrap_or_default();
        let why = match remains::end(&dir, Some(&state)) {
            Ok(ending) if !ending.some_live => return None,
            Ok(_) => "some of its processes do not end".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(format!("{} ({why})", state.id))
    });
    let mut left: Vec<String> = left.collect();
    if members.is_starting() {
        left.push("a session whose start does not end".to_owned());
    }
    left
}

/// Returns the sessions of this boot: the processes of an earlier one are gone, and their numbers are others'.
fn ours(members: &Members) -> Vec<SessionRecord> {
    let mut states = members.states();
    states.retain(|state| state.boot == proc::boot_id());
    states
}

/// Returns the directory in which a holder works. The path leads to nothing if the directory was removed.
fn place(state: &SessionRecord) -> PathBuf {
    let cwd = fs::read_link(format!("/proc/{}/cwd", state.holder.pid));
    cwd.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::thread;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::ids::{Generation, Incarnation, SessionId};

    /// Starts a process that stands for a holder, and returns its record.
    fn holder() -> (Child, SessionRecord) {
        let mut cat = Command::new("cat");
        let child = cat.stdin(Stdio::piped()).spawn().unwrap();
        let process = proc::identify(child.id()).unwrap();
        let state = SessionRecord {
            id: SessionId::new("s").unwrap(),
            token: format!("by-handle-{}", child.id()),
            generation: Generation(1),
            incarnation: Incarnation(1),
            boot: proc::boot_id().to_owned(),
            agent: process.clone(),
            holder: process,
            cgroup: None,
            pane: None,
            started_at: Timestamp::now(),
        };
        (child, state)
    }

    /// Such a session was missed, and outlived its supervisor.
    #[test]
    fn session_whose_start_had_begun_before_the_end_of_all_is_ended() {
        let members = Arc::new(Members::default());
        let under_way = members.start_begins().unwrap();
        let own = Arc::clone(&members);
        let ending = thread::spawn(move || end_all(&own));
        crate::testing::eventually("no further start begins", || {
            members.start_begins().is_none().then_some(())
        });
        let (mut child, state) = holder();
        // A wait closes it, and the process would end by itself.
        let _open = child.stdin.take();
        members.add(&state);
        drop(under_way);
        assert_eq!(child.wait().unwrap().code(), None, "a signal ended it");
        assert_eq!(ending.join().unwrap(), Vec::<String>::new());
    }
}
