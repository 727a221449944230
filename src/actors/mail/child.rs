//! A child of the root: its spec, its session, and its view.

use crate::domain::city::City;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::cause::Cause;
use crate::domain::child::ChildState;
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
    /// Its restart type.
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
    /// When it started.
    pub since: Timestamp,
    /// The fingerprint of the configuration that it was started from, if recorded.
    pub fingerprint: Option<String>,
}

impl ChildSpec {
    /// Returns the harness that drives it; none for an agent that is a plain command.
    #[must_use]
    pub fn harness(&self) -> Option<&HarnessName> {
        match &self.work {
            Work::Raider { hook, .. } => Some(&hook.harness),
            Work::Agent(agent) => agent.harness.as_ref(),
        }
    }

    /// Returns the desired spec, but keeps a refused outcome of this incarnation that is still to be reported: a look
    /// does not know about that.
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

    /// Returns true when nothing that matters differs.
    pub(in crate::actors) fn is_same(&self, other: &Self) -> bool {
        let same_work = match (&self.work, &other.work) {
            (Work::Agent(own), Work::Agent(other)) => own == other,
            (Work::Raider { hook, .. }, Work::Raider { hook: other, .. }) => hook == other,
            (Work::Agent(_), Work::Raider { .. }) | (Work::Raider { .. }, Work::Agent(_)) => false,
        };
        same_work && self.restart == other.restart && self.grace == other.grace
    }

    /// Returns true when the session was started from another configuration.
    pub(in crate::actors) fn is_drifted(&self, session: Option<&SessionView>) -> bool {
        let Work::Agent(agent) = &self.work else {
            return false;
        };
        let from = session.and_then(|session| session.fingerprint.as_ref());
        from.is_some_and(|from| *from != agent.fingerprint)
    }
}

/// A child as the root sees it.
#[derive(Debug, Clone)]
pub struct ChildView {
    /// Its spec.
    pub spec: ChildSpec,
    /// Its state.
    pub state: ChildState,
    /// Its session, while up.
    pub session: Option<SessionView>,
    /// Number of deaths in the window.
    pub restarts: u32,
    /// The time from the oldest counted death to the newest.
    pub died_within: Duration,
    /// The cause of its last death, while it is quarantined; none if an older version quarantined it.
    pub died_of: Option<String>,
    /// When its quarantine ends.
    pub quarantined_until: Option<Timestamp>,
    /// When it entered this state.
    pub since: Timestamp,
    /// When its back-off ends.
    pub retry_at: Option<Timestamp>,
    /// Why its start was put off; it is tried again and again.
    pub put_off: Option<String>,
    /// Set when it ends in its own time (a draining member of a pool).
    pub draining: bool,
    /// Set when it rests because it is suspended.
    pub suspended: bool,
    /// Why its account is parked, if it rests for that.
    pub parked: Option<Cause>,
    /// Set when its session was started from an older configuration.
    pub drifted: bool,
}

impl ChildView {
    /// Returns true when its start is tried again without an order.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        self.retry_at.is_some() || self.put_off.is_some()
    }

    /// Returns why there is no session and none is being started.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        if let Some(why) = &self.put_off {
            return Some(format!("its start is put off: {why}"));
        }
        let until = self.retry_at.or(self.quarantined_until);
        let again = until.map(|at| format!(", starts again at {at:.0}"));
        let why = match self.state {
            ChildState::Starting | ChildState::Running | ChildState::Ending => return None,
            ChildState::Blocked => "an agent that it depends on is not running",
            ChildState::Backoff => "its session ended",
            ChildState::Quarantined => "it died too often",
            ChildState::Finished if matches!(self.spec.work, Work::Raider { .. }) => {
                "its session ended, and its outcome is not accepted yet"
            }
            ChildState::Finished => "its session ended successfully",
            ChildState::Stopped if self.suspended => "it is suspended",
            ChildState::Stopped if self.parked == Some(Cause::Login) => "its account needs a login",
            ChildState::Stopped if self.parked.is_some() => "its account is at a limit",
            ChildState::Stopped => "it was stopped",
        };
        Some(why.to_owned() + &again.unwrap_or_default())
    }
}

/// The way in which a session came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Was running already.
    Adopted,
    /// First of its incarnation.
    Fresh,
    /// After a session that died.
    Respawned,
    /// After a session that handed off.
    HandedOver,
}

/// Builds the spec of a hook's child.
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

/// Builds the spec of a standing agent's child.
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

/// Resolves when the records that must precede a session's start are written, or have failed.
pub type Written = tokio::sync::watch::Receiver<()>;
