//! What the root keeps of one child, and what it shows of it.

use std::time::Duration;

use jiff::Timestamp;
use ractor::{ActorId, ActorRef, RpcReplyPort};

use super::super::mail::{self, ChildState, ChildView, EndRefused, Meant};
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
    /// Its group is restarted: it ends, and starts again in its turn.
    Together,
}

pub(super) type Waiting<T, E> = Vec<RpcReplyPort<Result<T, E>>>;

/// What the root keeps of one child. Lost with the process, on purpose: everything but the death
/// counts is found again by looking.
pub(super) struct Slot {
    pub(super) spec: ChildSpec,
    pub(super) actor: Option<ActorRef<ChildMsg>>,
    pub(super) desired: Desired,
    pub(super) state: ChildState,
    pub(super) deaths: DeathWindow,
    /// An earlier supervisor left a session behind that came to no planned end: if it does not run,
    /// it died.
    pub(super) unattended: bool,
    /// Its last session died, and none was up since.
    pub(super) crashed: bool,
    pub(super) brake: CycleBrake,
    pub(super) handoffs: HandoffBrake,
    /// What the session that hands off has to show for its work.
    pub(super) progress: Progress,
    pub(super) epoch: u64,
    pub(super) generation: Generation,
    pub(super) session: Option<SessionView>,
    /// It was let out of its quarantine when that ended, and nobody has acted since.
    pub(super) on_trial: bool,
    /// What it died of when it was put into quarantine last.
    pub(super) died_of: Option<String>,
    /// Since when its session is up.
    pub(super) up_at: Option<Mono>,
    pub(super) since: Timestamp,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) cause: Cause,
    /// It is to come to an end in its own time; nobody starts it again.
    pub(super) draining: bool,
    /// What it is to be told when nobody is at its terminal and nothing is asked there.
    pub(super) words: Option<PoolNotice>,
    /// Tells the drain that goes on from those before it.
    pub(super) drain_epoch: u64,
    /// It waits for its turn in the restart of its group.
    pub(super) together: bool,
    /// How it was told to end, when everything ends.
    pub(super) told: Option<StopMode>,
    pub(super) for_up: Waiting<(), String>,
    /// Its sandbox was not there when it was to be started, and that was said.
    pub(super) homeless: bool,
    /// Why it was put off when it was to be started: whether its session runs could not be seen, or nothing
    /// could be written.
    pub(super) unseen: Option<String>,
    /// Operators that wait for the session they asked for.
    pub(super) for_wake: Waiting<(), String>,
    /// How many of its sessions in a row ended of their account's trouble soon after their start.
    pub(super) parked: u32,
    /// Since when they were seen to wait.
    pub(super) wake_waited: Option<Mono>,
    /// It was at rest until an operator tried to start it: should that fail, it rests again.
    pub(super) tried: bool,
    /// How its last session was ended, if it was told to end.
    pub(super) how: Option<Stopped>,
    pub(super) for_end: Waiting<(), EndRefused>,
    /// The end of its terminal, seen before it is ended for being dead inside.
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
            for_up: Vec::new(),
            homeless: false,
            unseen: None,
            for_wake: Vec::new(),
            parked: 0,
            wake_waited: None,
            tried: false,
            how: None,
            for_end: Vec::new(),
            tail: None,
        }
    }

    pub(super) fn is(&self, actor: ActorId) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|child| child.get_id() == actor)
    }

    /// Whether this child is what is meant.
    pub(super) fn is_meant(&self, meant: &Meant) -> bool {
        let of = mail::incarnation(&self.spec);
        let has = |token: &String| match &self.session {
            Some(session) => session.handle.token == *token,
            // What may still run of it is looked at when it is ended.
            None => !self.has_actor(),
        };
        meant.incarnation.is_none_or(|meant| of == Some(meant))
            && (!meant.at_rest || self.rests())
            && meant.token.as_ref().is_none_or(has)
    }

    /// Whether nothing starts it by itself for now.
    fn rests(&self) -> bool {
        use ChildState::{Finished, Quarantined, Stopped};
        !self.has_actor() && matches!(self.state, Quarantined | Stopped | Finished)
    }

    /// Whether its session is being ended for good or for a rest.
    pub(super) fn is_ending(&self) -> bool {
        let resting = matches!(self.desired, Desired::Resting(_));
        matches!(self.desired, Desired::Ended(_)) || resting && self.state == ChildState::Ending
    }

    /// Why it has no session, when its account is parked.
    pub(super) fn parked(&self) -> Option<Cause> {
        match self.desired {
            Desired::Resting(cause @ (Cause::RateLimit | Cause::Login)) => Some(cause),
            _ => None,
        }
    }

    /// Whether it has no session because somebody, or its restart type, wants none.
    pub(super) fn is_at_rest(&self) -> bool {
        let ended = matches!(self.desired, Desired::Ended(_) | Desired::Resting(_));
        ended || self.state == ChildState::Stopped
    }

    /// The event of its end, with how its session was ended.
    pub(super) fn ended(&self, kind: EventType, cause: Cause) -> NewEvent {
        let event = NewEvent::new(kind, &self.spec.id, cause);
        match self.how {
            Some(how) => event.with(serde_json::json!({ "how": format!("{how:?}") })),
            None => event,
        }
    }

    /// Tells those who wait for its session that there will be none.
    pub(super) fn no_session(&mut self, why: &str) {
        answer(&mut self.for_up, &Err(why.to_owned()));
        answer(&mut self.for_wake, &Err(why.to_owned()));
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

    /// It waits so long before it is tried again.
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

    /// Tells the actor; false when there is none.
    pub(super) fn tell(&self, msg: ChildMsg) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|child| child.cast(msg).is_ok())
    }
}

/// Answers everybody who waits; who gave up waiting is not an error.
pub(super) fn answer<T: Clone + Send + 'static, E: Clone + Send + 'static>(
    waiting: &mut Waiting<T, E>,
    result: &Result<T, E>,
) {
    for reply in waiting.drain(..) {
        let _gave_up = reply.send(result.clone());
    }
}
