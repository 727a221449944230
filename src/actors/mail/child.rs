//! A child of the root: what it is made from, the session that it has, and how the root shows it.

use crate::domain::city::City;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::cause::Cause;
use crate::domain::city::{Agent, RestartType};
use crate::domain::facts::ProcessId;
use crate::domain::ids::{ChildId, Generation, HarnessName, SessionId};
use crate::domain::prompt::Problem;
use crate::domain::relic::Hook;
use crate::ports::sessions::SessionHandle;

/// The specification of a child: the root starts its sessions from it.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// Its identity.
    pub id: ChildId,
    /// Its session's id.
    pub session: SessionId,
    /// Its work.
    pub work: Work,
    /// When it is started again.
    pub restart: RestartType,
    /// Grace between interrupt and kill.
    pub grace: Duration,
}

/// The work of a child.
#[derive(Debug, Clone)]
pub enum Work {
    /// A raider and its hook.
    Raider {
        /// The hook.
        hook: Arc<Hook>,
        /// The reason why its outcome was refused; the next session is told of it first.
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
    /// The fingerprint of the configuration that it was started from, where that is on record.
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
    pub(in crate::actors) fn renewed(&self, wanted: &Self) -> Self {
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
    pub(in crate::actors) fn is_same(&self, other: &Self) -> bool {
        let same_work = match (&self.work, &other.work) {
            (Work::Agent(own), Work::Agent(other)) => own == other,
            (Work::Raider { hook, .. }, Work::Raider { hook: other, .. }) => hook == other,
            (Work::Agent(_), Work::Raider { .. }) | (Work::Raider { .. }, Work::Agent(_)) => false,
        };
        same_work && self.restart == other.restart && self.grace == other.grace
    }

    /// Whether the session was started from something else than this.
    pub(in crate::actors) fn is_drifted(&self, session: Option<&SessionView>) -> bool {
        let Work::Agent(agent) = &self.work else {
            return false;
        };
        let from = session.and_then(|session| session.fingerprint.as_ref());
        from.is_some_and(|from| *from != agent.fingerprint)
    }
}

/// The state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// Its session is being started or adopted.
    Starting,
    /// Its session is up.
    Running,
    /// An agent that it depends on is not up.
    Blocked,
    /// It died and waits for its restart.
    Backoff,
    /// It died too often.
    Quarantined,
    /// Its session is being ended.
    Ending,
    /// Its session ended after the agent said that it is finished.
    Finished,
    /// It was stopped or suspended, or its restart type says that it rests.
    Stopped,
}

/// A child as the root sees it.
#[derive(Debug, Clone)]
pub struct ChildView {
    /// Its spec.
    pub spec: ChildSpec,
    /// Its state.
    pub state: ChildState,
    /// Its session, while one is up.
    pub session: Option<SessionView>,
    /// Deaths that count now.
    pub restarts: u32,
    /// The time from the oldest death that counts to the newest.
    pub died_within: Duration,
    /// The cause of its last death, while it is in quarantine; none where a supervisor of an older version put it there.
    pub died_of: Option<String>,
    /// Until when it is quarantined.
    pub quarantined_until: Option<Timestamp>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// When it is tried again, in its back-off.
    pub retry_at: Option<Timestamp>,
    /// It is to come to an end in its own time.
    pub draining: bool,
    /// It rests because it is suspended.
    pub suspended: bool,
    /// It rests because its account is parked, and why that is.
    pub parked: Option<Cause>,
    /// Its session was started from an older configuration.
    pub drifted: bool,
}

impl ChildView {
    /// Why there is no session, nor one coming.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        let until = self.retry_at.or(self.quarantined_until);
        let again = until.map(|at| format!(", starts again at {at}"));
        let why = match self.state {
            ChildState::Starting | ChildState::Running | ChildState::Ending => return None,
            ChildState::Blocked => "an agent that it depends on is not up",
            ChildState::Backoff => "its session ended",
            ChildState::Quarantined => "it died too often",
            ChildState::Finished => "its session ended as if its work were done",
            ChildState::Stopped if self.suspended => "it is suspended",
            ChildState::Stopped if self.parked == Some(Cause::Login) => "its account wants a login",
            ChildState::Stopped if self.parked.is_some() => "its account is at a limit",
            ChildState::Stopped => "it was stopped",
        };
        Some(why.to_owned() + &again.unwrap_or_default())
    }
}

/// How a session came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was running.
    Adopted,
    /// The first of its incarnation.
    Fresh,
    /// After one that died.
    Respawned,
    /// After one that handed off.
    HandedOver,
}

/// The child of a hook.
#[must_use]
pub fn raider_spec(city: &City, hook: Hook, problem: Option<Problem>) -> ChildSpec {
    let id = ChildId::Raider(hook.raider.clone());
    ChildSpec {
        session: id.session_id(&city.name),
        id,
        work: Work::Raider {
            hook: Arc::new(hook),
            problem,
        },
        restart: RestartType::Permanent,
        grace: city.daemon.shutdown_timeout,
    }
}

/// The child of a standing agent.
#[must_use]
pub fn agent_spec(city: &City, agent: &Agent) -> ChildSpec {
    let id = ChildId::Agent(agent.name.clone());
    ChildSpec {
        session: id.session_id(&city.name),
        id,
        work: Work::Agent(Arc::new(agent.clone())),
        restart: agent.restart,
        grace: agent.shutdown_timeout,
    }
}

/// Ends when what is to be on record before a session starts is written, or will not be.
pub type Written = tokio::sync::watch::Receiver<()>;
