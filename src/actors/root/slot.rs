//! The root's record of a child, and its view.

use std::time::Duration;

use jiff::Timestamp;
use ractor::{ActorId, ActorRef, RpcReplyPort};

use super::super::mail::{self, ChildRef, ChildState, ChildView, EndRefused};
use crate::actors::mail::{ChildSpec, SessionView, StopMode};
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::handoff::{CycleBrake, HandoffBrake, Progress};
use crate::domain::ids::Generation;
use crate::domain::prompt::PoolNotice;
use crate::domain::restart::{DeathWindow, Mono, RestartPolicy};
use crate::ports::sessions::Stopped;

pub(super) enum Desired {
    Up,
    Cycle(Cause),
    Ended(Cause),
    Resting(Cause),
    /// The group restarts: the child ends, and starts again in its turn.
    Together,
}

pub(super) type Waiting<T, E> = Vec<RpcReplyPort<Result<T, E>>>;

/// The root's record of a child. Lost with the process on purpose: everything but the death counts is observed again.
pub(super) struct Slot {
    pub(super) spec: ChildSpec,
    pub(super) actor: Option<ActorRef<ChildMsg>>,
    pub(super) desired: Desired,
    pub(super) state: ChildState,
    pub(super) deaths: DeathWindow,
    /// Set when an earlier supervisor left a session that came to no planned end: if it does not run, it died.
    pub(super) unattended: bool,
    /// Set when the last session died and none was up since.
    pub(super) crashed: bool,
    pub(super) brake: CycleBrake,
    pub(super) handoffs: HandoffBrake,
    /// The progress that a handing-off session has made.
    pub(super) progress: Progress,
    pub(super) epoch: u64,
    pub(super) generation: Generation,
    pub(super) session: Option<SessionView>,
    /// Set when the quarantine expired and no operator has acted since.
    pub(super) on_trial: bool,
    /// The reason of the last quarantine.
    pub(super) died_of: Option<String>,
    /// When the session came up.
    pub(super) up_at: Option<Mono>,
    pub(super) since: Timestamp,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) cause: Cause,
    /// Set for a draining member: it ends in its own time and is not started again.
    pub(super) draining: bool,
    /// A notice to be typed when no person is attached and no dialog is open.
    pub(super) words: Option<PoolNotice>,
    /// Makes timers of earlier drains void.
    pub(super) drain_epoch: u64,
    /// Set while the child waits for its turn in a group restart.
    pub(super) together: bool,
    /// The stop mode that it was told when the supervisor stops.
    pub(super) told: Option<StopMode>,
    pub(super) waiting_up: Waiting<(), String>,
    /// Set when a missing sandbox prevented the start, and that was journalled.
    pub(super) homeless: bool,
    /// Why the start was put off: the run state was unknown, or nothing could be written.
    pub(super) unseen: Option<String>,
    /// Operators that wait for the session they asked for.
    pub(super) waiting_wake: Waiting<(), String>,
    /// Number of sessions in a row that ended of their account's trouble soon after their start.
    pub(super) parked: u32,
    /// When the wait of these operators was first seen.
    pub(super) wake_waited: Option<Mono>,
    /// Set when an operator tried to start a resting child: if that fails, it rests again.
    pub(super) tried: bool,
    /// The way in which the last session was ended, if it was told to end.
    pub(super) how: Option<Stopped>,
    pub(super) waiting_end: Waiting<(), EndRefused>,
    /// The tail of the terminal, read before a session with a dead agent is ended.
    pub(super) tail: Option<String>,
}

impl Slot {
    pub(super) fn new(spec: ChildSpec, now: Timestamp, cause: Cause) -> Self {
        Self {
            spec,
            actor: None,
            desired: Desired::Up,
            state: ChildState::Starting,
            deaths: DeathWindow::default(),
            unattended: false,
            crashed: false,
            brake: CycleBrake::default(),
            handoffs: HandoffBrake::default(),
            progress: None,
            epoch: 0,
            generation: Generation(1),
            session: None,
            on_trial: false,
            died_of: None,
            up_at: None,
            since: now,
            retry_at: None,
            cause,
            draining: false,
            words: None,
            drain_epoch: 0,
            together: false,
            told: None,
            waiting_up: Vec::new(),
            homeless: false,
            unseen: None,
            waiting_wake: Vec::new(),
            parked: 0,
            wake_waited: None,
            tried: false,
            how: None,
            waiting_end: Vec::new(),
            tail: None,
        }
    }

    pub(super) fn is(&self, actor: ActorId) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|child| child.get_id() == actor)
    }

    /// Returns true when the child matches `meant`.
    pub(super) fn is_meant(&self, meant: &ChildRef) -> bool {
        let of = mail::incarnation(&self.spec);
        let has = |token: &String| match &self.session {
            Some(session) => session.handle.token == *token,
            // A session that may still run is checked when it is ended.
            None => !self.has_actor(),
        };
        meant.incarnation.is_none_or(|meant| of == Some(meant))
            && (!meant.at_rest || self.rests())
            && meant.token.as_ref().is_none_or(has)
    }

    /// Returns true when the child has no actor and is not started automatically.
    fn rests(&self) -> bool {
        use ChildState::{Finished, Quarantined, Stopped};
        !self.has_actor() && matches!(self.state, Quarantined | Stopped | Finished)
    }

    /// Returns true when the session is being ended for good or for a rest.
    pub(super) fn is_ending(&self) -> bool {
        let resting = matches!(self.desired, Desired::Resting(_));
        matches!(self.desired, Desired::Ended(_)) || resting && self.state == ChildState::Ending
    }

    /// Returns why the child has no session when its account is parked.
    pub(super) fn parked(&self) -> Option<Cause> {
        match self.desired {
            Desired::Resting(cause @ (Cause::RateLimit | Cause::Login)) => Some(cause),
            _ => None,
        }
    }

    /// Returns true when the child has no session because of an order or its restart type.
    pub(super) fn is_at_rest(&self) -> bool {
        let ended = matches!(self.desired, Desired::Ended(_) | Desired::Resting(_));
        ended || self.state == ChildState::Stopped
    }

    /// Returns the event of the child's end, with how its session was ended.
    pub(super) fn ended(&self, kind: EventType, cause: Cause) -> NewEvent {
        let event = NewEvent::new(kind, &self.spec.id, cause);
        match self.how {
            Some(how) => event.with(serde_json::json!({ "how": format!("{how:?}") })),
            None => event,
        }
    }

    /// Tells the callers that wait for the session that there will be none.
    pub(super) fn no_session(&mut self, why: &str) {
        answer(&mut self.waiting_up, &Err(why.to_owned()));
        answer(&mut self.waiting_wake, &Err(why.to_owned()));
    }

    pub(super) fn has_actor(&self) -> bool {
        self.actor.is_some()
    }

    pub(super) fn state_now(&self) -> ChildState {
        self.state
    }

    pub(super) fn grace(&self) -> Duration {
        self.spec.grace
    }

    pub(super) fn kill(&self) {
        if let Some(child) = &self.actor {
            child.kill();
        }
    }

    pub(super) fn become_state(&mut self, state: ChildState, now: Timestamp) {
        self.state = state;
        self.since = now;
        self.retry_at = None;
    }

    /// Puts the child into back-off for `wait`.
    pub(super) fn back_off(&mut self, now: Timestamp, wait: Duration) {
        self.become_state(ChildState::Backoff, now);
        self.retry_at = now.checked_add(wait).ok();
    }

    pub(super) fn view(&mut self, policy: &RestartPolicy, now: Timestamp, mono: Mono) -> ChildView {
        let until = self.deaths.quarantined_until(mono);
        ChildView {
            spec: self.spec.clone(),
            state: self.state,
            session: self.session.clone(),
            restarts: self.deaths.count(policy, mono),
            died_within: self.deaths.span(policy, mono),
            died_of: (self.died_of.clone()).filter(|_| self.state == ChildState::Quarantined),
            quarantined_until: until
                .filter(|_| self.state == ChildState::Quarantined)
                .and_then(|until| now.checked_add(until.saturating_sub(mono)).ok()),
            since: self.since,
            retry_at: self.retry_at,
            draining: self.draining,
            suspended: matches!(self.desired, Desired::Resting(Cause::Suspended)),
            parked: self.parked(),
            drifted: self.spec.is_drifted(self.session.as_ref()),
        }
    }

    /// Sends a message to the actor; false when there is none.
    pub(super) fn send(&self, msg: ChildMsg) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|child| child.cast(msg).is_ok())
    }
}

/// Answers all waiting callers; a caller that has stopped waiting is no error.
pub(super) fn answer<T: Clone + Send + 'static, E: Clone + Send + 'static>(
    waiting: &mut Waiting<T, E>,
    result: &Result<T, E>,
) {
    for reply in waiting.drain(..) {
        let _gave_up = reply.send(result.clone());
    }
}
