//! The vocabulary of "why". Every start, stop, restart, nuke and skip carries a cause, and
//! `hd why` prints them.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $variant:ident => $text:literal),+ $(,)?) => {
        /// Why something was done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Cause { $($(#[doc = $doc])+ $variant),+ }

        impl Cause {
            /// Returns the name in events and logs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns its meaning, in a sentence: the doc comment of the variant, as `hd why` prints it.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }

            /// Returns the cause with this name; none for a cause of another version.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        mod tests {
            use super::Cause;

            #[test]
            fn the_name_in_events_is_the_serde_name() {
                for cause in [$(Cause::$variant),+] {
                    let json = serde_json::to_value(cause).unwrap();
                    assert_eq!(json, cause.as_str());
                    assert_eq!(Cause::named(cause.as_str()), Some(cause));
                    assert!(cause.meaning().ends_with('.'), "{cause}: {}", cause.meaning());
                }
            }
        }
    };
}

causes! {
    /// A person or program asked over the control socket.
    Operator => "operator",
    /// A program in the session of a standing agent asked over the control socket.
    Agent => "agent",
    /// A command of an automation asked over the control socket.
    Automation => "automation",
    /// The configuration wants it.
    Config => "config",
    /// A relic was charged.
    Charged => "charged",
    /// The supervisor started and found it so.
    Recovered => "recovered",
    /// The supervisor started and the session was running.
    Adopted => "adopted",
    /// The session's process ended by itself.
    SessionDied => "session_died",
    /// The session's holder is gone without an exit on record.
    SessionLost => "session_lost",
    /// A person who was attached to the session's terminal typed something, and the program ended within seconds.
    EndedByPerson => "ended_by_person",
    /// The session could not be started.
    StartFailed => "start_failed",
    /// More deaths than `max_restarts` within `restart_window`.
    TooManyDeaths => "too_many_deaths",
    /// The quarantine's last counted death left the window.
    WindowPassed => "window_passed",
    /// The agent declared its work done.
    Done => "done",
    /// The agent asked for a fresh session.
    Handoff => "handoff",
    /// Its sessions hand off again and again, and nothing changes in between.
    HandoffLoop => "handoff_loop",
    /// Done, pushed and clean: nothing is lost by removing the sandbox.
    DoneCleanPushed => "done_clean_pushed",
    /// Its merge request has waited for a person for `review_hold`.
    ReviewHold => "review_hold",
    /// Its commit is on the target.
    Merged => "merged",
    /// Another attempt at the same relic landed.
    Superseded => "superseded",
    /// The forge could not land it.
    MergeFailed => "merge_failed",
    /// The work was written to salvage refs first.
    Salvaged => "salvaged",
    /// The safety protocol found work that would be lost.
    WorkAtRisk => "work_at_risk",
    /// A charge could not be completed and was unwound.
    ChargeFailed => "charge_failed",
    /// The supervisor is stopping.
    Shutdown => "shutdown",
    /// An interrupted operation was resumed.
    Resumed => "resumed",
    /// An outcome file said so.
    OutcomeFile => "outcome_file",
    /// A cleanup report disagreed with what git says.
    ReportMismatch => "report_mismatch",
    /// `done` took longer than `done_intent_timeout`.
    DoneTimeout => "done_timeout",
    /// Its sandbox has lingered for `keep_dirty`.
    KeptLongEnough => "kept_long_enough",
    /// The relic was closed elsewhere.
    RelicClosed => "relic_closed",
    /// A sandbox was found that no hook is tied to.
    HookLost => "hook_lost",
    /// The session was up, and the agent not among its processes.
    AgentDead => "agent_dead",
    /// The agent asked for help or declared itself stuck.
    Stuck => "stuck",
    /// A session that should work showed no progress.
    Stalled => "stalled",
    /// The agent asks something on its screen.
    Question => "question",
    /// Nothing is known of what its screen shows.
    UnknownScreen => "unknown_screen",
    /// A person has begun a line in its input, and left it.
    LineLeft => "line_left",
    /// The account of its harness is at a limit.
    RateLimit => "rate_limit",
    /// Its harness wants a login.
    Login => "login",
    /// A stalled session goes on.
    Progress => "progress",
    /// The agent declared a wait.
    Wait => "wait",
    /// The agent put the work off.
    Deferred => "deferred",
    /// Rework was tried as often as allowed.
    ReworkExhausted => "rework_exhausted",
    /// No longer configured.
    Removed => "removed",
    /// An internal task failed.
    Internal => "internal",
    /// A caller asked for what it has no right to.
    Forbidden => "forbidden",
    /// The patrol found it so.
    Patrol => "patrol",
    /// A sandbox was rebuilt.
    Repair => "repair",
    /// Its configuration asks for a fresh session.
    Drift => "drift",
    /// No terminal input or output for `idle_timeout`.
    Idle => "idle",
    /// City, rig, agent or raider is suspended.
    Suspended => "suspended",
    /// It is not suspended any more.
    Unsuspended => "unsuspended",
    /// The pool needs fewer.
    Drained => "drained",
    /// A member of its group died.
    Group => "group",
    /// An automation's cooldown is over.
    Cooldown => "cooldown",
    /// A slot of an automation's schedule has come.
    Cron => "cron",
    /// An automation's check says so.
    Condition => "condition",
    /// An event that an automation waits for.
    Event => "event",
    /// It ended by itself, with success.
    Completed => "completed",
    /// It ended by itself, without success.
    ExitCode => "exit_code",
    /// A signal ended it.
    Signal => "signal",
    /// It took longer than it may.
    Timeout => "timeout",
    /// The supervisor ended in the middle of it.
    Crash => "crash",
    /// The run before is not over.
    StillRunning => "still_running",
    /// More waits than is kept.
    QueueFull => "queue_full",
    /// Its time came while the supervisor was away.
    Missed => "missed",
    /// It was kept for as long as the configuration says.
    Expired => "expired",
    /// No person acknowledged it.
    Unanswered => "unanswered",
    /// The matter that it was about is over.
    Vanished => "vanished",
}

impl Cause {
    /// Returns true when a caller of the control socket asked for it, and gets the result.
    #[must_use]
    pub fn is_asked(self) -> bool {
        matches!(self, Self::Operator | Self::Agent | Self::Automation)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
