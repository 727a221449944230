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

/// Ends every session that is known, and those that are just being started. Returns the ones that could not be ended,
/// each with the reason.
pub(super) fn end_all(members: &Members) -> Vec<String> {
    let deadline = Instant::now() + LIMIT;
    // By token: the directory that the holder works in, wherever it is now.
    let mut told: HashMap<String, PathBuf> = HashMap::new();
    loop {
        let late = Instant::now() >= deadline;
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
            None if late || !members.is_starting() => break,
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
    left.collect()
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
