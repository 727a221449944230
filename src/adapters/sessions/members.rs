//! Decides which session a process belongs to.
//!
//! Membership is ancestry: a session's processes all descend from its holder, even if they detached, because the
//! holder adopts orphans. A process that only carries a session's token in its environment is not a member of a
//! session whose holder lives, but it does not count as unowned either. While a session is being started, its holder
//! is not known yet, but its agent may act already: until then the token counts. In doubt a process is `Unknown`,
//! with fewer rights, never more. So are processes that the city's tmux server runs outside of its sessions: an agent
//! can have it run anything.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::files::{SessionRecord, TOKEN_VARIABLE};
use super::tmux;
use crate::adapters::proc;
use crate::domain::facts::ProcessId;
use crate::domain::ids::SessionId;
use crate::ports::sessions::{Member, Membership};

/// The sessions that this daemon knows.
#[derive(Default)]
pub struct Members {
    /// The directory of this city's sessions.
    root: PathBuf,
    /// The name of the city's tmux server.
    tmux: String,
    known: Mutex<MemberTable>,
}

#[derive(Default)]
struct MemberTable {
    states: HashMap<SessionId, SessionRecord>,
    // By pid, with the start time that makes it an identity.
    processes: HashMap<u32, (u64, Member)>,
    tokens: HashMap<String, Member>,
    /// Tokens of sessions that are being started.
    starting: HashMap<String, Member>,
    /// Servers that a pane of ours was seen in.
    servers: HashSet<ProcessId>,
    /// The number of calls that start a session, from their very beginning.
    starts: usize,
    /// Set when no start may begin any more.
    is_closed: bool,
}

/// A start that is under way, until this is dropped.
pub struct StartUnderWay<'m>(&'m Members);

impl Drop for StartUnderWay<'_> {
    fn drop(&mut self) {
        self.0.known().starts -= 1;
    }
}

impl MemberTable {
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
    /// Makes an empty set for the sessions in this directory and the tmux server of this name.
    #[must_use]
    pub fn of(root: PathBuf, tmux: String) -> Self {
        Self {
            root,
            tmux,
            ..Self::default()
        }
    }

    fn known(&self) -> MutexGuard<'_, MemberTable> {
        // A panic between two inserts can at worst forget a session until the next adoption.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a start before it does anything. None once [`Members::close`] was called.
    #[must_use]
    pub fn start_begins(&self) -> Option<StartUnderWay<'_>> {
        let mut known = self.known();
        if known.is_closed {
            return None;
        }
        known.starts += 1;
        Some(StartUnderWay(self))
    }

    /// Lets no further start begin. Those under way go on.
    pub fn close(&self) {
        self.known().is_closed = true;
    }

    /// Records that a session is about to be started; [`Members::add`] or [`Members::not_started`] follows.
    pub fn starting(&self, token: &str, member: Member) {
        self.known().starting.insert(token.to_owned(), member);
    }

    /// Records that a start has failed.
    pub fn not_started(&self, token: &str) {
        self.known().starting.remove(token);
    }

    /// Adds a session, in place of an earlier one of this id.
    pub fn add(&self, state: &SessionRecord) {
        let member = Member {
            session: state.id.clone(),
            incarnation: state.incarnation,
        };
        // The holder in a pane is the child of its server.
        let server = state.pane.as_ref().and_then(|_| {
            let holder = proc::stat(state.holder.pid).ok()??;
            proc::identify(holder.parent).ok()
        });
        let mut known = self.known();
        known.servers.extend(server);
        known.remove(&state.id);
        known.starting.remove(&state.token);
        for process in [&state.agent, &state.holder] {
            let entry = (process.started, member.clone());
            known.processes.insert(process.pid, entry);
        }
        known.tokens.insert(state.token.clone(), member);
        known.states.insert(state.id.clone(), state.clone());
    }

    /// Returns the session of this id, as it was started or adopted.
    #[must_use]
    pub fn state(&self, id: &SessionId) -> Option<SessionRecord> {
        self.known().states.get(id).cloned()
    }

    /// Returns every session that was started or adopted.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<SessionId> {
        self.known().states.keys().cloned().collect()
    }

    /// Returns the records of these sessions, as they were started or adopted.
    #[must_use]
    pub fn states(&self) -> Vec<SessionRecord> {
        self.known().states.values().cloned().collect()
    }

    /// Returns true while a start is under way.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.known().starts > 0
    }

    /// Removes a session.
    pub fn remove(&self, id: &SessionId) {
        self.known().remove(id);
    }

    /// Returns the session that the process belongs to.
    #[must_use]
    pub fn membership(&self, pid: u32) -> Membership {
        let Ok(mut line) = proc::ancestry(pid) else {
            return Membership::Unknown;
        };
        // Processes below the daemon do not belong to the session that the daemon was started in.
        let own = std::process::id();
        let below = line.iter().position(|process| process.pid == own);
        line.truncate(below.unwrap_or(line.len()));
        match self.by_ancestry(&line).or_else(|| self.by_cgroup(pid)) {
            Some(member) => Membership::Of(member),
            None if self.is_run_by_tmux(&line) => Membership::Unknown,
            None => self.by_token(&line),
        }
    }

    /// Returns true if the city's tmux server started one of these processes: it is their ancestor, or they carry its
    /// socket in their environment.
    fn is_run_by_tmux(&self, line: &[ProcessId]) -> bool {
        let is_known = |process: &ProcessId| self.known().servers.contains(process);
        line.iter().any(|process| {
            let socket = proc::environment_text(process.pid, "TMUX");
            let socket = socket.as_deref().and_then(|value| value.split(',').next());
            let name = socket.and_then(|socket| Path::new(socket).file_name());
            name.is_some_and(|name| name == self.tmux.as_str())
                || is_known(process)
                || tmux::is_server(process.pid, &self.tmux)
        })
    }

    fn by_ancestry(&self, line: &[ProcessId]) -> Option<Member> {
        let known = self.known();
        line.iter().find_map(|process| {
            let (started, member) = known.processes.get(&process.pid)?;
            (*started == process.started).then(|| member.clone())
        })
    }

    fn by_cgroup(&self, pid: u32) -> Option<Member> {
        let path = proc::cgroup(pid)?;
        let mut names = path.rsplit('/');
        let token = names.find_map(|name| name.strip_prefix("horde-"))?;
        let known = self.known();
        let member = known.tokens.get(token);
        member.or_else(|| known.starting.get(token)).cloned()
    }

    /// Grants membership by token only to processes of a session that is being started, and to those that a killed
    /// holder left. Any other process with a token of this city is not unowned.
    fn by_token(&self, line: &[ProcessId]) -> Membership {
        let mut tokens = line.iter().filter_map(|process| {
            let token = proc::environment_text(process.pid, TOKEN_VARIABLE)?;
            Some((process.pid, token))
        });
        tokens
            .find_map(|(pid, token)| self.by_one_token(pid, &token))
            .unwrap_or(Membership::Unowned)
    }

    /// Judges one token; none if it is of another city.
    fn by_one_token(&self, pid: u32, token: &str) -> Option<Membership> {
        let found = {
            let known = self.known();
            if let Some(member) = known.starting.get(token) {
                return Some(Membership::Of(member.clone()));
            }
            let member = known.tokens.get(token);
            member.and_then(|member| {
                let holder = known.states.get(&member.session)?.holder.clone();
                Some((member.clone(), holder))
            })
        };
        match found {
            Some((member, holder)) => Some(match proc::lives(&holder) {
                Ok(false) => Membership::Of(member),
                Ok(true) | Err(_) => Membership::Unknown,
            }),
            None => self.is_of_this_city(pid).then_some(Membership::Unknown),
        }
    }

    fn is_of_this_city(&self, pid: u32) -> bool {
        let Some(city) = proc::environment_text(pid, "HD_CITY") else {
            return false;
        };
        let sessions = Path::new(&city).join(".horde/sessions");
        // The city may have been moved since.
        sessions == self.root || fs::canonicalize(sessions).is_ok_and(|real| real == self.root)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::domain::ids::Incarnation;
    use crate::testing::eventually;

    /// An agent's first act may come before the daemon knows its holder: the agent must not count as the operator
    /// then, and a token must be worthless if its session is not being started.
    #[test]
    fn a_process_of_a_session_that_is_being_started_belongs_to_it() {
        let mut early = Command::new("cat")
            .env(TOKEN_VARIABLE, "soon")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let members = Members::default();
        let toast = Member {
            session: SessionId::new("gt-horde-Toast").unwrap(),
            incarnation: Incarnation(1),
        };
        // A parent goes on a moment before its child's environment can be read.
        eventually("its environment can be read", || {
            proc::environment_text(early.id(), TOKEN_VARIABLE)
        });
        let of_early = || members.membership(early.id());
        assert_eq!(of_early(), Membership::Unowned);
        members.starting("soon", toast.clone());
        assert_eq!(of_early(), Membership::Of(toast));
        members.not_started("soon");
        assert_eq!(of_early(), Membership::Unowned);
        drop(early.stdin.take());
        early.wait().unwrap();
    }
}
