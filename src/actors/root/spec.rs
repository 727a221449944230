//! What a child is made from, and the session that it has.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::city::{Agent, RestartType};
use crate::domain::facts::ProcessId;
use crate::domain::ids::{ChildId, Generation, HarnessName, SessionId};
use crate::domain::prompt::Problem;
use crate::domain::relic::Hook;
use crate::ports::sessions::SessionHandle;

/// What a child is.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// Who.
    pub id: ChildId,
    /// Its session's id.
    pub session: SessionId,
    /// What it works on.
    pub work: Work,
    /// When it is started again.
    pub restart: RestartType,
    /// Grace between interrupt and kill.
    pub grace: Duration,
}

/// What a child works on.
#[derive(Debug, Clone)]
pub enum Work {
    /// A raider and its hook.
    Raider {
        /// The hook.
        hook: Arc<Hook>,
        /// What keeps its outcome from being accepted, told to the next session first.
        problem: Option<Problem>,
    },
    /// A standing agent.
    Agent(Arc<Agent>),
}

/// A session that is up.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// Its handle.
    pub handle: SessionHandle,
    /// The agent's process.
    pub agent: ProcessId,
    /// The holder's process.
    pub holder: Option<ProcessId>,
    /// Its generation.
    pub generation: Generation,
    /// Since when.
    pub since: Timestamp,
    /// What it was started from, where that is on record.
    pub fingerprint: Option<String>,
}

impl ChildSpec {
    /// The harness that drives it; none for an agent that is a plain command.
    #[must_use]
    pub fn harness(&self) -> Option<&HarnessName> {
        match &self.work {
            Work::Raider { hook, .. } => Some(&hook.harness),
            Work::Agent(agent) => agent.harness.as_ref(),
        }
    }

    /// The child as it is wanted now. What keeps the outcome of this incarnation from being accepted is still to
    /// be told: a look does not know it.
    #[must_use]
    pub(super) fn renewed(&self, wanted: &Self) -> Self {
        let mut next = wanted.clone();
        if let (
            Work::Raider { hook: old, problem },
            Work::Raider {
                hook,
                problem: told,
            },
        ) = (&self.work, &mut next.work)
            && old.incarnation == hook.incarnation
        {
            told.clone_from(problem);
        }
        next
    }

    /// Whether nothing of it differs.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same_work = match (&self.work, &other.work) {
            (Work::Agent(own), Work::Agent(other)) => own == other,
            (Work::Raider { hook, .. }, Work::Raider { hook: other, .. }) => hook == other,
            (Work::Agent(_), Work::Raider { .. }) | (Work::Raider { .. }, Work::Agent(_)) => false,
        };
        same_work && self.restart == other.restart && self.grace == other.grace
    }

    /// Whether the session was started from something else than this.
    pub(super) fn is_drifted(&self, session: Option<&SessionView>) -> bool {
        let Work::Agent(agent) = &self.work else {
            return false;
        };
        let from = session.and_then(|session| session.fingerprint.as_ref());
        from.is_some_and(|from| *from != agent.fingerprint)
    }
}
