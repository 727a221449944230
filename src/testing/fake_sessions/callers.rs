//! Processes that call: their session, working directory, and the session that their environment claims.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{FakeSessions, Inner};
use crate::domain::ids::{Incarnation, SessionId};
use crate::ports::sessions::{CallerPlace, Member, Membership};

#[derive(Default)]
pub(super) struct Callers {
    /// The working directories of processes; a process without entry works in its session's directory.
    places: HashMap<u32, Option<PathBuf>>,
    /// The sessions that the environments of processes name.
    claims: HashMap<u32, String>,
}

impl FakeSessions {
    /// Makes this process belong to that session.
    pub fn place(&self, pid: u32, id: &SessionId) {
        let mut inner = self.inner();
        let fake = inner.sessions.get(id);
        let member = Member {
            session: id.clone(),
            incarnation: fake.map_or(Incarnation(0), |fake| fake.spec.incarnation),
        };
        inner.processes.insert(pid, Membership::Of(member));
    }

    /// Sets the working directory of this process; none makes it unknown.
    pub fn stand(&self, pid: u32, dir: Option<PathBuf>) {
        self.inner().callers.places.insert(pid, dir);
    }

    /// Makes the environment of this process name that session.
    pub fn claim(&self, pid: u32, session: &str) {
        let claim = session.to_owned();
        self.inner().callers.claims.insert(pid, claim);
    }

    /// Makes the session of this process unknown.
    pub fn obscure(&self, pid: u32) {
        self.inner().processes.insert(pid, Membership::Unknown);
    }
}

impl Inner {
    pub(super) fn standing(&self, pid: u32, of: &Path) -> Result<CallerPlace, String> {
        let dir = match (self.callers.places.get(&pid), self.processes.get(&pid)) {
            (Some(place), _) => place.clone(),
            (None, Some(Membership::Of(member))) => {
                let fake = self.sessions.get(&member.session);
                fake.map(|fake| fake.spec.cwd.clone())
            }
            (None, _) => None,
        };
        let dir = dir.ok_or_else(|| format!("process {pid} is gone"))?;
        Ok(CallerPlace {
            inside: dir.starts_with(of),
            dir,
            claims: self.callers.claims.get(&pid).cloned(),
        })
    }
}
