//! What must run, against what runs: the decision that start-up and every patrol make alike.
//!
//! ```text
//!   wanted   session    decision
//!   ──────   ───────    ─────────────────────────────────────────
//!   yes      running    Adopt     (nothing, when the child is up)
//!   yes      not        Start     (nothing, while it backs off)
//!   no       running    StopOrphan
//!   busy     any        nothing: a saga owns it
//!   any      unknown    nothing: never acted on
//! ```
//!
//! Idempotent: applied to its own result it decides nothing (`health-patrol.md`, invariants).

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{RunState, SessionFacts};
use super::ids::{ChildId, Incarnation, SessionId};

/// A child that should have a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which child.
    pub id: ChildId,
    /// Its session's id.
    pub session: SessionId,
    /// The incarnation that should run (0 for agents).
    pub incarnation: Incarnation,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Every session that the provider knows.
    pub sessions: Vec<SessionFacts>,
    /// Who should run.
    pub wanted: Vec<Wanted>,
    /// Sessions that an open saga takes care of.
    pub busy: BTreeSet<SessionId>,
    /// Children whose actor lives, backs off, is quarantined or was stopped by a person.
    pub tended: BTreeSet<ChildId>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Take over the running session.
    Adopt(ChildId),
    /// Start a session.
    Start(ChildId),
    /// End a session that nothing asks for. Carries the token, so that a successor is safe.
    StopOrphan {
        /// The session.
        session: SessionId,
        /// Which one of that name.
        token: String,
    },
}

/// Decides, in a stable order.
#[must_use]
pub fn plan(seen: &Seen) -> Vec<Decision> {
    let facts: BTreeMap<_, _> = seen
        .sessions
        .iter()
        .map(|facts| (&facts.id, facts))
        .collect();
    let mut decisions = Vec::new();
    for wanted in &seen.wanted {
        if seen.tended.contains(&wanted.id) || seen.busy.contains(&wanted.session) {
            continue;
        }
        match facts
            .get(&wanted.session)
            .map(|facts| (&facts.state, facts.incarnation))
        {
            Some((RunState::Unknown { .. }, _)) => {}
            Some((RunState::Running, incarnation)) if incarnation == wanted.incarnation => {
                decisions.push(Decision::Adopt(wanted.id.clone()));
            }
            // A session of another incarnation is ended by the start itself.
            Some(_) | None => decisions.push(Decision::Start(wanted.id.clone())),
        }
    }
    let wanted: BTreeSet<_> = seen.wanted.iter().map(|wanted| &wanted.session).collect();
    for (id, facts) in facts {
        let runs = facts.state == RunState::Running;
        if runs && !wanted.contains(id) && !seen.busy.contains(id) {
            let token = facts.token.clone();
            decisions.push(Decision::StopOrphan {
                session: id.clone(),
                token,
            });
        }
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{AgentName, Generation};

    fn agent(name: &str) -> ChildId {
        ChildId::Agent(AgentName::new(name).unwrap())
    }

    fn wanted(name: &str) -> Wanted {
        let id = agent(name);
        let session = id.session_id("city");
        Wanted {
            id,
            session,
            incarnation: Incarnation(0),
        }
    }

    fn session(name: &str, state: RunState) -> SessionFacts {
        SessionFacts {
            id: agent(name).session_id("city"),
            token: format!("token-{name}"),
            generation: Generation(1),
            incarnation: Incarnation(0),
            state,
            agent: None,
            holder: None,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            last_activity: None,
            attached: false,
        }
    }

    fn lost() -> RunState {
        RunState::Lost { why: "x".into() }
    }

    /// `health-patrol.md`, reconciliation state machine.
    #[test]
    fn each_row_of_the_table_is_decided() {
        let seen = Seen {
            sessions: vec![
                session("adopted", RunState::Running),
                session("lost", lost()),
                session("unknown", RunState::Unknown { why: "x".into() }),
                session("orphan", RunState::Running),
                session("ended", lost()),
                session("charging", RunState::Running),
            ],
            wanted: ["absent", "adopted", "lost", "tended", "unknown"]
                .map(wanted)
                .to_vec(),
            busy: [agent("charging").session_id("city")].into(),
            tended: [agent("tended")].into(),
        };
        let orphan = agent("orphan").session_id("city");
        assert_eq!(
            plan(&seen),
            [
                Decision::Start(agent("absent")),
                Decision::Adopt(agent("adopted")),
                Decision::Start(agent("lost")),
                Decision::StopOrphan {
                    session: orphan,
                    token: "token-orphan".into()
                },
            ]
        );
    }

    /// `health-patrol.md`, invariant: reconciliation is idempotent.
    #[test]
    fn a_second_look_at_a_converged_city_decides_nothing() {
        let seen = Seen {
            sessions: vec![session("a", RunState::Running)],
            wanted: vec![wanted("a")],
            busy: BTreeSet::new(),
            tended: [agent("a")].into(),
        };
        assert_eq!(plan(&seen), []);
    }

    #[test]
    fn a_session_of_an_earlier_incarnation_is_replaced() {
        let mut now = wanted("a");
        now.incarnation = Incarnation(2);
        let seen = Seen {
            sessions: vec![session("a", RunState::Running)],
            wanted: vec![now],
            ..Seen::default()
        };
        assert_eq!(plan(&seen), [Decision::Start(agent("a"))]);
    }
}
