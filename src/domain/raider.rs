//! The operating states of a raider, derived from facts at each query and never stored (`raider-lifecycle.md`, the
//! three operating states).
//!
//! ```text
//!  slot held, no session yet          spawning
//!  hook open, session up or coming    working
//!  hook open, session up and silent   stalled   (supposed to be working, and told so)
//!  hook open, no session              stalled   (supposed to be working, but stopped)
//!  hook open, no session, suspended   suspended (nothing is expected of it)
//!  hook lost, sandbox left            stalled   (supposed to be working, and at nothing)
//!  done, session up                   zombie    (finished, but failed to die)
//!  done, a person is to review it     done      (its session stays for the reviewer)
//!  done, no session                   done
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phase::WorkPhase;

/// A raider's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RaiderState {
    /// It is being charged.
    Spawning,
    /// It does its work.
    Working,
    /// It should work and does not.
    Stalled,
    /// It has no session because city, rig or raider is suspended.
    Suspended,
    /// It is finished and still there.
    Zombie,
    /// It is finished.
    Done,
}

/// The facts about a raider besides the phase of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaiderFacts {
    /// Set when it was found without progress, and has shown none since.
    pub is_silent: bool,
    /// Set when city, rig or raider is suspended.
    pub is_suspended: bool,
    /// Its session.
    pub session: SessionPresence,
}

/// The presence of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPresence {
    /// It is up.
    Up,
    /// It is being started or adopted now.
    Coming,
    /// There is none.
    Absent,
}

impl RaiderState {
    /// Returns the state of a raider whose work is in this phase.
    #[must_use]
    pub fn of(phase: WorkPhase, facts: RaiderFacts) -> Self {
        match phase {
            WorkPhase::Charging { .. } => Self::Spawning,
            // Its completion is being carried out, or its sandbox removed after it: its session may be up.
            WorkPhase::Submitting { .. } | WorkPhase::Removing { is_done: true } => Self::Done,
            // It keeps its session for the reviewer.
            WorkPhase::InReview { .. } => Self::Done,
            WorkPhase::Validating { .. } | WorkPhase::Over { .. } => match facts.session {
                SessionPresence::Up => Self::Zombie,
                SessionPresence::Coming | SessionPresence::Absent => Self::Done,
            },
            WorkPhase::Working
            | WorkPhase::Unbound
            | WorkPhase::Orphaned { .. }
            | WorkPhase::Removing { is_done: false } => Self::of_open_work(facts),
        }
    }

    fn of_open_work(facts: RaiderFacts) -> Self {
        match facts.session {
            SessionPresence::Absent if facts.is_suspended => Self::Suspended,
            SessionPresence::Absent => Self::Stalled,
            SessionPresence::Up | SessionPresence::Coming if facts.is_silent => Self::Stalled,
            SessionPresence::Up | SessionPresence::Coming => Self::Working,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    /// `raider-lifecycle.md`: "zombies completed their work; stalled raiders did not".
    #[test]
    fn state_follows_from_phase_and_session() {
        use RaiderState::{Done, Spawning, Stalled, Working, Zombie};
        use SessionPresence::{Absent, Coming, Up};
        let submitting = WorkPhase::Submitting {
            since: AT,
            is_blocked: false,
            keeps_session: false,
        };
        let in_review = WorkPhase::InReview {
            since: AT,
            asked: AT,
        };
        // The states with a session that is up, coming, and absent.
        for (phase, states) in [
            (WorkPhase::Charging { is_done: false }, [Spawning; 3]),
            (WorkPhase::Charging { is_done: true }, [Spawning; 3]),
            (
                WorkPhase::Removing { is_done: false },
                [Working, Working, Stalled],
            ),
            (WorkPhase::Removing { is_done: true }, [Done; 3]),
            (WorkPhase::Working, [Working, Working, Stalled]),
            (WorkPhase::Unbound, [Working, Working, Stalled]),
            (
                WorkPhase::Orphaned { since: None },
                [Working, Working, Stalled],
            ),
            (submitting, [Done; 3]),
            (WorkPhase::Validating { since: AT }, [Zombie, Done, Done]),
            (in_review, [Done; 3]),
            (WorkPhase::Over { since: AT }, [Zombie, Done, Done]),
        ] {
            for (session, expected) in [Up, Coming, Absent].into_iter().zip(states) {
                let of = |is_silent, is_suspended| {
                    let facts = RaiderFacts {
                        is_silent,
                        is_suspended,
                        session,
                    };
                    RaiderState::of(phase, facts)
                };
                assert_eq!(of(false, false), expected, "{phase:?}, {session:?}");
                // Only a raider that should work is stalled by silence, or suspended.
                let is_working = expected == Working;
                let silent = if is_working { Stalled } else { expected };
                assert_eq!(of(true, false), silent, "{phase:?}, {session:?}");
                let rests = expected == Stalled;
                let suspended = if rests {
                    RaiderState::Suspended
                } else {
                    expected
                };
                assert_eq!(of(false, true), suspended, "until its session has ended");
            }
        }
    }
}
