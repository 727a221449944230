//! The vocabulary of "why". Every start, stop, restart, nuke and skip carries a cause, and
//! `hd why` prints them.

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $variant:ident => $text:literal),+ $(,)?) => {
        words! {
            /// Why something was done.
            Cause { $($(#[doc = $doc])+ $variant => $text,)+ }
        }

        impl Cause {
            /// Returns its meaning, in a sentence: the doc comment of the variant, as `hd why` prints it.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
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
    /// A person or a program asked for it over the control socket.
    Operator => "operator",
    /// A program in the session of a standing agent asked for it over the control socket.
    Agent => "agent",
    /// A command of an automation asked for it over the control socket.
    Automation => "automation",
    /// The configuration wants it.
    Config => "config",
    /// A relic was charged.
    Charged => "charged",
    /// The supervisor found this state at its start.
    Recovered => "recovered",
    /// The supervisor found the session running at its start.
    Adopted => "adopted",
    /// The session's process ended by itself.
    SessionDied => "session_died",
    /// The session's holder ended without a record of the session's end.
    SessionLost => "session_lost",
    /// A person who was attached to the session's terminal typed something, and the program ended within seconds.
    EndedByPerson => "ended_by_person",
    /// The session could not be started.
    StartFailed => "start_failed",
    /// It died more than `max_restarts` times within `restart_window`.
    TooManyDeaths => "too_many_deaths",
    /// Its oldest counted death left `restart_window`: the quarantine is over.
    WindowPassed => "window_passed",
    /// The agent declared its work done.
    Done => "done",
    /// The agent asked for a fresh session.
    Handoff => "handoff",
    /// Its sessions hand off repeatedly without progress.
    HandoffLoop => "handoff_loop",
    /// Done, pushed and clean: nothing is lost by removing the sandbox.
    DoneCleanPushed => "done_clean_pushed",
    /// A person approved its merge request: the review is over.
    Approved => "approved",
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
    /// An outcome file declared it.
    OutcomeFile => "outcome_file",
    /// The agent reported its sandbox as clean or not, and git shows the opposite, which counts.
    ReportMismatch => "report_mismatch",
    /// `done` took longer than `done_intent_timeout`.
    DoneTimeout => "done_timeout",
    /// Its sandbox was kept for `keep_dirty`.
    KeptLongEnough => "kept_long_enough",
    /// The relic was closed elsewhere.
    RelicClosed => "relic_closed",
    /// A sandbox without a hook was found.
    HookLost => "hook_lost",
    /// The session was up, but the agent's process was not among its processes.
    AgentDead => "agent_dead",
    /// The agent asked for help or declared itself stuck.
    Stuck => "stuck",
    /// A session that should work showed no progress.
    Stalled => "stalled",
    /// The agent's screen shows a question.
    Question => "question",
    /// The agent's screen is not recognised.
    UnknownScreen => "unknown_screen",
    /// The agent's input holds a line that a person began and left.
    LineLeft => "line_left",
    /// The account of its harness is at a limit.
    RateLimit => "rate_limit",
    /// Its harness needs a login.
    Login => "login",
    /// The session is older than `max_session`.
    SessionAge => "session_age",
    /// A stalled session made progress.
    Progress => "progress",
    /// The agent declared a wait.
    Wait => "wait",
    /// The agent deferred the work.
    Deferred => "deferred",
    /// All allowed rework attempts were used.
    ReworkExhausted => "rework_exhausted",
    /// No longer configured.
    Removed => "removed",
    /// The remote of the rig changed.
    Remote => "remote",
    /// An internal task failed.
    Internal => "internal",
    /// A caller asked for an operation that it has no right to.
    Forbidden => "forbidden",
    /// The patrol found this state.
    Patrol => "patrol",
    /// A sandbox was rebuilt.
    Repair => "repair",
    /// Its configuration asks for a fresh session.
    Drift => "drift",
    /// No terminal input or output for `idle_timeout`.
    Idle => "idle",
    /// City, rig, agent or raider is suspended.
    Suspended => "suspended",
    /// It is no longer suspended.
    Unsuspended => "unsuspended",
    /// The pool needs fewer members.
    Drained => "drained",
    /// A member of its group died.
    Group => "group",
    /// An automation's cooldown is over.
    Cooldown => "cooldown",
    /// A time of an automation's schedule has come.
    Cron => "cron",
    /// An automation's check succeeded.
    Condition => "condition",
    /// An event that an automation waits for.
    Event => "event",
    /// It ended by itself, with success.
    Completed => "completed",
    /// It ended by itself, without success.
    ExitCode => "exit_code",
    /// A signal ended it.
    Signal => "signal",
    /// It exceeded its time limit.
    Timeout => "timeout",
    /// The supervisor ended before it was finished.
    Crash => "crash",
    /// The previous run is still running.
    StillRunning => "still_running",
    /// Its queue is full.
    QueueFull => "queue_full",
    /// Too many automations brought each other about before.
    EndlessChain => "endless_chain",
    /// Its scheduled time passed while the supervisor was not running.
    Missed => "missed",
    /// It was kept for as long as the configuration says.
    Expired => "expired",
    /// No person acknowledged it.
    Unanswered => "unanswered",
    /// Its subject no longer exists or is resolved.
    Vanished => "vanished",
}

impl Cause {
    /// Returns true when a caller of the control socket asked for it, and gets the result.
    #[must_use]
    pub fn is_asked(self) -> bool {
        matches!(self, Self::Operator | Self::Agent | Self::Automation)
    }
}
