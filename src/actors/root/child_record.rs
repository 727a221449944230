//! The root's record of a child: its state machine (`domain/child.rs`), and what belongs to the process: the actor, the
//! session and the callers that wait.

use std::time::Duration;

use jiff::Timestamp;
use ractor::{ActorId, ActorRef, RpcReplyPort};

use super::super::mail::{self, ChildRef, ChildState, ChildView, EndRefused};
use crate::actors::mail::{ChildSpec, SessionView, StopMode, Work};
use crate::actors::session::child::ChildMsg;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::child::{Child, ChildPhase, Leave, Rest};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Generation, RelicId};
use crate::domain::prompt::PoolNotice;
use crate::domain::restart::{Mono, RestartPolicy};
use crate::ports::sessions::Stopped;

pub(super) type Waiting<T, E> = Vec<RpcReplyPort<Result<T, E>>>;

/// The root's record of a child.
pub(super) struct ChildRecord {
    pub(super) spec: ChildSpec,
    /// Changed by its own steps ([`super::Root::step`]), and filled from its history at the start.
    pub(super) child: Child,
    pub(super) actor: Option<ActorRef<ChildMsg>>,
    pub(super) session: Option<SessionView>,
    /// The least generation of the next session.
    pub(super) generation: Generation,
    /// A notice to be typed when no person is attached and no dialog is open.
    pub(super) words: Option<PoolNotice>,
    /// Set while the child waits for its turn in a group restart.
    pub(super) together: bool,
    /// The stop mode that it was told when the supervisor stops.
    pub(super) stop_sent: Option<StopMode>,
    /// The way in which the last session was ended, if it was told to end.
    pub(super) how: Option<Stopped>,
    /// The session that is to be ended; none for any of the spec.
    pub(super) meant: Option<ChildRef>,
    /// The caller of the last order, if a caller gave it.
    pub(super) asker: Option<Asker>,
    pub(super) waiting_up: Waiting<(), String>,
    /// Operators that wait for the session they asked for.
    pub(super) waiting_wake: Waiting<(), String>,
    /// When the wait of these operators was first seen.
    pub(super) wake_waited: Option<Mono>,
    pub(super) waiting_end: Waiting<(), EndRefused>,
}

impl ChildRecord {
    pub(super) fn new(spec: ChildSpec, child: Child) -> Self {
        Self {
            spec,
            child,
            actor: None,
            session: None,
            generation: Generation(1),
            words: None,
            together: false,
            stop_sent: None,
            how: None,
            meant: None,
            asker: None,
            waiting_up: Vec::new(),
            waiting_wake: Vec::new(),
            wake_waited: None,
            waiting_end: Vec::new(),
        }
    }

    /// Returns the relic that a raider works on.
    pub(super) fn relic(&self) -> Option<RelicId> {
        match &self.spec.work {
            Work::Raider { hook, .. } => Some(hook.relic.clone()),
            Work::Agent(_) => None,
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
        !self.has_actor() && matches!(self.child.state(), Quarantined | Stopped | Finished)
    }

    /// Returns the event of the child's end, with how its session was ended.
    pub(super) fn ended(&self, kind: EventType, cause: Cause) -> NewEvent {
        let event = NewEvent::new(kind, &self.spec.id, cause);
        match self.how {
            Some(how) => event.with(serde_json::json!({ "how": format!("{how:?}") })),
            None => event,
        }
    }

    pub(super) fn has_actor(&self) -> bool {
        self.actor.is_some()
    }

    pub(super) fn grace(&self) -> Duration {
        self.spec.grace
    }

    pub(super) fn kill(&self) {
        if let Some(child) = &self.actor {
            child.kill();
        }
    }

    pub(super) fn view(&mut self, policy: &RestartPolicy, now: Timestamp, mono: Mono) -> ChildView {
        let state = self.child.state();
        let until = self.child.deaths().quarantined_until(mono);
        let (retry_at, rest) = match self.child.phase() {
            ChildPhase::Backoff { until, .. } => (*until, None),
            ChildPhase::Resting(rest) => (None, Some(*rest)),
            // A suspension is shown from its beginning.
            ChildPhase::Leaving {
                to: Leave::Rest(cause),
                ..
            } => (None, Some(Rest::Order(*cause))),
            _ => (None, None),
        };
        // While it is tried, too.
        let is_waiting = matches!(state, ChildState::Backoff | ChildState::Starting);
        let put_off = self.child.unseen().filter(|_| is_waiting).cloned();
        let parked = match rest {
            Some(Rest::Order(cause @ (Cause::RateLimit | Cause::Login))) => Some(cause),
            Some(Rest::Order(_) | Rest::Over) | None => None,
        };
        ChildView {
            spec: self.spec.clone(),
            state,
            session: self.session.clone(),
            restarts: self.child.deaths().count(policy, mono),
            died_within: self.child.deaths().span(policy, mono),
            died_of: self.child.died_of().cloned(),
            quarantined_until: until
                .filter(|_| state == ChildState::Quarantined)
                .and_then(|until| now.checked_add(until.saturating_sub(mono)).ok()),
            since: self.child.since(),
            // The next try is no start yet.
            retry_at: retry_at.filter(|_| put_off.is_none()),
            put_off,
            draining: self.child.is_draining(),
            suspended: rest == Some(Rest::Order(Cause::Suspended)),
            parked,
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
