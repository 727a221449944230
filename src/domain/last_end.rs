//! The end of the session before the present one. The first prompt of a session and `hd rally` in it say the same.

use schemars::JsonSchema;

use super::cause::Cause;

words! {
    /// The end of the last session of a raider or a standing agent.
    #[derive(JsonSchema)]
    LastEnd {
        /// It handed off.
        Handoff => "handoff",
        /// It died: its program or its holder ended by itself, also while no supervisor ran.
        Crash => "crash",
        /// The supervisor ended it, because it made no progress.
        Stalled => "stalled",
        /// An attached person ended it.
        EndedByPerson => "ended_by_person",
        /// It was ended while its account was at a limit.
        RateLimit => "rate_limit",
        /// It was ended while its account needed a login.
        Login => "login",
        /// It ended after it had declared an outcome that was refused.
        OutcomeRefused => "outcome_refused",
        /// It was ended for another reason: an order of a person, a changed configuration, a stop of the supervisor.
        Other => "other",
        /// No fact tells it: the facts of the session cannot be read, or an earlier version started it.
        Unknown => "unknown",
    }
}

/// The facts at the start of a session.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The cause of the start.
    pub cause: Cause,
    /// Set when the last session that was up died.
    pub crashed: bool,
    /// Set when a note of a handoff waits for this session.
    pub has_note: bool,
    /// Set when the session is started to mend a refused outcome.
    pub is_refused: bool,
    /// Set when there is no session before.
    pub is_first: bool,
}

impl LastEnd {
    /// Returns how the last session ended; none for a first session.
    ///
    /// A death comes before a note that waits: a session that left the note died before its handoff, or a later one died
    /// before it was given the note. The cause alone does not tell a handoff: the start after it may have failed, or had
    /// to wait for an account.
    #[must_use]
    pub fn of(start: Start) -> Option<Self> {
        if start.crashed {
            return Some(Self::Crash);
        }
        if start.is_refused {
            return Some(Self::OutcomeRefused);
        }
        let end = match start.cause {
            Cause::Stalled => Self::Stalled,
            Cause::EndedByPerson => Self::EndedByPerson,
            _ if start.has_note => Self::Handoff,
            _ if start.is_first => return None,
            Cause::Handoff => Self::Handoff,
            Cause::RateLimit => Self::RateLimit,
            Cause::Login => Self::Login,
            _ => Self::Other,
        };
        Some(end)
    }

    /// Returns what it means, for people.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Handoff => "the last session handed off",
            Self::Crash => "the last session died before its work was finished",
            Self::Stalled => {
                "the supervisor ended the last session, because it made no progress for a long time"
            }
            Self::EndedByPerson => "a person ended the last session",
            Self::RateLimit => "the last session was ended while its account was at a limit",
            Self::Login => "the last session was ended while its account needed a login",
            Self::OutcomeRefused => "the last session ended with an outcome that was refused",
            Self::Other => {
                "the last session was ended by an order, a changed configuration or a stop of the supervisor"
            }
            Self::Unknown => "the supervisor does not know how the last session ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Start = Start {
        cause: Cause::Handoff,
        crashed: false,
        has_note: false,
        is_refused: false,
        is_first: false,
    };

    #[test]
    fn death_comes_before_a_note_that_waits() {
        let start = Start {
            has_note: true,
            ..START
        };
        assert_eq!(LastEnd::of(start), Some(LastEnd::Handoff));
        let crashed = true;
        assert_eq!(
            LastEnd::of(Start { crashed, ..start }),
            Some(LastEnd::Crash)
        );
    }

    #[test]
    fn note_that_waits_shows_a_handoff_whatever_the_start_had_to_wait_for() {
        for cause in [
            Cause::StartFailed,
            Cause::RateLimit,
            Cause::Recovered,
            Cause::Operator,
        ] {
            let start = Start { cause, ..START };
            let noted = Start {
                has_note: true,
                ..start
            };
            assert_eq!(LastEnd::of(noted), Some(LastEnd::Handoff), "{cause}");
            assert_ne!(LastEnd::of(start), Some(LastEnd::Handoff), "{cause}");
        }
        for (cause, end) in [
            (Cause::Stalled, LastEnd::Stalled),
            (Cause::EndedByPerson, LastEnd::EndedByPerson),
        ] {
            let has_note = true;
            let start = Start {
                cause,
                has_note,
                ..START
            };
            assert_eq!(LastEnd::of(start), Some(end), "{cause}");
        }
    }

    #[test]
    fn first_session_has_none_before_it() {
        let start = Start {
            cause: Cause::Charged,
            is_first: true,
            ..START
        };
        assert_eq!(LastEnd::of(start), None);
    }
}
