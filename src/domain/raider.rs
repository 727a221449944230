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
//!  done, no session                   done
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// The facts that the state is derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaiderFacts {
    /// Set while its charge is not complete.
    pub charging: bool,
    /// Set when it declared its work done.
    pub done: bool,
    /// Set while its completion is being carried out: its session may be up.
    pub finishing: bool,
    /// Set when it was found without progress, and has shown none since.
    pub silent: bool,
    /// Set when city, rig or raider is suspended.
    pub suspended: bool,
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

/// Derives the state.
#[must_use]
pub fn derive(facts: RaiderFacts) -> RaiderState {
    let rests = facts.suspended && facts.session == SessionPresence::Absent;
    if facts.silent && !facts.charging && !facts.done && !rests {
        return RaiderState::Stalled;
    }
    match (facts.charging, facts.done, facts.session) {
        (true, _, _) => RaiderState::Spawning,
        (false, true, SessionPresence::Up) if !facts.finishing => RaiderState::Zombie,
        (false, true, _) => RaiderState::Done,
        (false, false, SessionPresence::Up | SessionPresence::Coming) => RaiderState::Working,
        (false, false, SessionPresence::Absent) if facts.suspended => RaiderState::Suspended,
        (false, false, SessionPresence::Absent) => RaiderState::Stalled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `raider-lifecycle.md`: "zombies completed their work; stalled raiders did not".
    #[test]
    fn states_are_derived_from_facts() {
        use SessionPresence::{Absent, Coming, Up};
        let of = |charging, done, finishing, session| {
            derive(RaiderFacts {
                charging,
                done,
                finishing,
                silent: false,
                suspended: false,
                session,
            })
        };
        assert_eq!(of(true, false, false, Absent), RaiderState::Spawning);
        assert_eq!(of(false, false, false, Up), RaiderState::Working);
        assert_eq!(of(false, false, false, Coming), RaiderState::Working);
        assert_eq!(of(false, false, false, Absent), RaiderState::Stalled);
        assert_eq!(of(false, true, false, Up), RaiderState::Zombie);
        assert_eq!(of(false, true, true, Up), RaiderState::Done);
        assert_eq!(of(false, true, false, Absent), RaiderState::Done);
        let silent = |charging, done| {
            derive(RaiderFacts {
                charging,
                done,
                finishing: done,
                silent: true,
                suspended: false,
                session: Up,
            })
        };
        assert_eq!(silent(false, false), RaiderState::Stalled);
        assert_eq!(silent(false, true), RaiderState::Done);
        assert_eq!(silent(true, false), RaiderState::Spawning);
        let suspended = |session| {
            derive(RaiderFacts {
                charging: false,
                done: false,
                finishing: false,
                silent: false,
                suspended: true,
                session,
            })
        };
        assert_eq!(suspended(Absent), RaiderState::Suspended);
        assert_eq!(suspended(Up), RaiderState::Working, "until it has ended");
    }
}
