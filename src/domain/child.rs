//! The state machine of a child: the one answer to what a raider or a standing agent does next. Phases own their data;
//! the root (`actors/root`) feeds events and carries out the actions. Groups and parked accounts are decided there.
//!
//! ```text
//!                          ┌─────────── Replacing ◄── Cycle, AwaitTurn ──┐
//!                          ▼  Exited                                     │
//!  new ── Wanted ──► Starting ── Up ──► Running ─────────────────────────┤
//!            │         ▲    └── Exited ──┬──┘                            │ End, Remove, Rest
//!            │         │ Due, Turn,      ▼                               ▼
//!         Blocked      └── Woken ◄── Backoff, Quarantined            Leaving ── Exited, Swept ──► Gone, Resting
//!          Ready ──► Starting            Finished, Resting
//! ```
//!
//! A wait, a start and the end of a session have the token of the step that began them: a late answer to an earlier one
//! has another token, and changes nothing.

mod ended;
mod exit;
mod group;
mod record;
mod step;

use std::time::Duration;

use jiff::Timestamp;

pub use self::exit::{ChildExit, EndRefused, is_crash};
use super::cause::Cause;
use super::city::RestartType;
use super::event::EventType;
use super::facts::SessionExit;
use super::handoff::{CycleBrake, HandoffBrake, Pace, Progress};
use super::ids::ChildId;
use super::quarantine_report::QuarantineReport;
use super::restart::{DeathWindow, Mono, RestartPolicy};

/// Delay before a start is retried that could not see its session, or could not write.
pub const PUT_OFF: Duration = Duration::from_secs(5);
/// A session that ends of its account's trouble within this time has done no work.
pub const SOON: Duration = Duration::from_secs(10 * 60);
/// Number of such ends in a row after which an operator is called. The program may report a limit that does not exist.
pub const MOST_PARKS: u32 = 3;

/// The mark of one start, timer or sweep of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// The phase of a child, with what is valid in it only.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildPhase {
    /// It waits for the agents that it depends on.
    Blocked,
    /// Its session is being started or adopted.
    Starting {
        /// The mark of the start.
        token: Token,
    },
    /// Its session is up.
    Running {
        /// When it came up.
        up_at: Mono,
    },
    /// Its session is being ended, and another follows.
    Replacing {
        /// The successor.
        by: Successor,
        /// When the session came up; none while it is being started.
        up_at: Option<Mono>,
        /// The mark of a start that is not over yet.
        start: Option<Token>,
    },
    /// Its session is being ended, and none follows.
    Leaving {
        /// The future.
        to: Leave,
        /// The mark of the sweep, should it have no actor.
        sweep: Token,
    },
    /// It waits for its next start.
    Backoff {
        /// When the wait is to end, if that is known.
        until: Option<Timestamp>,
        /// The end of the wait.
        due: Due,
    },
    /// It died too often within the window.
    Quarantined {
        /// The end of the quarantine.
        due: Due,
    },
    /// Its session ended after the agent reported that it is finished.
    Finished,
    /// It has no session: by an order, by its restart type, or because it is new.
    Resting(Rest),
    /// It is forgotten: its record is dropped.
    Gone,
}

/// The successor of a session that is being replaced.
#[derive(Debug, Clone, PartialEq)]
pub enum Successor {
    /// A fresh session at once.
    Fresh {
        /// The reason.
        cause: Cause,
        /// The tail of its terminal, if its end is a death.
        tail: Option<String>,
        /// The progress of its work, if it hands off.
        progress: Progress,
    },
    /// A session in its turn: its group restarts.
    Group,
}

/// The future of a child whose session is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The child rests.
    Rest(Cause),
    /// The child is forgotten.
    Gone(Cause),
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Its own timer.
    Timer(Token),
    /// Its turn in the restart of its group.
    Group,
}

/// The reason of a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// By an order: of an operator, of a suspension, or because its account is parked.
    Order(Cause),
    /// By its restart type, or because nothing was decided about it yet.
    Over,
}

/// The state of a child, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// Its session is being started or adopted.
    Starting,
    /// Its session is up.
    Running,
    /// An agent that it depends on is not up.
    Blocked,
    /// It died, and waits for its restart.
    Backoff,
    /// It died too often within the window.
    Quarantined,
    /// Its session is being ended.
    Ending,
    /// Its session ended after the agent reported that it is finished.
    Finished,
    /// It was stopped or suspended, or its restart type lets it rest.
    Stopped,
}

/// An event in the life of a child.
#[derive(Debug, Clone)]
pub enum Event {
    /// It is to have a session.
    Wanted(Cause),
    /// An operator starts it.
    Woken(Cause),
    /// Its suspension is over, or its account is open again.
    Resumed,
    /// Its configuration changed.
    Respecified,
    /// The agents that it depends on are up.
    Ready,
    /// The timer with this token has fired.
    Due(Token),
    /// Its actor could not be spawned for the start with this token.
    Unspawned(Token, String),
    /// Its session came up at that time.
    Up(Mono),
    /// Its actor ended; without a reason where it was told to stop.
    Exited(Option<ChildExit>),
    /// Its session ended of its account's limit or login.
    OutOfAccount {
        /// The limit or the login.
        cause: Cause,
        /// The session's words about it.
        text: String,
    },
    /// Its actor ended because the supervisor stops.
    ShutDown {
        /// Set when its session was up.
        was_up: bool,
        /// Set when its session runs on.
        is_kept: bool,
    },
    /// The sweep with this token is over.
    Swept(Token, Result<(), EndRefused>),
    /// Its session is to be ended now, and the child forgotten.
    End(Cause),
    /// Its session is to be ended now, and the child forgotten, unless that is under way.
    Remove(Cause),
    /// Its session is to be ended for now.
    Rest(Cause),
    /// Its session is to be replaced.
    Cycle {
        /// The reason.
        cause: Cause,
        /// The tail of its terminal, if its end is a death.
        tail: Option<String>,
        /// The progress of its work, if it hands off.
        progress: Progress,
    },
    /// It is to end in its own time: its pool needs fewer members.
    Drain,
    /// It is needed after all.
    KeepOn,
    /// The drain with this token has lasted long enough; none when the child itself reports that it has ended its work.
    DrainDue(Option<Token>),
    /// The restart of its group has come to it: it ends, and waits for its turn.
    AwaitTurn,
    /// Its turn in the restart of its group has come.
    Turn,
    /// It waits for its group no longer.
    Alone,
}

/// An action that the root carries out.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start or adopt its session, in an actor of its own.
    Spawn {
        /// The mark of this start.
        token: Token,
        /// Set when its last session came to no planned end: if it does not run, it died.
        unattended: bool,
        /// Set when its last session died.
        crashed: bool,
    },
    /// Tell its actor to end the session.
    EndActor,
    /// Tell its actor to end the session; where there is none, end any session that it may still have:
    /// [`Event::Swept`].
    EndSession(Token),
    /// Arm a timer: [`Event::Due`].
    Arm {
        /// Its token.
        token: Token,
        /// The delay.
        after: Duration,
    },
    /// Give it time to end its work, and tell it: [`Event::DrainDue`].
    ArmDrain(Token),
    /// Tell it that it is needed after all.
    KeepOn,
    /// Restart the other members of its group, and itself in its turn, after this delay.
    RestartGroup(Duration),
    /// End the delay of its group's restart.
    EndGroupDelay,
    /// Go on with the restart of its group.
    AdvanceGroup,
    /// Answer the callers that wait for its session.
    AnswerUp(Result<(), String>),
    /// Answer the operators that wait for its session.
    AnswerWake(Result<(), String>),
    /// Answer the callers that wait for its end.
    AnswerEnd(Result<(), EndRefused>),
    /// Journal this.
    Journal(EventType, Cause),
    /// Journal the end of its session, with how it was ended.
    JournalEnd(EventType, Cause),
    /// Journal its death, and block the relic of a raider that is quarantined.
    Died(Box<Death>),
    /// Journal a handoff of that time, and call a person or close that call.
    HandedOff(Pace, Timestamp),
    /// Journal that its sandbox is missing.
    NoSandbox(String),
    /// Log that its start is put off.
    PutOff(String),
    /// Call a person: its sessions end of their account again and again, the last with this text.
    CallAboutParks(String),
    /// Close that call.
    SettleParks,
    /// Unblock the relic of a raider that an operator starts.
    Unblock,
    /// Keep the death history of a child that may come back.
    Leave,
    /// Tell the witness that a raider has finished.
    Finished,
    /// Look again: something was not acted on meanwhile.
    Look,
}

/// The death of a child, or an end that its restart type accepts as good.
#[derive(Debug, Clone, PartialEq)]
pub struct Death {
    /// The end of the actor.
    pub exit: Option<ChildExit>,
    /// The tail of the terminal, where it was read before the end.
    pub tail: Option<String>,
    /// The recorded exit of the session.
    pub how: Option<SessionExit>,
    /// The cause.
    pub cause: Cause,
    /// Set when an attached person ended the session: no death.
    pub by_person: bool,
    /// Set when the restart type accepts this end: no crash.
    pub is_good: bool,
    /// Set when the child rests after it.
    pub rests: bool,
    /// The quarantine that follows.
    pub quarantine: Option<QuarantineReport>,
}

/// The part of a child in the restart of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It takes no part, or no restart is under way.
    None,
    /// It is the member whose death began the restart.
    Culprit,
    /// It is one of the others.
    Member,
}

/// The facts that a step depends on.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The child.
    pub id: &'a ChildId,
    /// The wall clock.
    pub now: Timestamp,
    /// The monotonic clock.
    pub mono: Mono,
    /// The mark of what this step begins. No other step has it, of any child.
    pub token: Token,
    /// A random number in 0..1, for the jitter of a back-off.
    pub random: f64,
    /// The restart policy in force.
    pub policy: &'a RestartPolicy,
    /// The time between two patrols.
    pub patrol: Duration,
    /// Its restart type.
    pub restart: RestartType,
    /// Set when everything that it depends on is up.
    pub may_start: bool,
    /// Why its account is parked, if it is.
    pub parked: Option<Cause>,
    /// Set when it, its rig or its city is suspended.
    pub is_suspended: bool,
    /// Set when its death restarts other members of its group.
    pub concerns_others: bool,
    /// Its part in the restart of its group.
    pub turn: Turn,
    /// Set while a caller waits for its session, and unwinds if there is none.
    pub is_awaited: bool,
    /// Set while an operator waits for its session.
    pub operator_waits: bool,
}

/// The memory of a child from one phase to the next. Lost with the process on purpose: everything but the death
/// counts is observed again.
#[derive(Debug, Clone)]
struct Memory {
    /// The cause of the last start, or of what prevents it.
    cause: Cause,
    deaths: DeathWindow,
    brake: CycleBrake,
    handoffs: HandoffBrake,
    /// Set when an earlier supervisor left a session that came to no planned end: if it does not run, it died.
    unattended: bool,
    /// Set when the last session died and none was up since.
    crashed: bool,
    /// Set when the quarantine expired and no operator has acted since.
    on_trial: bool,
    /// The reason of the last quarantine.
    died_of: Option<String>,
    /// Number of sessions in a row that ended of their account's trouble soon after their start.
    parks: u32,
    /// Set when a missing sandbox prevented the start, and that was journalled.
    no_sandbox: bool,
    /// Why the start was put off: the run state was unknown, or nothing could be written.
    unseen: Option<String>,
    /// The rest of a child that an operator tries to start: if that fails, it rests again for the same reason.
    tried: Option<Rest>,
    /// The mark of the drain of a draining member: it ends in its own time and is not started again.
    drain: Option<Token>,
}

/// A child.
#[derive(Debug, Clone)]
pub struct Child {
    phase: ChildPhase,
    since: Timestamp,
    memory: Memory,
}

/// The presence of a child's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It has no actor, and no order or restart type keeps it from a start.
    Waiting,
    /// It has no actor, and rests.
    Resting,
    /// Its session is being started.
    Coming,
    /// Its session is up.
    Up,
    /// Its session is being ended, and none follows.
    Leaving,
}

impl ChildPhase {
    /// Returns the state that is shown. A session that is to be replaced counts as up until it has ended.
    #[must_use]
    pub fn state(&self) -> ChildState {
        match self {
            Self::Replacing {
                by: Successor::Group,
                ..
            }
            | Self::Leaving { .. } => ChildState::Ending,
            Self::Starting { .. } | Self::Replacing { up_at: None, .. } => ChildState::Starting,
            Self::Running { .. } | Self::Replacing { up_at: Some(_), .. } => ChildState::Running,
            Self::Blocked => ChildState::Blocked,
            Self::Backoff { .. } => ChildState::Backoff,
            Self::Quarantined { .. } => ChildState::Quarantined,
            Self::Finished => ChildState::Finished,
            Self::Resting(_) | Self::Gone => ChildState::Stopped,
        }
    }

    fn presence(&self) -> Presence {
        match self {
            Self::Starting { .. } | Self::Replacing { up_at: None, .. } => Presence::Coming,
            Self::Running { .. } | Self::Replacing { up_at: Some(_), .. } => Presence::Up,
            Self::Leaving { .. } => Presence::Leaving,
            Self::Blocked | Self::Backoff { .. } | Self::Quarantined { .. } | Self::Finished => {
                Presence::Waiting
            }
            Self::Resting(_) | Self::Gone => Presence::Resting,
        }
    }

    /// Returns the token that it waits for.
    fn token(&self) -> Option<Token> {
        match self {
            Self::Starting { token } => Some(*token),
            Self::Replacing { start, .. } => *start,
            Self::Leaving { sweep, .. } => Some(*sweep),
            Self::Backoff { due, .. } | Self::Quarantined { due } => match due {
                Due::Timer(token) => Some(*token),
                Due::Group => None,
            },
            Self::Blocked
            | Self::Running { .. }
            | Self::Finished
            | Self::Resting(_)
            | Self::Gone => None,
        }
    }

    /// Returns the phase in which its session is replaced; the phase itself where it has no session to replace.
    fn replaced(self, by: Successor) -> Self {
        let (up_at, start) = match self {
            Self::Starting { token } => (None, Some(token)),
            Self::Running { up_at } => (Some(up_at), None),
            Self::Replacing { up_at, start, .. } => (up_at, start),
            phase => return phase,
        };
        Self::Replacing { by, up_at, start }
    }
}

#[cfg(test)]
mod tests;
