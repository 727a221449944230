//! Which session a process belongs to.
//!
//! Membership is ancestry: a session's processes all descend from its holder, whatever they did to
//! detach, because the holder adopts orphans. A process that only carries a session's token in its
//! environment is not a member of a session whose holder lives. While a session is being started its
//! holder is not known yet, but its agent may act already: until then the token counts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::files::{State, TOKEN_VARIABLE};
use crate::adapters::proc;
use crate::domain::facts::ProcessId;
use crate::domain::ids::SessionId;

/// Longer chains of parents than this are not followed.
const DEEPEST: usize = 256;

/// The sessions this daemon knows of.
#[derive(Default)]
pub struct Members(Mutex<Known>);

#[derive(Default)]
struct Known {
    states: HashMap<SessionId, State>,
    // By pid, with the start time that makes it an identity.
    processes: HashMap<u32, (u64, SessionId)>,
    tokens: HashMap<String, SessionId>,
    /// Tokens of sessions that are being started.
    starting: HashMap<String, SessionId>,
}

impl Known {
    fn remove(&mut self, id: &SessionId) {
        if let Some(state) = self.states.remove(id) {
            for process in [&state.agent, &state.holder] {
                let ours = self.processes.get(&process.pid);
                if ours.is_some_and(|(started, _)| *started == process.started) {
                    self.processes.remove(&process.pid);
                }
            }
            self.tokens.remove(&state.token);
        }
    }
}

impl Members {
    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic between two inserts can at worst forget a session until the next adoption.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a session is about to be started; [`Members::add`] or [`Members::not_started`]
    /// follows.
    pub fn starting(&self, token: &str, id: &SessionId) {
        self.known().starting.insert(token.to_owned(), id.clone());
    }

    /// The start came to nothing.
    pub fn not_started(&self, token: &str) {
        self.known().starting.remove(token);
    }

    /// Adds a session, in place of an earlier one of this id.
    pub fn add(&self, state: &State) {
        let mut known = self.known();
        known.remove(&state.id);
        known.starting.remove(&state.token);
        for process in [&state.agent, &state.holder] {
            let entry = (process.started, state.id.clone());
            known.processes.insert(process.pid, entry);
        }
        known.tokens.insert(state.token.clone(), state.id.clone());
        known.states.insert(state.id.clone(), state.clone());
    }

    /// Removes a session.
    pub fn remove(&self, id: &SessionId) {
        self.known().remove(id);
    }

    /// Which session the process belongs to.
    #[must_use]
    pub fn session_of(&self, pid: u32) -> Option<SessionId> {
        self.by_ancestry(pid)
            .or_else(|| self.by_cgroup(pid))
            .or_else(|| self.by_token(pid))
    }

    fn by_ancestry(&self, mut pid: u32) -> Option<SessionId> {
        for _ in 0..DEEPEST {
            let stat = proc::stat(pid).ok().flatten()?;
            let known = self.known();
            match known.processes.get(&pid) {
                Some((started, id)) if *started == stat.started => return Some(id.clone()),
                _ if stat.parent <= 1 => return None,
                _ => pid = stat.parent,
            }
        }
        None
    }

    fn by_cgroup(&self, pid: u32) -> Option<SessionId> {
        let path = proc::cgroup(pid)?;
        let mut names = path.rsplit('/');
        let token = names.find_map(|name| name.strip_prefix("horde-"))?;
        let known = self.known();
        let id = known
            .tokens
            .get(token)
            .or_else(|| known.starting.get(token));
        id.cloned()
    }

    /// Only for sessions that are being started, and for what a killed holder left behind.
    fn by_token(&self, pid: u32) -> Option<SessionId> {
        let token = proc::environment_value(pid, TOKEN_VARIABLE)?;
        let (id, holder): (SessionId, ProcessId) = {
            let known = self.known();
            if let Some(id) = known.starting.get(&token) {
                return Some(id.clone());
            }
            let id = known.tokens.get(&token)?;
            (id.clone(), known.states.get(id)?.holder.clone())
        };
        matches!(proc::lives(&holder), Ok(false)).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::testing::eventually;

    /// An agent's first act may come before the daemon knows its holder: it must not pass for the
    /// operator then, and a token of no session that is being started must stay worthless.
    #[test]
    fn a_process_of_a_session_that_is_being_started_belongs_to_it() {
        let mut early = Command::new("cat")
            .env(TOKEN_VARIABLE, "soon")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let members = Members::default();
        let id = SessionId::new("gt-horde-Toast").unwrap();
        // A parent goes on a moment before its child's environment can be read.
        eventually("its environment can be read", || {
            proc::environment_value(early.id(), TOKEN_VARIABLE)
        });
        assert_eq!(members.session_of(early.id()), None);
        members.starting("soon", &id);
        assert_eq!(members.session_of(early.id()), Some(id));
        members.not_started("soon");
        assert_eq!(members.session_of(early.id()), None);
        drop(early.stdin.take());
        early.wait().unwrap();
    }
}
