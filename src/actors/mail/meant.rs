//! Whose session is to end. Names come again: of a raider with its next incarnation, of a session with
//! its next generation. What was decided about one is never done to the other (`witness-patrol.md`,
//! TOCTOU guard).

use super::child::{ChildSpec, Work};
use crate::domain::facts::SessionFacts;
use crate::domain::ids::{ChildId, Incarnation, RaiderId, SessionId};

/// A child, and what of it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// The child.
    pub id: ChildId,
    /// The id of its sessions.
    pub session: SessionId,
    /// Only this incarnation of a raider, where that is said.
    pub incarnation: Option<Incarnation>,
    /// Only the session of this token, where that is said.
    pub token: Option<String>,
    /// Only while no session of it is up.
    pub at_rest: bool,
}

impl Meant {
    /// This incarnation of a raider, whatever session it has.
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

    /// Only the session that was seen: no other runs, or is being started.
    #[must_use]
    pub fn only(self, token: String) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// Only as long as it rests or is in quarantine, or is nobody's child, and no session of it runs.
    #[must_use]
    pub fn at_rest(self) -> Self {
        Self {
            at_rest: true,
            ..self
        }
    }

    /// The child of this spec, whatever session it has.
    pub(in crate::actors) fn of(spec: &ChildSpec) -> Self {
        Self {
            incarnation: incarnation(spec),
            ..Self::any(spec.id.clone(), spec.session.clone())
        }
    }

    /// Whoever has the name.
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

    /// Whether it is this session, which runs.
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
