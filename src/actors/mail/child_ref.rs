//! The session that an order is for. Names are reused: a raider's by its next incarnation, a session's by its next
//! generation. A decision about an earlier holder of the name is never applied to a later one (`witness-patrol.md`,
//! TOCTOU guard).

use super::child::{ChildSpec, Work};
use crate::domain::facts::SessionFacts;
use crate::domain::ids::{ChildId, Incarnation, RaiderId, SessionId};

/// A child, with the conditions that an order to it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRef {
    /// The child.
    pub id: ChildId,
    /// The id of its sessions.
    pub session: SessionId,
    /// Only this incarnation of a raider, if set.
    pub incarnation: Option<Incarnation>,
    /// Only the session with this token, if set.
    pub token: Option<String>,
    /// Only while none of its sessions is up.
    pub at_rest: bool,
}

impl ChildRef {
    /// This incarnation of a raider, with any session.
    #[must_use]
    pub fn raider(raider: &RaiderId, incarnation: Incarnation) -> Self {
        Self {
            id: ChildId::Raider(raider.clone()),
            session: raider.session_id(),
            incarnation: Some(incarnation),
            token: None,
            at_rest: false,
        }
    }

    /// Narrows the order to the observed session: it is void if another runs or is being started.
    #[must_use]
    pub fn only(self, token: String) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// Narrows the order to a child that rests, is quarantined or is unknown to the root, and has no running session.
    #[must_use]
    pub fn at_rest(self) -> Self {
        Self {
            at_rest: true,
            ..self
        }
    }

    /// The child of this spec, with any session.
    pub(in crate::actors) fn of(spec: &ChildSpec) -> Self {
        Self {
            incarnation: incarnation(spec),
            ..Self::any(spec.id.clone(), spec.session.clone())
        }
    }

    /// Any holder of the name.
    #[must_use]
    pub fn any(id: ChildId, session: SessionId) -> Self {
        Self {
            id,
            session,
            incarnation: None,
            token: None,
            at_rest: false,
        }
    }

    /// Returns true when these facts are of the session that the order is for, which runs.
    pub(in crate::actors) fn is_seen_in(&self, facts: &SessionFacts) -> bool {
        !self.at_rest
            && self
                .incarnation
                .is_none_or(|meant| facts.incarnation == meant)
            && self
                .token
                .as_ref()
                .is_none_or(|token| facts.token == *token)
    }
}

/// Returns the incarnation of a raider's child; none for an agent.
#[must_use]
pub fn incarnation(spec: &ChildSpec) -> Option<Incarnation> {
    match &spec.work {
        Work::Raider { hook, .. } => Some(hook.incarnation),
        Work::Agent(_) => None,
    }
}
