//! Decides which raiders and standing agents are stuck until a person acts: those that `hd status` marks.

use super::child::ChildState;
use super::raider::RaiderState;

/// The word of the condition of a raider whose commits cannot be pushed.
pub const PUSH_BLOCKED: &str = "push_blocked";
/// The word of the condition of a raider that waits, for a time or for input.
pub const WAITING: &str = "waiting";

/// The conditions that only a person ends.
const FOR_PERSON: &[&str] = &[
    "needs_input",
    "auth",
    "unrecognised",
    "spins",
    PUSH_BLOCKED,
    "sandbox_gone",
    "sandbox_broken",
];

/// The facts that decide, besides the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attention<'a> {
    /// The word of its condition.
    pub condition: Option<&'a str>,
    /// Set when its relic is blocked, or an escalation about its sandbox is open.
    pub has_problem: bool,
    /// Set when it is in quarantine.
    pub is_quarantined: bool,
    /// Set when it is suspended.
    pub is_suspended: bool,
    /// Set when its session is started again by itself.
    pub is_retried: bool,
}

impl Attention<'_> {
    /// Returns true when a raider is stuck until a person acts.
    #[must_use]
    pub fn of_raider(self, state: RaiderState) -> bool {
        let is_stuck = match state {
            RaiderState::Stalled => !self.is_suspended && !self.is_retried,
            RaiderState::Zombie => true,
            RaiderState::Spawning
            | RaiderState::Working
            | RaiderState::Suspended
            | RaiderState::Done => false,
        };
        is_stuck || self.calls()
    }

    /// Returns true when a standing agent is stuck until a person acts.
    #[must_use]
    pub fn of_agent(self, state: Option<ChildState>) -> bool {
        let is_stuck = matches!(state, Some(ChildState::Blocked | ChildState::Quarantined));
        is_stuck || self.calls()
    }

    fn calls(self) -> bool {
        let asks = self
            .condition
            .is_some_and(|word| FOR_PERSON.contains(&word));
        asks || self.has_problem || self.is_quarantined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::condition::Condition;
    use crate::domain::sandbox_fault::SandboxFault;

    #[test]
    fn only_conditions_that_end_by_themselves_need_no_person() {
        let (text, screen) = (String::new, String::new);
        let conditions = [
            Condition::NeedsInput {
                question: text(),
                choices: Vec::new(),
            },
            Condition::RateLimited {
                text: text(),
                until: None,
            },
            Condition::Auth { text: text() },
            Condition::Unrecognised {
                text: text(),
                screen: screen(),
            },
            Condition::Spins {
                text: text(),
                screen: screen(),
            },
        ];
        let faults = [SandboxFault::Gone, SandboxFault::Broken(text())];
        let words = conditions.iter().map(Condition::word);
        let words = words.chain(faults.iter().map(SandboxFault::condition));
        for word in words.chain([PUSH_BLOCKED, WAITING]) {
            let facts = Attention {
                condition: Some(word),
                ..Attention::default()
            };
            let by_itself = ["rate_limited", WAITING].contains(&word);
            assert_eq!(facts.of_raider(RaiderState::Working), !by_itself, "{word}");
            assert_eq!(
                facts.of_agent(Some(ChildState::Running)),
                !by_itself,
                "{word}"
            );
        }
    }

    #[test]
    fn stalled_raider_needs_a_person_unless_it_is_suspended_or_retried() {
        let facts = Attention::default();
        assert!(facts.of_raider(RaiderState::Stalled));
        assert!(facts.of_raider(RaiderState::Zombie));
        assert!(!facts.of_raider(RaiderState::Working));
        let suspended = Attention {
            is_suspended: true,
            ..facts
        };
        assert!(!suspended.of_raider(RaiderState::Stalled));
        let retried = Attention {
            is_retried: true,
            ..facts
        };
        assert!(!retried.of_raider(RaiderState::Stalled));
        let quarantined = Attention {
            is_quarantined: true,
            ..retried
        };
        assert!(quarantined.of_raider(RaiderState::Stalled));
        let reported = Attention {
            has_problem: true,
            ..facts
        };
        assert!(reported.of_raider(RaiderState::Done));
    }

    #[test]
    fn agent_needs_a_person_when_it_is_blocked_or_in_quarantine() {
        let facts = Attention::default();
        for state in [ChildState::Blocked, ChildState::Quarantined] {
            assert!(facts.of_agent(Some(state)), "{state:?}");
        }
        assert!(!facts.of_agent(Some(ChildState::Backoff)));
        assert!(!facts.of_agent(None));
    }
}
